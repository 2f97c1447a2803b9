"""The tables and runs of a lake after its loads: facts, queries and maintenance."""
