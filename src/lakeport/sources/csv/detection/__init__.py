"""What a CSV file's beginning tells of how it is written."""
