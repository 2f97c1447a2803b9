"""The keys of each destination, a module for each."""
