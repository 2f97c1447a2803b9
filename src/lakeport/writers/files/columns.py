"""Record the columns of a table of files, which every later file has to fit.

```
_lakeport/schemas/<table>/00000000.json   the columns that the first load wrote
_lakeport/schemas/<table>/00000001.json   one was added, or got its first value
```
Objects are only created, so that of two loads that change the columns at once, one is refused and
plans again. A table without a record, made by another tool or an earlier version, has the columns
of its newest Parquet file. Reading costs each load a listing and a small object.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.errors import LakeportError, ObjectExists, PermissionRefused, SchemaConflict
from lakeport.schema.casting import normalise_schema
from lakeport.schema.evolution import Evolution, EvolutionPolicy, plan_evolution
from lakeport.schema.nested import to_file_field
from lakeport.schema.types import format_type
from lakeport.writers.naming import columns_folder

if TYPE_CHECKING:
    from lakeport.model import Storage, StoredObject

_VERSION = 1
_LISTED = 1000  # files among which the newest is looked for


@dataclass(frozen=True)
class RecordedColumns:
    """Newest record of a table's columns, or the columns of its newest Parquet file.

    Attributes:
        schema: the columns, of the type null where no value came yet; None if none are known.
        number: the record's number; -1 for none.
        readable: whether the store allowed to list and read.
        modified: when the record was made, in seconds since 1970; 0 if unknown.
        pending: whether files may still have text where a column has another type; see `retype`.
    """

    schema: pa.Schema | None = None
    number: int = -1
    readable: bool = True
    modified: float = 0.0
    pending: bool = False


@dataclass(frozen=True)
class ColumnLog:
    """Numbered JSON records of one table's columns: reads the newest one, and adds further ones.

    Attributes:
        table: the table's folder below the root, date folders not included.
    """

    storage: Storage
    table: str

    @property
    def uri(self) -> str:
        """The folder of the records, as users name it."""
        return self.storage.uri(self.folder)

    def read(self) -> RecordedColumns:
        """Return the newest record, else the columns of the newest Parquet file.

        Raises:
            DestinationError: the store fails; if it denies access, `readable` is false instead.
        """
        try:
            found = {self._number(item.key): item for item in self.storage.list(self.folder)}
            newest = max(found, default=-1)
            data = self.storage.get(self._key(newest)) if newest >= 0 else None
        except PermissionRefused:
            return self._read_by_name()
        record = _decode_record(data)
        if record is None:
            return self._read_footer(newest)
        return replace(record, number=newest, modified=found[newest].modified)

    def write(self, number: int, schema: pa.Schema, *, pending: bool = False) -> None:
        """Create record `number`; ObjectExists if there is one with other content.

        Raises:
            DestinationError: the store refuses.
        """
        data = _encode_record(schema, pending)
        try:
            self.storage.put(self._key(number), data, create_only=True)
        except ObjectExists:
            if self.storage.get(self._key(number)) != data:
                raise

    def has_files(self) -> bool:
        """Whether the table has any object."""
        return next(iter(self.storage.list(self.table)), None) is not None

    @property
    def folder(self) -> str:
        """The folder of the records below the root."""
        return columns_folder(self.table)

    def _key(self, number: int) -> str:
        """Return the key of a record."""
        return f"{self.folder}/{number:08d}.json"

    def _number(self, key: str) -> int:
        """Return the number in a record's key; -1 for another object."""
        text = key.rpartition("/")[2].partition(".")[0]
        return int(text) if text.isdecimal() else -1

    def _read_by_name(self) -> RecordedColumns:
        """Return the last record, read by number from 0 on, as the store denies listing.

        A store may deny reading an absent object as well: that ends the search, too.
        """
        found, number = RecordedColumns(readable=False), 0
        try:
            while (data := self.storage.get(self._key(number))) is not None:
                record = _decode_record(data) or RecordedColumns()
                found, number = replace(record, number=number), number + 1
        except PermissionRefused:
            pass
        return found

    def _read_footer(self, number: int) -> RecordedColumns:
        """Return the newest Parquet file's columns; files in the folder go before subfolders'.

        Columns without a value are null. No schema if there is no such file, or it is damaged.
        """
        try:
            listed = islice(self.storage.list(self.table), _LISTED)
            files = [item for item in listed if self._is_data(item)]
            direct = [item for item in files if "/" not in item.key[len(self.table) + 1 :]]
            newest = max(direct or files, key=lambda item: (item.modified, item.key), default=None)
            if newest is None:
                return RecordedColumns(number=number)
            with self.storage.open(newest.key) as file:
                footer = pq.ParquetFile(file)
                schema = normalise_schema(footer.schema_arrow)
                return RecordedColumns(_without_nulls(schema, footer.metadata), number)
        except PermissionRefused:
            return RecordedColumns(number=number, readable=False)
        except (LakeportError, pa.ArrowException, OSError):  # damaged, or with types of no table
            return RecordedColumns(number=number)

    def _is_data(self, item: StoredObject) -> bool:
        """Whether an object is a `.parquet` file with bytes, and no part of its path is hidden."""
        path = item.key[len(self.table) + 1 :]
        hidden = any(part.startswith(("_", ".")) for part in path.split("/"))
        return path.endswith(".parquet") and not hidden and item.bytes > 0


def plan_columns(
    known: pa.Schema | None, incoming: pa.Schema, policy: str, *, typed: bool
) -> tuple[Evolution, pa.Schema, tuple[str, ...]]:
    """Plan a batch: return the evolution to its files' columns, the table's columns, warnings.

    Args:
        known: the table's columns; None where there is no table.
        incoming: the batch's columns.
        policy: `strict`, `evolve`, or `loose`, by which files may have other types than the table.
        typed: whether the format stores types. Without, only names and their order count.

    Returns:
        The evolution to the files' columns, the table's columns, and warnings where they differ.

    Raises:
        SchemaConflict: as `plan_evolution`.
    """
    rule = EvolutionPolicy.STRICT if policy == "strict" else EvolutionPolicy.EVOLVE
    if known is None or (typed and policy != "loose"):
        plan = plan_evolution(known, incoming, rule)
        return plan, plan.schema, ()
    coming = {field.name.lower(): field for field in incoming}
    own: dict[str, pa.Field] = {}
    for field in known:
        new = coming.get(field.name.lower())
        if new is not None and not (typed and _fits(field, new)):
            own[field.name] = new.with_name(field.name)
    plan = plan_evolution(_replace_fields(known, own), incoming, rule)
    warnings = [
        f"column {name!r} is {format_type(known.field(name).type)} in the table and "
        f"{format_type(field.type)} in these files, and few readers take the two for one table."
        for name, field in own.items()
        if typed
    ]
    kept = {f.name: f for f in known if f.name in own and not pa.types.is_null(f.type)}
    return plan, _replace_fields(plan.schema, kept), tuple(warnings)


def file_columns(table: pa.Schema, *, typed: bool = True) -> pa.Schema:
    """Return the table's columns as files store them: without null columns, unless all are null.

    With `typed` false, as for CSV, null columns stay.
    """
    kept = [field for field in table if not (typed and pa.types.is_null(field.type))]
    return pa.schema([to_file_field(field) for field in (kept or table)])


def _fits(field: pa.Field, new: pa.Field) -> bool:
    """Whether a batch's column fits a table's column, also by widening it."""
    try:
        plan_evolution(pa.schema([field]), pa.schema([new]))
    except SchemaConflict:
        return False
    return True


def _replace_fields(schema: pa.Schema, fields: Mapping[str, pa.Field]) -> pa.Schema:
    """Replace columns of a schema by others of their names."""
    return pa.schema([fields.get(field.name, field) for field in schema])


def _without_nulls(schema: pa.Schema, footer: Any) -> pa.Schema:
    """Return the schema with type null for columns whose footer statistics count only nulls."""
    empty: dict[str, bool] = {}
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            stats = chunk.statistics
            nulls = stats.null_count if stats is not None and stats.has_null_count else -1
            path = chunk.path_in_schema
            empty[path] = empty.get(path, True) and nulls == chunk.num_values
    open_ = {name: pa.field(name, pa.null()) for name in schema.names if empty.get(name)}
    return _replace_fields(schema, open_)


def _encode_record(schema: pa.Schema, pending: bool) -> bytes:
    """Return a record as JSON: names and types for people, Arrow's own schema in base64."""
    content = {
        "version": _VERSION,
        "columns": [{"name": field.name, "type": str(field.type)} for field in schema],
        "arrow": base64.b64encode(schema.serialize().to_pybytes()).decode(),
        **({"pending": True} if pending else {}),
    }
    return json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")


def _decode_record(data: bytes | None) -> RecordedColumns | None:
    """Parse a record's columns; None if it is absent, damaged or of another version."""
    try:
        content = json.loads(data or b"")
        if content["version"] != _VERSION:
            return None
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["arrow"])))
        return RecordedColumns(schema, pending=content.get("pending", False))
    except (ValueError, KeyError, TypeError, pa.ArrowException, OSError):
        return None
