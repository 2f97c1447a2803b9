"""Every request of a load fails once, in every way, and nothing is lost.

```
proxy ─▶ recording of a clean run ─▶ cases (request × fault) ─▶ load, repeat ─▶ oracle
```
`python -m tests.faults.requests --help` runs all cases, or one by its id.
"""
