"""Batches of a load: their columns and kernels, and how they are split into tasks."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.engine.failures import translate_errors
from lakeport.errors import LakeportError, SchemaConflict
from lakeport.loading.conflicts import first_misfit
from lakeport.loading.expect.arrow import Findings, Sieve
from lakeport.model import Batch, Mode, Reader, Split, Staged
from lakeport.schema.casting import can_narrow, normalise_schema
from lakeport.schema.evolution import TypeConflict, can_store, plan_evolution
from lakeport.schema.nested import UnexpectedValue, change_field_type, is_json, restore_untyped
from lakeport.schema.spark_schema import from_spark_json, quote_identifier
from lakeport.schema.types import format_type, get_logical_type
from lakeport.shape import Shape
from lakeport.sources.csv.reader import CsvReader
from lakeport.sources.files.folders import FolderReader

if TYPE_CHECKING:
    from lakeport.engine.base import DataFrame
    from lakeport.loading.transform.transform import TransformedBatch
    from lakeport.writers.base import TablePlan


_MOST_OF_TWO: Final = 1.7  # a task is said to have too much beyond this multiple of its fair share,
_LEAST: Final = 0.3  # and of the whole


def merge_batches(batches: Sequence[Batch]) -> Batch:
    """Merge batches that land in one commit into one that stands for them."""
    if len(batches) == 1:
        return batches[0]
    digests = "".join(batch.digest for batch in batches)
    return replace(
        batches[-1],
        records=sum(batch.records for batch in batches),
        bytes=sum(batch.bytes for batch in batches),
        notes=tuple(dict.fromkeys(note for batch in batches for note in batch.notes)),
        digest=hashlib.sha256(digests.encode()).hexdigest() if digests else "",
    )


def group_splits(splits: Sequence[Split], count: int) -> list[tuple[Split, ...]]:
    """Split into contiguous groups of about equal size, at most `count` and none empty.

    >>> [len(group) for group in group_splits([Split("a")] * 5, 2)]
    [3, 2]
    """
    count = max(1, min(count, len(splits)))
    size, larger = divmod(len(splits), count)
    found, start = [], 0
    for i in range(count):
        end = start + size + (i < larger)
        found.append(tuple(splits[start:end]))
        start = end
    return found


def skew_warnings(staged: Sequence[Staged], cores: int, min_file_bytes: int) -> tuple[str, ...]:
    """Warn where one task wrote most of a batch that was large enough to be shared.

    Args:
        staged: what the tasks have written.
        cores: how many of them ran at once.
        min_file_bytes: of twice as much it is worth it.
    """
    sizes = Counter[int]()
    for one in staged:
        sizes[one.split] += one.bytes
    if cores == 1 or not sizes:
        return ()
    (task, most), total = sizes.most_common(1)[0], sizes.total()
    share = most / max(1, total)
    if total < 2 * min_file_bytes or share < max(_MOST_OF_TWO / cores, _LEAST):
        return ()
    return (
        f"task {task} wrote {share:.0%} of the bytes while {cores} cores were there: the "
        "input's parts are of uneven size; `repartition` a frame, or write Parquet in smaller "
        "row groups.",
    )


def columns_of(batch: Batch) -> pa.Schema:
    """The columns of a batch as its source has them."""
    if batch.reader is not None:
        return batch.reader.schema
    if batch.frame is None:
        raise TypeError("a batch has a reader or a frame")
    return normalise_schema(from_spark_json(batch.frame.schema.json()))


def opened_columns(batch: Batch, columns: pa.Schema) -> pa.Schema:
    """A reader's columns, with the types of `lakeport.schema.nested` where the batch has none."""
    return pa.schema([change_field_type(f, batch.untyped.get(f.name, f.type)) for f in columns])


def read_columns(batches: Sequence[Batch]) -> dict[str, str]:
    """The columns of batches as their source has them, with types in words; frames tell none."""
    schemas = [batch.reader.schema for batch in batches if batch.reader is not None]
    return {f.name: format_type(get_logical_type(f)) for schema in schemas for f in schema}


def describe_columns(incoming: pa.Schema, plan: TablePlan) -> dict[str, str]:
    """The columns that a batch brought, as the table spells and types them, in words."""
    known = {f.name.lower(): f for f in plan.schema if f.name not in plan.untyped}
    fields = [known.get(field.name.lower(), field) for field in incoming]
    return {field.name: format_type(get_logical_type(field)) for field in fields}


def union_columns(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Unite the columns of batches that land in one commit, in order of first appearance.

    Raises:
        SchemaConflict: two of them don't go together.
    """
    merged = schemas[0]
    for schema in schemas[1:]:
        try:
            merged = plan_evolution(merged, schema, "evolve", Mode.APPEND, fresh=True).schema
        except TypeConflict as conflict:  # of two batches: no table's column is to blame
            raise SchemaConflict(conflict.message, conflict.hint) from None
    return merged


@dataclass(frozen=True)
class Part:
    """One batch with its kernels.

    Attributes:
        batch: the batch.
        reader: None where a frame is run.
        shape: of the rows that land.
        sieve: holds them to what is expected of them.
        frame: is run in place of the reader.
        made: how the frame was made.
    """

    batch: Batch
    reader: Reader | None
    shape: Shape
    sieve: Sieve | None = None
    frame: DataFrame | None = None
    made: TransformedBatch | None = None

    def without(self, files: Collection[str]) -> Part:
        """The same without some files."""
        splits = tuple(split for split in self.batch.splits if split.uri not in files)
        size = self.batch.bytes * len(splits) // max(1, len(self.batch.splits))
        return replace(self, batch=replace(self.batch, splits=splits, bytes=size, records=-1))

    def fitted(self, table: pa.Schema) -> Part:
        """Return the part with columns in the table's types, where their values may have equals.

        Numbers stay the same numbers, moments the same moments. A text column takes what a CSV
        file says as it stands there; nothing else becomes text.
        """
        there = {f.name.lower(): f.type for f in table if not is_json(f)}
        narrowed, texts, types = dict(self.shape.narrowed), set[str](), dict[str, pa.DataType]()
        for source, name in self.shape.names:
            own, wanted = self.shape.schema.field(name), there.get(name.lower(), pa.null())
            type_ = own.type
            nothing = is_json(own) or pa.types.is_null(type_) or pa.types.is_null(wanted)
            if nothing or source in self.shape.rules.types or type_ == wanted:
                continue
            if can_narrow(type_, wanted) and not can_store(type_, wanted):
                narrowed[source] = types[name] = wanted
            elif pa.types.is_string(wanted) and not pa.types.is_nested(type_):
                texts.add(source)
        reader = self.reader and _as_text(self.reader, texts)
        if reader:
            types |= {name: pa.string() for source, name in self.shape.names if source in texts}
        source = reader.schema if reader else self.shape.source
        schema = pa.schema([f.with_type(types.get(f.name, f.type)) for f in self.shape.schema])
        shape = replace(self.shape, source=source, schema=schema, narrowed=narrowed)
        return replace(self, reader=reader or self.reader, shape=shape)


def _as_text(reader: Reader, columns: Collection[str]) -> Reader | None:
    """Return a reader that gives columns of CSV files as they stand there; None for others."""
    if isinstance(reader, FolderReader):
        inner = _as_text(reader.inner, columns)
        return inner and replace(reader, inner=inner)
    return reader.as_text(columns) if columns and isinstance(reader, CsvReader) else None


def staged_objects(results: Sequence[Staged | Findings]) -> list[Staged]:
    """The staged objects among what tasks give."""
    return [one for one in results if isinstance(one, Staged)]


@dataclass(frozen=True)
class Task:
    """The splits of one batch that one task lands."""

    part: Part
    splits: tuple[Split, ...]

    @property
    def bytes(self) -> int:
        """About how many bytes it reads; -1 where that is unknown."""
        batch = self.part.batch
        return max(-1, batch.bytes * len(self.splits) // max(1, len(batch.splits)))


def find_misfit(conflict: TypeConflict, parts: Sequence[Part]) -> str:
    """Find the first value for which the table's column is too narrow; return it in words."""
    for part in parts:
        names = {new.lower(): old for old, new in part.shape.names}
        column = names.get(conflict.path.lower(), "")
        if column and part.reader is not None:
            found = first_misfit(part.reader, part.batch.splits, column, conflict.table)
            if found:
                return found
    return ""


def clear_type(conflict: TypeConflict, parts: Sequence[Part]) -> list[Part] | None:
    """The parts without a type in the place of a conflict, if none of their rows has a value there.

    Returns:
        None where there is a value, or the user declares the type. Reads all rows of the parts.
    """
    found = []
    for part in parts:
        shape, path = part.shape, f"{conflict.path.lower()}."
        columns = {f"{new.lower()}.": (old, new) for old, new in shape.names}
        at = max((name for name in columns if path.startswith(name)), key=len, default=None)
        if at is None:
            found.append(part)
            continue
        source, name = columns[at]
        known = shape.untyped.get(source, shape.source.field(source).type)
        type_ = _voided(known, [one for one in path.removeprefix(at).split(".") if one])
        if type_ is None or source in shape.rules.types or not _is_empty(part, source, type_):
            return None
        schema = pa.schema([f.with_type(type_) if f.name == name else f for f in shape.schema])
        untyped = {**shape.untyped, source: type_}
        found.append(replace(part, shape=replace(shape, schema=schema, untyped=untyped)))
    return found


def _voided(type_: pa.DataType, path: Sequence[str]) -> pa.DataType | None:
    """A type with null in the place of a path; None where there is no such place."""
    if not path:
        return pa.null()
    name, *rest = path
    if pa.types.is_struct(type_):
        members = list(type_)
        at = next((i for i, f in enumerate(members) if f.name.lower() == name), None)
        inner = None if at is None else _voided(members[at].type, rest)
        if at is None or inner is None:
            return None
        members[at] = members[at].with_type(inner)
        return pa.struct(members)
    if pa.types.is_list(type_) and name == "element":
        inner = _voided(type_.value_type, rest)
        return None if inner is None else pa.list_(type_.value_field.with_type(inner))
    if pa.types.is_map(type_) and name == "value":
        inner = _voided(type_.item_type, rest)
        return None if inner is None else pa.map_(type_.key_type, type_.item_field.with_type(inner))
    return None


def _is_empty(part: Part, column: str, type_: pa.DataType) -> bool:
    """Whether no row of a part has a value where a column's type is null."""
    try:
        if (frame := part.frame) is not None:
            with translate_errors():
                found = frame.where(frame[quote_identifier(column)].isNotNull())
                return pa.types.is_null(type_) and bool(found.isEmpty())
        for split in part.batch.splits:
            for batch in part.reader.read(split) if part.reader else ():
                restore_untyped(batch.column(column), type_)
    except (LakeportError, UnexpectedValue):
        return False
    return True
