"""What pages show of tables: filled in from logs, footers, manifests and reports, without Spark."""

from __future__ import annotations

from lakeport.tables.overview.lake import lake_facts
from lakeport.tables.overview.table import table_and_rows, table_facts

__all__ = ["lake_facts", "table_and_rows", "table_facts"]
