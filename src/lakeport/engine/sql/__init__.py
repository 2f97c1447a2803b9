"""Frames of Spark and SQL over them, whichever session they are of."""
