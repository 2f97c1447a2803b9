"""Pages of a lake, a table, a run and a plan: composed, written to a file, or served."""
