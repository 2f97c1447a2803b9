"""Commits to a Delta table: tried, and what became of them."""
