"""A batch's columns beside its table's: notes on what changes, and explanations of type conflicts.

An explanation has the first value that does not fit, and the commands that end the conflict. Some
conflicts end by dropping the type of a column without a value.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.config.explain import closest_match
from lakeport.engine.failures import translate_errors
from lakeport.errors import LakeportError, SchemaConflict
from lakeport.model import Mode
from lakeport.schema.casting import InexactError, can_convert, convert_exactly
from lakeport.schema.evolution import (
    Evolution,
    TypeConflict,
    can_store,
    describe_changes,
    find_common_type,
)
from lakeport.schema.hints import find_parent_column, format_alter_command
from lakeport.schema.nested import (
    UnexpectedValue,
    change_child_types,
    list_parts,
    restore_untyped,
)
from lakeport.schema.spark_schema import quote_identifier
from lakeport.schema.types import TIMESTAMP, format_type

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.loading.batches import BatchPart
    from lakeport.model import Batch, Reader, Split
    from lakeport.writers.base import ExistingTable, TablePlan, TableWriter

_MOST_ROWS: Final = 1 << 20  # rows of a part that are searched for a misfit
_DECLARABLE: Final = {pa.int64(), pa.float64(), pa.bool_(), pa.date32(), TIMESTAMP}
_ALIKE: Final = 0.75  # similarity of names from which one may be the other, misspelt
_MOST_RENAMES: Final = 10
_MOST_CHARACTERS: Final = 40  # of a value that an error quotes
_IF_EXACT: Final = ", if every value is such a one"
_SPOOL_PREFIX: Final = re.compile(r"^[0-9]{6}-[0-9a-f]{8}-")  # the spool puts it before a name
_SPOOL_FILE: Final = re.compile(r"frame-[0-9]{6}\.arrows|[0-9]{8}(?:-[0-9]{4})?\.jsonl")


@dataclass
class ChangeNotes:
    """Notes on what a stream's batches change in its table: each column and each hint once.

    Attributes:
        hinted: hint -> the stream whose notes have it. Loads share it among their streams.
    """

    writer: TableWriter
    config: DestinationConfig
    hinted: dict[str, str] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _begun: bool = False

    def describe(self, batch: Batch, plan: TablePlan, parts: Sequence[BatchPart]) -> Iterator[str]:
        """Yield notes on a batch: changes of columns, and rows that are added beside their keys."""
        changes, strict = plan.evolution, ""
        if changes.added and not changes.replaced and self._hint("strict", batch.stream):
            strict = (
                "; `schema_evolution: strict` (`--schema-evolution strict`) refuses new columns, "
                "`--expect 'columns: same'` absent ones, too"
            )
        if told := describe_changes(changes, self.config.mode, self._known):
            yield f"{told}{strict}"
        yield from _suggest_renames(changes, parts, self._known)
        self._known |= {*changes.added, *changes.missing, *changes.respelled}
        begun, self._begun = self._begun, True
        keys = batch.key_properties or self.config.merge_keys
        if begun or not keys or self.config.mode is not Mode.APPEND:
            return
        if self.writer.had_rows(plan) and self._hint("keys", batch.stream):
            declares = "the stream declares" if batch.key_properties else "`merge_keys` names"
            place = "" if self.config.file_type == "delta" else " in a Delta table"
            yield (
                f"{declares} keys ({', '.join(keys)}), and these rows are added to those that the "
                f"table had; `mode: merge` (`--mode merge`){place} updates instead of adding"
            )

    def _hint(self, hint: str, stream: str) -> bool:
        """Whether no other stream's notes have this hint; they are never to have it from now on."""
        return self.hinted.setdefault(hint, stream) == stream


def _suggest_renames(
    changes: Evolution, parts: Sequence[BatchPart], known: Collection[str]
) -> Iterator[str]:
    """Yield a question for each added column, not in `known`, that reads like an absent one.

    Only the first ten are compared, as all names of wide tables take long.
    """
    sources = {table: source for part in parts for source, table in part.shape.names}
    for name in changes.added[:_MOST_RENAMES]:
        like = closest_match(name, changes.missing, cutoff=_ALIKE)
        if like and name in sources and name not in known:
            option = shlex.quote(f"{sources[name]}={like}")
            yield f"is {name!r} the table's {like!r}? `--rename {option}` lands it there"


def explain_conflict(
    conflict: TypeConflict, table: str, existing: ExistingTable | None, misfit: str = ""
) -> SchemaConflict:
    """Return the error for a type conflict, with `misfit` and the commands that resolve it.

    `table` is the table's URI. `misfit` is the first value that does not fit, in words, or empty.
    The types of partition columns, and of plain files, can't be changed.
    """
    hints = []
    nested = (
        existing is not None and conflict.path not in existing.schema.names
    )  # no option names a part
    column = (
        find_parent_column(conflict.path, existing.schema.names)
        if existing and nested
        else conflict.path
    )
    wanted = (None if nested else find_common_type(conflict.table, conflict.new)) or pa.json_()
    if wanted == conflict.table and misfit:
        wanted = pa.string()
    alters = existing is None or existing.version >= 0
    if existing is not None and conflict.path in existing.partition_keys:
        hints.append(f"{conflict.path!r} is a partition column, whose type stays.")
    elif alters and column and wanted != conflict.table:
        name, it = format_type(wanted), f"all of {column!r}" if nested else "it"
        hints.append(f"{format_alter_command(table, column, name)} makes {it} {name} in the table.")
        if not (wanted == pa.json_() or can_store(conflict.new, wanted)):
            declared = shlex.quote(f"{conflict.path}={name}")
            inexact = wanted == pa.float64() and pa.types.is_decimal(conflict.new)
            unless = _IF_EXACT if inexact else ""
            hints.append(f"With `--column {declared}` this load goes into it then{unless}.")
    text = pa.types.is_string(conflict.table)
    may_fit = text or (conflict.table in _DECLARABLE and not misfit)
    if may_fit and not nested and can_convert(conflict.new, conflict.table):
        declared = shlex.quote(f"{conflict.path}={format_type(conflict.table)}")
        unless = "" if text else _IF_EXACT
        hints.append(f"`--column {declared}` lands it as the table has it{unless}.")
    either = "Or " if hints else ""
    hint = f"{' '.join(hints)} {either}{conflict.hint}".strip()
    more = f"; the first value that does not fit: {misfit}" if misfit else ""
    return SchemaConflict(conflict.message + more, hint)


def find_misfit(conflict: TypeConflict, parts: Sequence[BatchPart]) -> str:
    """Describe the first value, and its row, that does not fit the table's column; or return "".

    Reads up to a million rows of each part. Empty, too, where every value is of the wrong kind.
    """
    for part in parts:
        names = {new.lower(): old for old, new in part.shape.names}
        column = names.get(conflict.path.lower(), "")
        if column and part.reader is not None:
            splits = part.batch.splits
            if misfit := _first_misfit(part.reader, splits, column, conflict.table):
                return misfit
    return ""


def _first_misfit(reader: Reader, splits: Sequence[Split], column: str, type_: pa.DataType) -> str:
    """Describe a column's first value, and its row, that `type_` can't hold exactly; or return "".

    Empty, too, where the rows can't be read.
    """
    try:
        for name, row, rows in _read_with_row_offsets(reader, splits):
            values = rows.column(column)
            if not can_convert(values.type, type_):
                return ""
            try:
                convert_exactly(values, type_)
            except InexactError as error:
                text = repr(error.value) if isinstance(error.value, str) else str(error.value)
                cut = f"{text[: _MOST_CHARACTERS - 1]}…"
                shown = text if len(text) <= _MOST_CHARACTERS else cut
                return f"{shown} in row {row + error.index + 1:,} of {name or 'the batch'}"
    except (LakeportError, KeyError):
        pass  # the conflict is what the user has to know
    return ""


def _read_with_row_offsets(
    reader: Reader, splits: Sequence[Split]
) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """Yield (file name, number of the file's earlier rows, batch), up to a million rows.

    The name is empty for what lakeport has spooled: users know no name of it. Ends after a million
    rows.
    """
    uri, row, seen = "", 0, 0
    for split in splits:
        name = PurePosixPath(split.uri).name
        name = "" if _SPOOL_FILE.fullmatch(name) else _SPOOL_PREFIX.sub("", name)
        if split.uri != uri and name:
            row = 0
        uri = split.uri
        for batch in reader.read(split):
            yield name, row, batch
            row += len(batch)
            seen += len(batch)
            if seen >= _MOST_ROWS:
                return


def clear_type(conflict: TypeConflict, parts: Sequence[BatchPart]) -> list[BatchPart] | None:
    """Set the type of a conflicting column or member to null; None if a row has a value there.

    Also None where the user declares the type. Reads all rows of the parts.
    """
    cleared = []
    for part in parts:
        shape, path = part.shape, f"{conflict.path.lower()}."
        columns = {f"{new.lower()}.": (old, new) for old, new in shape.names}
        prefix = max((name for name in columns if path.startswith(name)), key=len, default=None)
        if prefix is None:
            cleared.append(part)
            continue
        source, name = columns[prefix]
        known = shape.untyped.get(source, shape.source.field(source).type)
        members = [member for member in path.removeprefix(prefix).split(".") if member]
        type_ = _null_member(known, members)
        if type_ is None or source in shape.rules.types or not _is_empty(part, source, type_):
            return None
        schema = pa.schema([f.with_type(type_) if f.name == name else f for f in shape.schema])
        untyped = {**shape.untyped, source: type_}
        cleared.append(replace(part, shape=replace(shape, schema=schema, untyped=untyped)))
    return cleared


def _null_member(type_: pa.DataType, path: Sequence[str]) -> pa.DataType | None:
    """Return a type with the member at `path` set to null; None for unknown ones and map keys."""
    if not path:
        return pa.null()
    name, *rest = path
    parts = list_parts(type_)
    place = next((i for i, (part, _) in enumerate(parts) if part.lower() == name), None)
    if place is None or (pa.types.is_map(type_) and name == "key"):
        return None
    inner = _null_member(parts[place][1].type, rest)
    types = [inner if i == place else part.type for i, (_, part) in enumerate(parts)]
    return None if inner is None else change_child_types(type_, types)


def _is_empty(part: BatchPart, column: str, type_: pa.DataType) -> bool:
    """Whether a column has no value where `type_` is null, also nested; False if unreadable."""
    try:
        if (frame := part.frame) is not None:
            with translate_errors():
                values = frame.where(frame[quote_identifier(column)].isNotNull())
                return pa.types.is_null(type_) and bool(values.isEmpty())
        for split in part.batch.splits:
            for batch in part.reader.read(split) if part.reader else ():
                restore_untyped(batch.column(column), type_)
    except (LakeportError, UnexpectedValue):
        return False
    return True
