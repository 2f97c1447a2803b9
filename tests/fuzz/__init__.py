"""Hostile input, for long: `python -m tests.fuzz --help`.

```
generate/<kind>.py   a seed and a number  -> one input (`Case`)
oracle/<kind>.py     that input, read by lakeport and by an independent reader -> nothing, or raises
runner.py            batches of inputs in child processes: a crash or a hang is seen and named
shrinking.py         the smallest part of an input that still does it
```
"""
