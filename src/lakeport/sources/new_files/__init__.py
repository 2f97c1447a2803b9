"""Files of which a table gets those that it has not had: what it has had lies beside it.

```
places ─▶ listing, sorted ─┐
                           ├─▶ compare ─▶ new files ─▶ one batch, with the bookmark `files`
bookmark ─▶ segments ──────┘
```
"""
