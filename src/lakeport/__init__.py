"""Lands Singer streams, files and frames in a data lake, on Spark."""
