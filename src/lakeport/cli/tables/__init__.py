"""Commands about tables: of a lake, of one table, and of what keeps it in order."""
