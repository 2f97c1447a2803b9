"""Delta tables through delta-spark: what only it can commit, and what only Spark can read."""
