"""Histories: several writers change one table under faults and kills, and every version is checked.

```
plan ──▶ writer processes ──journals──▶ checker ◀──commits and contents── delta-rs
            └─ proxy that fails requests ─▶ S3 or Azure emulator
```
`python -m tests.histories --help` plays one for as long as it is told.
"""
