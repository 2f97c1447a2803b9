"""The destinations that the contract suite runs on, and readers that are not lakeport's."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]


class Files(Protocol):
    """A store seen from outside lakeport: its objects by key."""

    def keys(self) -> list[str]:
        """Every object's key, relative to the target's root."""
        ...

    def read(self, key: str) -> bytes:
        """One object's content."""
        ...


@dataclass(frozen=True)
class Target:
    """One destination and format.

    Attributes:
        name: shown in the test's id.
        keys: what its config holds.
        files: the store, seen from outside.
        storage_options: what delta-rs needs to open a table there.
        uri: the root, as delta-rs names it.
    """

    name: str
    keys: dict[str, Any]
    files: Files
    uri: str
    storage_options: dict[str, str] = field(default_factory=dict)

    @property
    def format(self) -> str:
        """`delta`, `parquet` or `csv`."""
        return str(self.keys["file_type"])

    def config(self, **keys: Any) -> dict[str, Any]:
        """Its config, with further keys."""
        return {**self.keys, **keys}

    def data_keys(self, table: str) -> list[str]:
        """The table's data objects; for Delta those of the last version."""
        if self.format == "delta":
            return [f"{table}/{path}" for path in self.delta(table).file_uris()]
        return sorted(
            key
            for key in self.files.keys()  # noqa: SIM118  # not a mapping
            if key.startswith(f"{table}/") and key.endswith(f".{self.format}")
        )

    def delta(self, table: str) -> Any:
        """The table, opened by delta-rs."""
        from deltalake import DeltaTable

        return DeltaTable(f"{self.uri}/{table}", storage_options=self.storage_options or None)

    def exists(self, table: str) -> bool:
        """Whether anything of the table is visible."""
        if self.format == "delta":
            return any(
                key.startswith(f"{table}/_delta_log/0") and key.endswith(".json")
                for key in self.files.keys()  # noqa: SIM118
            )
        return bool(self.data_keys(table))

    def arrow(self, table: str) -> pa.Table:
        """Every row of a Delta or Parquet table, read by delta-rs or pyarrow."""
        if self.format == "delta":
            return pa.table(self.delta(table).to_pyarrow_table())
        return pa.concat_tables(
            [pq.read_table(io.BytesIO(self.files.read(key))) for key in self.data_keys(table)],
            promote_options="default",
        )

    def rows(self, table: str) -> list[Row]:
        """Every row. From CSV: text, with None for a field that is absent or bare."""
        if not self.exists(table):
            return []
        if self.format != "csv":
            return list(self.arrow(table).to_pylist())
        rows: list[Row] = []
        for key in self.data_keys(table):
            rows += read_csv(self.files.read(key))
        return rows

    def ids(self, table: str, column: str = "id") -> list[int]:
        """A whole-number column, sorted."""
        return sorted(int(row[column]) for row in self.rows(table))

    def expected(self, value: Any) -> Any:
        """How this format holds a value."""
        return as_text(value) if self.format == "csv" else value


def read_csv(content: bytes) -> list[Row]:
    """Rows of a CSV file by DuckDB, as text; a bare empty field is None, `""` is empty text."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        file.write(content)
        file.flush()
        found = duckdb.sql(
            f"SELECT * FROM read_csv('{file.name}', all_varchar=true, header=true, nullstr='', "
            "allow_quoted_nulls=false, quote='\"', escape='\"', delim=',', strict_mode=true)"
        ).to_arrow_table()
    return list(found.to_pylist())


def as_text(value: Any) -> str | None:
    """A value the way CSV files hold it."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case list() | dict():
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        case _:
            return str(value)


@dataclass(frozen=True)
class LocalFiles:
    """A folder, by plain file access."""

    root: Path

    def keys(self) -> list[str]:
        """Every file below the root."""
        return sorted(
            path.relative_to(self.root).as_posix()
            for path in self.root.rglob("*")
            if path.is_file()
        )

    def read(self, key: str) -> bytes:
        """One file."""
        return (self.root / key).read_bytes()


@dataclass(frozen=True)
class S3Files:
    """A bucket below a prefix (with a slash at its end, or empty), by boto3."""

    client: Any
    bucket: str
    prefix: str = ""

    def keys(self) -> list[str]:
        """Every object's key."""
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=self.prefix
        )
        found = (entry["Key"] for page in pages for entry in page.get("Contents", ()))
        return sorted(key.removeprefix(self.prefix) for key in found)

    def read(self, key: str) -> bytes:
        """One object."""
        answer = self.client.get_object(Bucket=self.bucket, Key=self.prefix + key)
        return bytes(answer["Body"].read())


@dataclass(frozen=True)
class AzureFiles:
    """A container below a prefix, by Azure's client, without what stands for folders."""

    client: Any
    container: str
    prefix: str = ""

    def keys(self) -> list[str]:
        """Every blob's name."""
        blobs = self.client.get_container_client(self.container).list_blobs(
            self.prefix or None, include=["metadata"]
        )
        found = (blob.name for blob in blobs if "hdi_isfolder" not in (blob.metadata or {}))
        return sorted(name.removeprefix(self.prefix) for name in found)

    def read(self, key: str) -> bytes:
        """One blob."""
        blob = self.client.get_blob_client(self.container, self.prefix + key)
        return bytes(blob.download_blob().readall())


class RootedTarget(Target):
    """A destination whose tables lie below a prefix of their own."""

    def config(self, **keys: Any) -> dict[str, Any]:
        """Its config; `object_key_path` comes after the target's own."""
        path = "/".join(
            filter(None, (self.keys["object_key_path"], keys.pop("object_key_path", "")))
        )
        return {**self.keys, **keys, "object_key_path": path}


class TableTarget(Target):
    """A destination whose config names the table itself, by its URI."""

    def config(self, **keys: Any) -> dict[str, Any]:
        """Its config; `object_key_path` and `table` become the end of the URI."""
        path = [keys.pop("object_key_path", ""), keys.pop("table", "{stream}")]
        uri = "/".join((self.keys["table_uri"], *filter(None, path)))
        return {**self.keys, "table_uri": uri, **keys}


@dataclass(frozen=True)
class GcsFiles:
    """A bucket below a prefix, by Google's client."""

    client: Any
    bucket: str
    prefix: str = ""

    def keys(self) -> list[str]:
        """Every object's name."""
        blobs = self.client.list_blobs(self.bucket, prefix=self.prefix or None)
        return sorted(blob.name.removeprefix(self.prefix) for blob in blobs)

    def read(self, key: str) -> bytes:
        """One object."""
        blob = self.client.bucket(self.bucket).blob(self.prefix + key)
        return bytes(blob.download_as_bytes())


def singer(*messages: dict[str, Any] | bytes) -> bytes:
    """Singer lines from messages; bytes are lines as they are."""
    lines = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
    return b"".join(line + b"\n" for line in lines)


def schema(stream: str, properties: dict[str, Any], *keys: str, **more: Any) -> dict[str, Any]:
    """A SCHEMA message."""
    return {
        "type": "SCHEMA",
        "stream": stream,
        "schema": {"type": "object", "properties": properties},
        "key_properties": list(keys),
        **more,
    }


def record(stream: str, **values: Any) -> dict[str, Any]:
    """A RECORD message."""
    return {"type": "RECORD", "stream": stream, "record": values}


def records(stream: str, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """RECORD messages."""
    return [record(stream, **row) for row in rows]


def state(**bookmarks: Any) -> dict[str, Any]:
    """A STATE message."""
    return {"type": "STATE", "value": {"bookmarks": bookmarks}}


INTEGER = {"type": "integer"}
STRING = {"type": ["null", "string"]}
