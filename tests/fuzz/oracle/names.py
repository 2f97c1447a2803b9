"""Names: one safe segment each, never two alike, and nothing climbs out of its folder."""

from __future__ import annotations

import posixpath
import re
from datetime import UTC, datetime
from urllib.parse import unquote

from lakeport.errors import ConfigError, DestinationError
from lakeport.storage.base import clean_prefix, join_key, relative_key
from lakeport.writers.naming import (
    check_date_format,
    object_folder,
    safe_segment,
    table_folder,
    table_name,
)
from tests.fuzz.case import Case, Changed

_CLOCK = datetime(2024, 3, 4, 15, 30, 45, tzinfo=UTC)
_CONTROL = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_C0 = re.compile(r"[\\\x00-\x1f\x7f\ud800-\udfff]")


def check(case: Case) -> None:
    name = case.data.decode("utf-8", "surrogatepass")
    other = case.options["other"]
    segment = _segment(name)
    if (segment == _segment(other)) != (name == other):
        raise Changed("two names have one segment", name, other)
    if "%~" not in segment and name and unquote(segment, errors="surrogatepass") != name:
        raise Changed("a segment can't be decoded", name, segment)
    for pattern in (None, "{stream}", "raw/{stream}", "a{stream}b", other):
        _check_table(pattern, name)
    _check_key(name, other)
    _check_folder(name, other)


def _segment(name: str) -> str:
    segment = safe_segment(name)
    if not segment or segment[0] in "._" or _CONTROL.search(segment) or len(segment.encode()) > 200:
        raise Changed("a segment is not safe", name, segment)
    return segment


def _check_table(pattern: str | None, stream: str) -> None:
    try:
        table = table_name(pattern, stream)
        folder = table_folder(f"lake/{table}")
    except ConfigError:
        return
    _inside("lake", folder)
    if pattern is not None and "{stream}" in pattern and safe_segment(stream) not in table:
        raise Changed("a stream is not in its table's name", pattern, stream, table)


def _check_folder(one: str, other: str) -> None:
    try:
        check_date_format(other)
        folder = object_folder(f"{one}/t", other, _CLOCK)
    except ConfigError:
        return
    head = "/".join(part for part in one.split("/") if part not in ("", "."))
    _inside(head, folder)


def _check_key(prefix: str, key: str) -> None:
    try:
        clean = clean_prefix(prefix)
        full = join_key(clean, key)
    except (ConfigError, DestinationError):
        return
    _inside(clean, full, _C0)
    if key and relative_key(clean, full) != key:
        raise Changed("a key is not found again below its prefix", prefix, key, full)


def _inside(prefix: str, path: str, control: re.Pattern[str] = _CONTROL) -> None:
    if path.startswith("/") or control.search(path.replace("/", "")) or "//" in path:
        raise Changed("a path is not a plain relative one", path)
    if posixpath.normpath(path) != path and path:
        raise Changed("a path climbs", path)
    if prefix and path != prefix and not path.startswith(f"{prefix}/"):
        raise Changed("a path is not below its prefix", prefix, path)
