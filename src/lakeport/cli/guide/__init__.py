"""What helps to begin and to go on: folders to start from, and the pages of the documentation."""
