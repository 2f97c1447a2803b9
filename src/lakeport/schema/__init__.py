"""What columns mean: declared types, their storage types, and JSON read exactly as declared."""
