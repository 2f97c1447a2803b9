"""Options that make a description of a source."""
