"""Merges: the rows of a batch take the place of a table's rows with the same keys."""
