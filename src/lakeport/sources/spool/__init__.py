"""The spool: what the driver writes so that tasks can read it."""
