"""Delta tables as a source: whole, or the rows that came since the target's last load.

```
log's commits ─▶ changes ─▶ Spark's frame of added files, or the change feed ─▶ one batch
```
"""
