"""Transforms of a source's rows before they land: a query, a Python function, or both."""
