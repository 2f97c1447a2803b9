"""Facts as HTML: numbers, tables and pictures (inline SVG), for pages and notebooks.

```
tables, loading ─facts─▶ parts (one idea each) ─Markup─▶ pages, `_repr_html_`
```
Whatever comes in is text until it is escaped here: `Markup` alone is taken for HTML.
"""
