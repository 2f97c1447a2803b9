"""What is made and expected of rows, and those that were set aside."""
