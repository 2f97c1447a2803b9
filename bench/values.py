"""Whether the values came through: what was landed, read back and compared with what was given.

The reader is DuckDB, over the files that delta-rs names where the table is Delta. Each column has a
fingerprint, the number of its values and the sum of their hashes, which no order changes. A column
that has another type is read as the right one first: what a reader can still get is not lost, but
the type is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import deltalake
import duckdb
import pyarrow as pa

from bench import data

UTC, LIST = "TIMESTAMP WITH TIME ZONE", "VARCHAR[]"
_BASE = {
    "id": "BIGINT",
    "name": "VARCHAR",
    "email": "VARCHAR",
    "amount": "DOUBLE",
    "active": "BOOLEAN",
    "created_at": UTC,
    "day": "DATE",
    "score": "BIGINT",
}
NESTED = {
    **_BASE,
    "tags": LIST,
    "address.city": "VARCHAR",
    "address.zip": "VARCHAR",
    "address.geo.lat": "DOUBLE",
    "address.geo.lon": "DOUBLE",
}
FLAT = {**_BASE, "city": "VARCHAR", "zip": "VARCHAR", "lat": "DOUBLE", "lon": "DOUBLE"}
"""A column, or a field of a nested one -> its type in DuckDB's words."""
ITEMS = "tags, one by one"
"""The name under which the list's items are counted, for who makes a table of them."""

Fingerprint = tuple[int, int]


def fields(input_: str) -> dict[str, str]:
    """The fields of an input and their types."""
    return FLAT if input_.startswith("csv") else NESTED


def database() -> duckdb.DuckDBPyConnection:
    """A database in memory that reads timestamps without a zone as UTC."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def truth(folder: Path, input_: str, records: int) -> dict[str, Fingerprint]:
    """The fingerprints of what is given, kept in a file for each version of DuckDB's hashes."""
    form = "flat" if input_.startswith("csv") else "nested"
    path = folder / f"events-{records}.{form}-{duckdb.__version__}.json"
    if not path.exists():
        found: dict[str, Fingerprint] = {}
        for table in data.tables(records):
            part = fingerprints(data.flat(table) if form == "flat" else table, fields(input_))
            found = {name: add(found.get(name, (0, 0)), each) for name, each in part.items()}
        path.write_text(json.dumps(found))
    return {name: (count, total) for name, (count, total) in json.loads(path.read_text()).items()}


def add(one: Fingerprint, other: Fingerprint) -> Fingerprint:
    """The fingerprint of the rows of both."""
    return one[0] + other[0], one[1] + other[1]


def fingerprints(table: pa.Table, expected: Mapping[str, str]) -> dict[str, Fingerprint]:
    """Those of a table that has every field with its type."""
    connection = database()
    connection.register("given", table)
    found = _fingerprints(connection, "given", {name: quoted(name) for name in expected})
    if "tags" in expected:
        found |= _fingerprints(
            connection, "(SELECT unnest(tags) AS item FROM given)", {ITEMS: "item"}
        )
    return found


def quoted(path: str) -> str:
    """A field's path as SQL."""
    return ".".join(f'"{part}"' for part in path.split("."))


def _fingerprints(
    connection: duckdb.DuckDBPyConnection, rows: str, columns: Mapping[str, str]
) -> dict[str, Fingerprint]:
    asked = ", ".join(f"count({each}), sum(hash({each}))" for each in columns.values())
    (row,) = connection.execute(f"SELECT {asked} FROM {rows}").fetchall()
    return {
        name: (row[2 * number], int(row[2 * number + 1] or 0))
        for number, name in enumerate(columns)
    }


@dataclass
class Comparison:
    """What became of the values.

    Attributes:
        rows: how many there are, and how many there should be.
        changed: fields whose values are others.
        absent: fields that are not there.
        retyped: fields whose values can still be read, but have another type -> that type.
        reshaped: what became of nested columns, in words.
    """

    rows: tuple[int, int]
    changed: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    retyped: dict[str, str] = field(default_factory=dict)
    reshaped: set[str] = field(default_factory=set)

    def words(self) -> str:
        """All of it in a line; "" where everything came through as it was."""
        found, given = self.rows
        types: dict[str, list[str]] = {}
        for name, kind in self.retyped.items():
            types.setdefault(kind, []).append(name)
        parts = [f"{found:,} rows of {given:,}"] if found != given else []
        parts += [f"values changed: {', '.join(self.changed)}"] if self.changed else []
        parts += [f"absent: {', '.join(self.absent)}"] if self.absent else []
        parts += [f"as {kind}: {', '.join(names)}" for kind, names in types.items()]
        return "; ".join([*parts, *sorted(self.reshaped)])


def compare(
    folder: Path, format_: str, expected: Mapping[str, str], given: Mapping[str, Fingerprint]
) -> Comparison:
    """Compare what lies in a folder with what was given."""
    connection = database()
    tables = Tables(folder, format_)
    if not tables.files:
        return Comparison((0, given["id"][0]), absent=list(expected))
    # A view of CSV would have DuckDB cast while it reads, where nothing that fails becomes null.
    kind = "TABLE" if format_ == "csv" else "VIEW"
    connection.execute(f"CREATE {kind} landed AS SELECT * FROM {tables.rows(tables.files)}")
    found = Comparison((connection.execute("SELECT count(*) FROM landed").fetchall()[0][0], 0))
    found.rows = found.rows[0], given["id"][0]
    columns: dict[str, str] = {}
    for name, kind in expected.items():
        column = find(connection, name)
        if column is not None:
            columns[name] = _as_given(connection, name, kind, column, tables, found)
        elif name == "tags" and tables.items:
            _compare_items(connection, tables, given[ITEMS], found)
        else:
            found.absent.append(name)
    for name, fingerprint in _fingerprints(connection, "landed", columns).items():
        if fingerprint != given[name]:
            emptied = {name: f"nullif({columns[name]}, '')"} if expected[name] == "VARCHAR" else {}
            how = f" as {found.retyped.pop(name)}" if name in found.retyped else ""
            if emptied and _fingerprints(connection, "landed", emptied)[name] == given[name]:
                how = " (nulls are empty texts)"
            found.changed.append(name + how)
    return found


def _as_given(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    kind: str,
    column: Column,
    tables: Tables,
    found: Comparison,
) -> str:
    """A column's SQL with the given type; what it has instead is noted."""
    actual = str(connection.execute(f"SELECT {column.sql} FROM landed LIMIT 0").description[0][1])
    if column.reshaped:
        found.reshaped.add(column.reshaped)
    if actual == kind:
        return column.sql
    if name in tables.zoned:  # Spark's files say no zone, and Delta's schema does
        return f"TRY_CAST({column.sql} AS {kind})"
    if tables.format in ("csv", "jsonl"):
        found.reshaped.add(f"no types: {tables.format.upper()}")
    else:
        found.retyped[name] = actual
    return f"TRY_CAST({column.sql} AS {kind})"


@dataclass(frozen=True)
class Column:
    """Where a field is found, as SQL, and what was done to it if it is nested no more."""

    sql: str
    reshaped: str = ""


def find(connection: duckdb.DuckDBPyConnection, name: str) -> Column | None:
    """The column that holds a field: nested, flattened, or in a column of JSON text."""
    top, _, rest = name.partition(".")
    known = {row[0]: str(row[1]) for row in connection.execute("DESCRIBE landed").fetchall()}
    if not rest:
        return Column(quoted(name)) if name in known else None
    for mark in ("__", "_", "."):
        if (flat := name.replace(".", mark)) in known:
            return Column(f'"{flat}"', "objects flattened")
    if top not in known:
        return None
    if known[top].startswith("STRUCT"):
        return Column(quoted(name))
    text = f"json_extract_string(TRY_CAST({quoted(top)} AS JSON), '$.{rest}')"
    return Column(text, "objects as text")


def _compare_items(
    connection: duckdb.DuckDBPyConnection,
    tables: Tables,
    given: Fingerprint,
    found: Comparison,
) -> None:
    """Lists that became a table of their own: their items, of whichever record."""
    found.reshaped.add("lists in a table of their own")
    items = _fingerprints(connection, tables.rows(tables.items), {ITEMS: "value"})
    if items[ITEMS] != given:
        found.changed.append("tags")


class Tables:
    """The files in a folder that hold the records, and those of a table of the lists' items.

    What other tables and logs lie there, such as dlt's own, is left out.

    Attributes:
        zoned: columns that a Delta table's schema has as timestamps with a zone.
    """

    def __init__(self, folder: Path, format_: str) -> None:
        self.format = "parquet" if format_ == "delta" else format_
        self.files: list[str] = []
        self.items: list[str] = []
        self.zoned: set[str] = set()
        for table, files in self._found(folder, format_):
            if "events__tags" in table.parts:
                self.items += files
            elif not any(part.startswith("_") for part in table.parts):
                self.files += files

    def _found(self, folder: Path, format_: str) -> Iterator[tuple[Path, Iterable[str]]]:
        if format_ == "delta":
            for log in folder.rglob("_delta_log"):
                table = deltalake.DeltaTable(log.parent)
                columns = json.loads(table.schema().to_json())["fields"]
                self.zoned |= {each["name"] for each in columns if each["type"] == "timestamp"}
                yield log.parent.relative_to(folder), table.file_uris()
            return
        suffix = {"jsonl": "json"}.get(format_, format_)
        for path in folder.rglob(f"*.{suffix}"):
            yield path.parent.relative_to(folder), [str(path)]

    def rows(self, files: list[str]) -> str:
        """These files as a table in SQL."""
        if self.format == "csv":
            return f"read_csv({files}, all_varchar=true, header=true)"
        if self.format == "jsonl":
            return f"read_json({files}, format='newline_delimited', columns={_JSON_COLUMNS})"
        return f"read_parquet({files})"


_JSON_COLUMNS = dict.fromkeys((*_BASE, "address"), "VARCHAR") | {"tags": LIST}
