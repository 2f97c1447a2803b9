"""Check that a log names only files of its table, before Spark opens them.

A log is written by others, and Delta opens every path in it: `file:///etc/...`, `../../other/...`,
a path of another bucket. Here a table's files have to lie in its own folder, or below prefixes that
the user has named, as for a shallow clone. lakeport's own readers open no files elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.delta_log.reader import LOG_FILE, DeltaLog
from lakeport.errors import SourceError

if TYPE_CHECKING:
    from lakeport.model import Storage

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ALIASES: Final = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss"}
_RELATIVE_VECTOR: Final = 20
"""Characters of the name of a deletion vector's file; a prefix stands before."""


def is_inside(path: str, roots: Sequence[str]) -> bool:
    """Whether a percent-encoded path is relative and without `..`, or lies below one of `roots`.

    A relative path does unless it has `..`. Roots are URIs, also of the table's folder.

    >>> is_inside("day=1/a.parquet", ()), is_inside("..%2Fb.parquet", ())
    (True, False)
    >>> is_inside("s3://lake/t/a", ("s3a://lake/t",)), is_inside("file:/etc/x", ("s3a://lake/t",))
    (True, False)
    """
    text = unquote(path)
    if ".." in re.split(r"[/\\]", text):
        return False
    if _SCHEME.match(path) or text.startswith(("/", "\\")):
        uri = _normalise_uri(text)
        return any(uri.startswith(f"{_normalise_uri(root).rstrip('/')}/") for root in roots)
    return True


def check_path(path: str, table: str, roots: Sequence[str]) -> None:
    """Raise SourceError if a log's path is outside of the table's folder and `roots`."""
    if not is_inside(path, (table, *roots)):
        raise SourceError(
            f"the log of {table} names a file that is not in the table's folder: {unquote(path)!r}",
            "whoever wrote the log may not want you to read that file. If it is a shallow clone's, "
            "allow the folder of its files: `--set table_roots=PREFIX`.",
        )


def check_actions(actions: Iterable[dict[str, Any]], table: str, roots: Sequence[str]) -> None:
    """Raise SourceError if an action names a file outside of the table's folder and `roots`."""
    for action in actions:
        for kind in ("add", "remove", "cdc", "sidecar"):
            body = action.get(kind) or {}
            if body.get("path") is not None:
                check_path(str(body["path"]), table, roots)
            vector = body.get("deletionVector") or {}
            name = str(vector.get("pathOrInlineDv") or "")
            if vector.get("storageType") == "p":
                check_path(name, table, roots)
            elif vector.get("storageType") == "u" and len(name) > _RELATIVE_VECTOR:
                check_path(f"{name[:-_RELATIVE_VECTOR]}/vector.bin", table, roots)


def check_log(
    storage: Storage, folder: str, roots: Sequence[str] = (), after_version: int = -2
) -> None:
    """Raise SourceError if sidecars or later commits name files outside of the table and `roots`.

    Checks the sidecars of all checkpoints, and the commits after a version (-2: no commit).
    """
    log = DeltaLog(storage, folder)
    for item in storage.list(log.home):  # all, as `LogFiles` ignores some that Delta may read
        match = LOG_FILE.search(f"/{item.key}")
        if match is None:
            continue
        is_later_commit = match[2] and -1 <= after_version < int(match[1])
        if is_later_commit or (item.key.endswith(".json") and match[5]):
            check_actions(_parse_lines(storage.get(item.key)), log.hadoop_uri, roots)
        elif not (match[2] or match[3]):
            check_actions(_read_sidecars(storage, item.key), log.hadoop_uri, roots)


def _parse_lines(data: bytes | None) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in a log file's lines; skip damaged lines."""
    for line in (data or b"").splitlines():
        with suppress(ValueError):
            action = json.loads(line)
            if isinstance(action, dict):
                yield action


def _read_sidecars(storage: Storage, key: str) -> list[dict[str, Any]]:
    """Return the `sidecar` actions of a Parquet checkpoint; empty if it is damaged."""
    with storage.open(key) as file, suppress(pa.ArrowException):
        source = pq.ParquetFile(file)
        if "sidecar" in source.schema_arrow.names:
            column = source.read(columns=["sidecar"])["sidecar"].drop_null()
            return [{"sidecar": body} for body in column.to_pylist()]
    return []


def _normalise_uri(uri: str) -> str:
    """Return a URI with Hadoop's scheme (`s3a`, `abfss`); of a `file:` URI, its path."""
    match = _SCHEME.match(uri)
    if match is None:
        return uri
    scheme, rest = match[1].lower(), uri[match.end() :]
    if scheme == "file":
        return re.sub(r"^/+", "/", rest)
    return f"{_ALIASES.get(scheme, scheme)}:{rest}"
