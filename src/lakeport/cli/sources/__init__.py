"""Options of `lakeport land` for sources that are more than files."""
