"""Delta tables through delta-spark: commits and reads that only it can do."""
