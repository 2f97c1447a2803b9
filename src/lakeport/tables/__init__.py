"""Tables after a load: looking at them, asking them, keeping them in order."""

from lakeport.tables.table import Table

__all__ = ["Table"]
