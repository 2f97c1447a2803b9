"""A lake after its loads: its tables and runs, their facts, queries and maintenance."""
