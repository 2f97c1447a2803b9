"""Spark: the session of this process, its JVM, and the jobs that run there."""
