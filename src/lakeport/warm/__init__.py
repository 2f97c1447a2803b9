"""A warm session: the process that stays, the runs that go through it, and the Spark it lends."""
