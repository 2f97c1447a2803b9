"""Warm sessions: one Spark of a user's on a machine that stays for a while, and how to reach it.

Only Python's own library is imported here: a run that goes through a warm session begins here.
"""
