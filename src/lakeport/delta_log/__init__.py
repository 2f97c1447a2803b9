"""A Delta table's log, read from its files without Spark."""
