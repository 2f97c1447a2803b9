"""The door for users of Mage: its flags, its log lines, its keys.

What it accepts and where lakeport differs is told in docs/mage.md and docs/compatibility.md.
"""
