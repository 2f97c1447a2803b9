"""Expectations of the rows that a load lands: checked in its tasks, enforced before the commit."""
