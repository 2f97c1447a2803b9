"""Blocks of lines at a time: each way gives exactly what the slow path would give, or gives up."""
