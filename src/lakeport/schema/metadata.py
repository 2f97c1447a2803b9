"""Names of the columns that Singer's record metadata have, as Meltano's SDK defines them."""

from __future__ import annotations

__all__ = ["DELETED_AT", "SEQUENCE", "TABLE_VERSION"]

DELETED_AT = "_sdc_deleted_at"
SEQUENCE = "_sdc_sequence"
TABLE_VERSION = "_sdc_table_version"
