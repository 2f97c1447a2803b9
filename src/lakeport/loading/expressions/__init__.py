"""Spark SQL of one row, computed by Arrow where that gives exactly what Spark gives.

```
text ─▶ syntax ─▶ bound to a schema, typed by Spark's rules ─▶ Arrow's kernels, in the tasks
```
Whatever has no rule here is `Beyond`, and Spark computes it: texts that are not parsed, types and
functions that are not known, and values that fail or that the two might tell differently.
"""
