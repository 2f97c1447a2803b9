"""Frames in memory, and Spark's, as a source."""
