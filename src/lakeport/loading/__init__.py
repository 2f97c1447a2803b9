"""A load: prepared, run or planned, checked, and reported."""
