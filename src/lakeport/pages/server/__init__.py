"""The pages, served to the one user who started it.

```
request ─▶ gate: is it for this address, from here, with the token? ─▶ site: the page, in a thread
```
What is refused says nothing of the lake. Why it is kept so:
docs/adr/0029-pages-are-served-to-one-user.md.
"""
