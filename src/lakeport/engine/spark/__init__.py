"""Spark: which one, how it is started or joined, how work is run on it, how it fails."""
