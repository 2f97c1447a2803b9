"""Logs of Delta tables, read from their files without Spark; and their checkpoints, written."""
