"""Sources of CSV: bytes are cut into records, and converted to typed columns."""
