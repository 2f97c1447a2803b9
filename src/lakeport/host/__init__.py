"""This machine: the cache folder, private scratch folders, core dumps."""
