"""Newline-delimited JSON -> record batches of exactly the declared types.

The native kernel reads lines that are exactly as declared. All others are parsed record by record,
and every line where the kernel can't be loaded. Which way a record went makes no difference to its
values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from lakeport.errors import BadRecord, BadRecords, UnknownFields
from lakeport.model import Scan, Split, UnknownPolicy
from lakeport.schema.types import Field
from lakeport.sources.json.columns import RecordLayout, columns_of, schema_of
from lakeport.sources.json.native import Unknown
from lakeport.sources.json.split_reader import OnBad, OnUnknown, SplitReader, merge_unknown
from lakeport.sources.singer.metadata import Metadata

_ONE_A_LINE = (
    "JSON lines hold one object on each line. A file with objects over several lines, or with "
    "several on one, is read if it is called `.json`, or with `--source-format json`."
)
_columns_of = lru_cache(maxsize=64)(columns_of)


@dataclass(frozen=True, slots=True)
class JsonReader:
    """Source kernel for files of one JSON record per line; a `lakeport.model.Reader`.

    Splits begin and end between two lines, and may leave the last newline out. Blank lines are
    passed over.

    Attributes:
        stream: the stream's name.
        fields: the declared columns.
        envelope: whether lines are Singer RECORD messages of this stream.
        unknown: what to do with undeclared fields. Undeclared members of declared objects can't
            become columns: they are dropped with `drop`. Otherwise they make the record bad, unless
            the object has a member for them (`FieldType.rest`).
        skip_bad: whether `read` leaves bad records out.
        key_properties: columns without which a record is bad.
        extra: undeclared fields that are columns, with their table types.
        max_record_mb: MiB that a line may have.
        metadata: what the target knows about the records, for `fields` with the metadata's
            columns (see `sources.singer.metadata`).

    Raises:
        InputError: column names are empty or differ only in case.
    """

    stream: str
    fields: tuple[Field, ...]
    envelope: bool
    unknown: UnknownPolicy = UnknownPolicy.EVOLVE
    skip_bad: bool = False
    key_properties: tuple[str, ...] = ()
    extra: tuple[tuple[str, pa.DataType], ...] = ()
    max_record_mb: int = 100
    metadata: Metadata | None = None

    def __post_init__(self) -> None:
        """Check the columns' names.

        Raises:
            InputError: one is empty, or two differ only in case.
        """
        _columns_of(self.stream, self.fields, self.extra, self.key_properties, self.unknown)

    @property
    def layout(self) -> RecordLayout:
        """How its records are written, and the columns that they are read as."""
        columns = _columns_of(
            self.stream, self.fields, self.extra, self.key_properties, self.unknown
        )
        return RecordLayout(columns, self.unknown, self.envelope, self.metadata)

    @property
    def schema(self) -> pa.Schema:
        """The columns that `read` yields, in order: the declared ones, then `extra`."""
        return schema_of(self.layout.columns)

    def tolerant(self) -> JsonReader:
        """The same reader with `skip_bad`."""
        return replace(self, skip_bad=True)

    def extended(self, unknown: Mapping[str, pa.DataType]) -> JsonReader:
        """The same reader with these undeclared fields as columns behind the others.

        Raises:
            InputError: a name is empty, or differs from another column's only in case.
        """
        return replace(self, extra=(*self.extra, *unknown.items()))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Read a split, about 4 MB of its lines at a time.

        Raises:
            BadRecords: a record breaks the schema (unless `skip_bad`).
            UnknownFields: a record holds an undeclared field (unless they are dropped).
            SourceError: the file can't be read.
        """
        on_bad = self._skip if self.skip_bad else self._fail
        return self._split_reader(on_bad, self._surprise).batches(split)

    def scan(self, split: Split) -> Scan:
        """Check every record of a split without raising for bad records or unknown fields.

        With policy `drop`, `unknown` also has the dotted paths of undeclared members of objects.

        Raises:
            SourceError: the file can't be read.
        """
        bad: list[BadRecord] = []
        unknown: Unknown = {}
        reader = self._split_reader(
            bad.append, lambda found, _: merge_unknown(unknown, found), survey=True
        )
        rows = sum(batch.num_rows for batch in reader.batches(split))
        return Scan(
            rows=rows,
            bad=tuple(bad),
            unknown={name: kind for name, (kind, _) in unknown.items()},
            unknown_values={name: count for name, (_, count) in unknown.items()},
        )

    def _split_reader(
        self, on_bad: OnBad, on_unknown: OnUnknown, *, survey: bool = False
    ) -> SplitReader:
        return SplitReader(
            self.stream, self.layout, self.max_record_mb << 20, on_bad, on_unknown, survey=survey
        )

    def _skip(self, bad: BadRecord) -> None:
        """The scan has counted it."""

    def _fail(self, bad: BadRecord) -> None:
        torn = not self.envelope and bad.reason in {"cut off", "not JSON"}
        raise BadRecords((bad,), hint=_ONE_A_LINE if torn else "")

    def _surprise(self, found: Unknown, line: int) -> None:
        if self.unknown is UnknownPolicy.DROP:
            return
        name = next(iter(found))
        where = f" (line {line})" if line else ""
        raise UnknownFields(
            f"stream {self.stream!r} holds the field {name!r}, which its schema does not "
            f"declare{where}",
            f"the policy is `unknown_fields: {self.unknown.value}`: declare the field in the "
            "stream's schema, or choose `evolve` to add it as a column or `drop` to leave it out.",
        )
