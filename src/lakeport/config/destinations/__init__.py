"""Config classes of the destinations, a module for each store."""
