"""Warm sessions: the process that keeps Spark, the client of a command, and the run's process."""
