"""Spark frames and SQL on them, in any session."""
