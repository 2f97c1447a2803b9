"""Make object keys from configured paths and stream names. Pure functions.

One rule keeps every name below its prefix:

- *Configured* paths (`table`, `date_partition_format`) are taken as they are or refused. Empty and
  `.` segments vanish, so that slashes at either end are harmless. `..`, control characters,
  backslashes, percent-encoded characters (`%2e`, `%2f`) and the segments `_delta_log` and
  `_lakeport` are a `ConfigError`.
- *Stream names* are data and never refused: `safe_segment` turns each into one path segment, and
  two different names never into the same one.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import UTC, datetime
from urllib.parse import quote

from lakeport.errors import ConfigError

HOME = "_lakeport"
"""Folder below a destination's root that holds everything that is not data."""

QUARANTINE = f"{HOME}/quarantine"
"""The folder of a lake below which its quarantine files are."""

MAX_KEY_BYTES = 1024
"""Longest key that S3 and GCS take, in UTF-8 bytes."""

_RESERVED = frozenset({HOME, "_delta_log"})
_MAX_SEGMENT_BYTES = 200
_KEPT_BYTES = 160
_ENCODED = re.compile(r"%(?:[0-9a-fA-F]{2}|[0-9a-fA-F]?\{stream\})")
_PLACEHOLDER = "{stream}"
_SEQUENCE_SUFFIX = re.compile(r"-(?=[0-9]+$)")
_MOST_NAME_CHARACTERS = 200


def object_folder(table: str, date_partition_format: str | None, clock: datetime) -> str:
    """Return the folder of a batch's objects: the table's folder and the load's formatted time.

    Args:
        table: the table's folder, as `table_name` returns it.
        date_partition_format: strftime pattern below the table, or None.
        clock: the batch's one clock reading; without a zone it counts as UTC.

    Raises:
        ConfigError: a part breaks the rule above, or the folder is too long for a key.

    >>> object_folder("users", "%Y/%m/%d", datetime(2024, 3, 4, tzinfo=UTC))
    'users/2024/03/04'
    """
    folder = table_folder(table)
    if not date_partition_format:
        return folder
    rendered = _render(date_partition_format, clock)
    return check_key("/".join((folder, *_segments("date_partition_format", rendered))))


def table_folder(table: str) -> str:
    """Return a table's folder without empty segments; ConfigError as for `object_folder`.

    >>> table_folder("raw//users/")
    'raw/users'
    """
    return check_key(_table_path(table))


def object_name(clock: datetime, extension: str, ordinal: int = 0, unique: str = "") -> str:
    """Return an object's name: UTC time, `unique` and, unless 0, the ordinal, joined by `-`.

    >>> object_name(datetime(2024, 3, 4, 15, 30, 45, tzinfo=UTC), "csv.gz", 2)
    '20240304-153045-2.csv.gz'
    """
    stem = f"{as_utc(clock):%Y%m%d-%H%M%S}"
    parts = [stem, *([unique] if unique else []), *([str(ordinal)] if ordinal else [])]
    return f"{'-'.join(parts)}.{extension}"


def table_name(pattern: str | None, stream: str) -> str:
    """Return a stream's table folder: the pattern with `{stream}` replaced, or the stream's name.

    Raises:
        ConfigError: the pattern is no allowed path, or the stream turns it into a reserved name.

    >>> table_name("raw/{stream}_v1", "public/users")
    'raw/public%2Fusers_v1'
    >>> table_name(None, "users")
    'users'
    """
    if pattern is None:
        return safe_segment(stream)
    if _ENCODED.search(pattern):
        raise _refused_error("table", pattern, "a percent-encoded character")
    return _table_path(pattern.replace(_PLACEHOLDER, safe_segment(stream)))


def safe_segment(name: str) -> str:
    """Map any name to one path segment of at most 200 bytes; different names to different ones.

    Percent-encoded (UTF-8, upper-case hex): `/`, `\\`, `%`, `=`, control characters, line and
    paragraph separators, lone surrogates, a leading `.` or `_`, and a dot or a space at the end,
    which Azure and Windows drop. The empty name is `%empty`. Everything else stays, and decoding
    `%XX` gives the name back. A result of more than 200 bytes is cut to 160 and takes `%~` and 32
    hex digits of the name's SHA-256 instead.

    >>> [safe_segment(n) for n in ("users", "../x", "_delta_log", "a%2fb", "day=1", "Inc.", "")]
    ['users', '%2E.%2Fx', '%5Fdelta_log', 'a%252fb', 'day%3D1', 'Inc%2E', '%empty']
    """
    if not name:
        return "%empty"
    last = len(name) - 1
    pieces = [
        _percent_encode(char)
        if _is_unsafe(char)
        or char == "="
        or (at == 0 and char in "._")
        or (at == last and char in ". ")
        else char
        for at, char in enumerate(name)
    ]
    if sum(len(piece.encode()) for piece in pieces) <= _MAX_SEGMENT_BYTES:
        return "".join(pieces)
    kept, size = [], 0
    for piece in pieces:
        size += len(piece.encode())
        if size > _KEPT_BYTES:
            break
        kept.append(piece)
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{''.join(kept)}%~{digest}"


def columns_folder(table: str) -> str:
    """Return the folder with the records of a file table's columns."""
    return f"{HOME}/schemas/{safe_segment(table)}"


def quarantine_stem(run_id: str, stream: str) -> str:
    """Return the beginning of the keys of a stream's quarantine files, unique for run and stream.

    >>> quarantine_stem("r/1", "orders")
    '_lakeport/quarantine/r%2F1/orders'
    """
    name = _SEQUENCE_SUFFIX.sub("%2D", _escape_segment(stream))
    return f"{QUARANTINE}/{_escape_segment(run_id)}/{name}"


def replayed_key(run_id: str, stream: str) -> str:
    """Return the key of the empty file by which a replay marks a run's records of a stream.

    >>> replayed_key("r1", "orders")
    '_lakeport/quarantine/r1/orders.replayed'
    """
    return f"{quarantine_stem(run_id, stream)}.replayed"


def check_date_format(pattern: str) -> None:
    """Raise ConfigError if a date pattern has an unknown directive, or makes no allowed folder.

    >>> check_date_format("year=%Y/month=%m")
    """
    if not _segments("date_partition_format", _render(pattern, datetime(2024, 12, 31, tzinfo=UTC))):
        raise _refused_error("date_partition_format", pattern, "nothing that names a folder")


def check_key(key: str) -> str:
    """Return the key; ConfigError if it has more than 1024 bytes, the limit of S3 and GCS."""
    size = len(key.encode())
    if size > MAX_KEY_BYTES:
        raise ConfigError(
            f"object key of {size} bytes (limit {MAX_KEY_BYTES}) below {key[:40]!r}",
            "shorten `object_key_path`, `table` or `date_partition_format`.",
        )
    return key


def _table_path(table: str) -> str:
    """Return a table's path without empty segments; ConfigError if it is empty or forbidden."""
    segments = _segments("table", table)
    if not segments:
        raise ConfigError("`table` is empty", "name the table, or leave `table` out.")
    return "/".join(segments)


def _segments(setting: str, path: str) -> list[str]:
    """Split a configured path at slashes; ConfigError for a forbidden segment."""
    segments = [part for part in path.split("/") if part not in ("", ".")]
    for part in segments:
        if part == ".." or part in _RESERVED:
            raise _refused_error(setting, path, f"the segment {part!r}")
        if any(char != "%" and _is_unsafe(char) for char in part):
            raise _refused_error(setting, path, "a control character or a backslash")
    return segments


def _render(pattern: str, clock: datetime) -> str:
    """Format a time, in UTC, by a strftime pattern; ConfigError for an unknown directive."""
    try:
        rendered = as_utc(clock).strftime(pattern)
    except (ValueError, UnicodeEncodeError) as error:
        raise _refused_error("date_partition_format", pattern, "an unknown directive") from error
    if "%" in rendered:
        raise _refused_error(
            "date_partition_format", pattern, "an unknown directive or a literal `%`"
        )
    return rendered


def as_utc(clock: datetime) -> datetime:
    """Return a clock reading in UTC; without a zone it counts as UTC."""
    return clock.astimezone(UTC) if clock.tzinfo else clock.replace(tzinfo=UTC)


def _is_unsafe(char: str) -> bool:
    """Whether a character is a slash, a backslash, `%`, a control character or lone surrogate."""
    return char in "/\\%" or unicodedata.category(char) in ("Cc", "Zl", "Zp", "Cs")


def _percent_encode(char: str) -> str:
    """Percent-encode a character's UTF-8 bytes."""
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _refused_error(setting: str, value: str, forbidden: str) -> ConfigError:
    """Return the error for a path setting; `forbidden` names its wrong part in words."""
    is_date = setting == "date_partition_format"
    more = " and strftime directives, such as `%Y/%m/%d`" if is_date else ""
    return ConfigError(
        f"`{setting}` is {value!r}: it has {forbidden}",
        f"use folder names separated by `/`{more}.",
    )


def _escape_segment(name: str) -> str:
    """Escape a name as one path segment of a key; above 200 characters, cut it and add a hash."""
    text = quote(name.encode("utf-8", "surrogatepass"), safe="").replace("~", "%7E")
    if text.startswith((".", "_")):
        text = f"%{ord(text[0]):02X}{text[1:]}"
    if len(text) > _MOST_NAME_CHARACTERS:
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        text = f"{text[: _MOST_NAME_CHARACTERS - 17]}~{digest}"
    return text
