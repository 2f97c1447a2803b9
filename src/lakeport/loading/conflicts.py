"""A column that does not fit its table: what the user can do, and the value it is about."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.errors import LakeportError, SchemaConflict
from lakeport.schema.casting import InexactError, can_convert, convert_exactly
from lakeport.schema.evolution import TypeConflict, can_store, find_common_type
from lakeport.schema.hints import find_parent_column, format_alter_command
from lakeport.schema.types import TIMESTAMP, format_type

if TYPE_CHECKING:
    from lakeport.model import Reader, Split
    from lakeport.writers.base import Current

_ROWS = 1 << 20
_DECLARABLE = {pa.int64(), pa.float64(), pa.bool_(), pa.date32(), TIMESTAMP}
_LONGEST = 40
_UNLESS = ", if every value is such a one"
_SPOOLED = re.compile(r"^[0-9]{6}-[0-9a-f]{8}-")  # what the spool puts before a file's name
_OURS = re.compile(r"frame-[0-9]{6}\.arrows|[0-9]{8}(?:-[0-9]{4})?\.jsonl")


def explain_conflict(
    conflict: TypeConflict, table: str, now: Current | None, misfit: str = ""
) -> SchemaConflict:
    """The conflict with the commands that end it.

    Args:
        conflict: what a writer found.
        table: the table's URI.
        now: the table; its partition columns' types can't be changed, nor those of files.
        misfit: the first value that does not fit, in words.
    """
    said = []
    nested = now is not None and conflict.path not in now.schema.names  # no option names a part
    column = (
        find_parent_column(conflict.path, now.schema.names) if now and nested else conflict.path
    )
    wanted = (None if nested else find_common_type(conflict.table, conflict.new)) or pa.json_()
    if wanted == conflict.table and misfit:
        wanted = pa.string()
    alters = now is None or now.version >= 0
    if now is not None and conflict.path in now.partition_keys:
        said.append(f"{conflict.path!r} is a partition column, whose type stays.")
    elif alters and column and wanted != conflict.table:
        name, it = format_type(wanted), f"all of {column!r}" if nested else "it"
        said.append(f"{format_alter_command(table, column, name)} makes {it} {name} in the table.")
        if not (wanted == pa.json_() or can_store(conflict.new, wanted)):
            declared = shlex.quote(f"{conflict.path}={name}")
            loses = wanted == pa.float64() and pa.types.is_decimal(conflict.new)
            unless = _UNLESS if loses else ""
            said.append(f"With `--column {declared}` this load goes into it then{unless}.")
    text = pa.types.is_string(conflict.table)
    may_fit = text or (conflict.table in _DECLARABLE and not misfit)
    if may_fit and not nested and can_convert(conflict.new, conflict.table):
        declared = shlex.quote(f"{conflict.path}={format_type(conflict.table)}")
        unless = "" if text else _UNLESS
        said.append(f"`--column {declared}` lands it as the table has it{unless}.")
    either = "Or " if said else ""
    hint = f"{' '.join(said)} {either}{conflict.hint}".strip()
    more = f"; the first value that does not fit: {misfit}" if misfit else ""
    return SchemaConflict(conflict.message + more, hint)


def first_misfit(reader: Reader, splits: Iterable[Split], column: str, table: pa.DataType) -> str:
    """The first value of a column that a type does not have, and where it stands, in words.

    Args:
        reader: reads the splits.
        splits: in the files' order; the first million rows are looked at.
        column: as the source names it.
        table: the type.

    Returns:
        Nothing where none is found, as where every value is of the wrong kind.
    """
    try:
        for name, row, rows in _numbered(reader, splits):
            values = rows.column(column)
            if not can_convert(values.type, table):
                return ""
            try:
                convert_exactly(values, table)
            except InexactError as error:
                text = repr(error.value) if isinstance(error.value, str) else str(error.value)
                shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
                return f"{shown} in row {row + error.index + 1:,} of {name or 'the batch'}"
    except (LakeportError, KeyError):
        pass  # the conflict is what the user has to know
    return ""


def _numbered(reader: Reader, splits: Iterable[Split]) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """Record batches, each with its file's name and how many rows of that came before.

    What frames and Singer messages are spooled to has no name that a user knows.
    """
    uri, row, seen = "", 0, 0
    for split in splits:
        name = PurePosixPath(split.uri).name
        name = "" if _OURS.fullmatch(name) else _SPOOLED.sub("", name)
        if split.uri != uri and name:
            row = 0
        uri = split.uri
        for batch in reader.read(split):
            yield name, row, batch
            row += len(batch)
            seen += len(batch)
            if seen >= _ROWS:
                return
