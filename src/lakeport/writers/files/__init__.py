"""Tables of plain files: Parquet and CSV."""
