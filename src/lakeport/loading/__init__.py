"""A load: prepared, run or planned, and what is told of it."""
