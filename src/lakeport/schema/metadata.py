"""Names of the columns that Singer's record metadata have, as Meltano's SDK defines them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa

DELETED_AT = "_sdc_deleted_at"
SEQUENCE = "_sdc_sequence"
TABLE_VERSION = "_sdc_table_version"


def lowest_version(rows: pa.RecordBatch) -> int | None:
    """Return the lowest `_sdc_table_version` of rows; None where a row has no version.

    Example:
        >>> import pyarrow as pa
        >>> lowest_version(pa.record_batch({"id": [1, 2], "_SDC_table_version": [8, 9]}))
        8
        >>> lowest_version(pa.record_batch({"_sdc_table_version": [8, None]})) is None
        True
    """
    import pyarrow.compute as pc

    names = [name.lower() for name in rows.schema.names]
    column = rows.column(names.index(TABLE_VERSION)) if TABLE_VERSION in names else None
    if column is None or column.null_count:
        return None
    try:
        lowest: int = math.floor(pc.min(column).as_py())
    except (TypeError, ValueError, OverflowError):  # text, or a number that is none
        return None
    return lowest


def lowest_of(versions: Collection[int | None]) -> int | None:
    """Return the lowest of several versions; None where one of them is None, or there is none."""
    known = [version for version in versions if version is not None]
    return min(known) if known and len(known) == len(versions) else None
