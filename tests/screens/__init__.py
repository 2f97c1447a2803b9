"""What a new user sees, kept as text: a folder of screens for each width of a terminal."""
