"""Keys of objects: joined below one root that nothing climbs out of."""

from __future__ import annotations

import re
from urllib.parse import unquote

from lakeport.errors import ConfigError, DestinationError

MAX_KEY_BYTES = 1024
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")
_RULE = (
    "parts between slashes must not be empty, `.` or `..` (percent-encoded neither), must not "
    "hold backslashes or control characters, and must be Unicode text"
)


def clean_prefix(text: str, name: str = "object_key_path") -> str:
    """A prefix as users write it -> without slashes at its ends and without empty parts.

    Raises:
        ConfigError: a part climbs out of the prefix or holds control characters.

    >>> clean_prefix("/raw//events/")
    'raw/events'
    """
    parts = [part for part in text.split("/") if part]
    for part in parts:
        if _bad(unquote(part)):
            raise ConfigError(f"`{name}` has the part {part!r}", f"{_RULE}.")
    return "/".join(parts)


def join_key(prefix: str, key: str) -> str:
    """The full key of `key` below a clean prefix; an empty `key` is the prefix itself.

    Raises:
        DestinationError: the key is not a plain relative one, or longer than 1,024 bytes.

    >>> join_key("raw", "events/20240101-000000.parquet")
    'raw/events/20240101-000000.parquet'
    """
    if key and any(not part or _bad(part) for part in key.split("/")):
        raise DestinationError(f"{key!r} is not a safe object name", f"{_RULE}.")
    full = "/".join(part for part in (prefix, key) if part)
    size = len(full.encode())
    if size > MAX_KEY_BYTES:
        raise DestinationError(
            f"the object name {full[:60]!r}… has {size} bytes, more than {MAX_KEY_BYTES}",
            "shorten `object_key_path`, the table's name or `date_partition_format`.",
        )
    return full


def under(prefix: str, full: str) -> str:
    """The key of a full key relative to a clean prefix.

    >>> under("raw", "raw/a/b")
    'a/b'
    """
    return full[len(prefix) + 1 :] if prefix else full


def _bad(part: str) -> bool:
    return part in {".", ".."} or _FORBIDDEN.search(part) is not None
