"""Expectations of the rows that a load lands: told in the tasks that write them, judged before the
commit.
"""
