"""The first rows of a table as a page shows them."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from lakeport.errors import LakeportError
from lakeport.html.table import Preview
from lakeport.html.text import cut
from lakeport.schema.named import command

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.tables.views import DeltaView, FilesView

_ROWS: Final = 10
_COLUMNS: Final = 100
_LONGEST: Final = 120  # characters of a value


def preview(view: DeltaView | FilesView, uri: str) -> Preview:
    """The first rows of a table, read without Spark; a note in their place where that can't be.

    Args:
        view: has them.
        uri: the table, as users name it.
    """
    try:
        rows = view.preview(_ROWS)
    except LakeportError as error:
        return Preview(note=f"The rows can't be read: {error.message}")
    if rows is None:
        return Preview(
            note=f"Only Spark can read its files: {command('table', 'preview', uri)} does."
        )
    return _shown(rows)


def _shown(rows: pa.Table) -> Preview:
    import pyarrow as pa

    names = rows.column_names[:_COLUMNS]
    numeric = [
        pa.types.is_integer(field.type)
        or pa.types.is_floating(field.type)
        or pa.types.is_decimal(field.type)
        for field in rows.schema
    ]
    kinds = ["n" if number else "" for number in numeric[:_COLUMNS]]
    values = [rows.column(place).to_pylist() for place in range(len(names))]
    lines = [
        [(_text(column[line]), kind) for column, kind in zip(values, kinds, strict=True)]
        for line in range(len(rows))
    ]
    more = len(rows.column_names) - len(names)
    note = f"{more:,} further columns are left out." if more else ""
    return Preview(list(zip(names, kinds, strict=True)), lines, note or ("" if lines else "None."))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        value = json.dumps(value, default=_text, ensure_ascii=False)
    if isinstance(value, bytes):
        value = f"0x{value[: _LONGEST // 2].hex()}"
    if isinstance(value, (date, datetime)):
        value = value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, Decimal):
        value = format(value, "f")
    return cut(str(value), _LONGEST)
