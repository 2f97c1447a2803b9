"""Mage's streaming sinks: their YAML -> a destination's keys, and how often a buffer is landed.

| sink | destination | objects |
|---|---|---|
| `amazon_s3` | `amazon_s3` | `<prefix>/[date folders/]YYYYMMDD-HHMMSS.<file_type>` |
| `amazon_s3` with `file_type: delta` | `delta_lake_s3` | the table `<prefix>`, or `table_uri` |
| `google_cloud_storage` | `google_cloud_storage` | as `amazon_s3` |
| `azure_data_lake` | `delta_lake_azure` | the table `table_uri` |

A prefix's last part is the table, so that objects have the names that the sinks give them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from lakeport.config.explain import no_such
from lakeport.errors import ConfigError

_DESTINATIONS = {
    "amazon_s3": "amazon_s3",
    "google_cloud_storage": "google_cloud_storage",
    "azure_data_lake": "delta_lake_azure",
}
_RENAMED = {
    "path_to_credentials_json_file": "google_application_credentials",
    "region": "aws_region",
}
SINK_KEYS = frozenset(
    {"connector_type", "prefix", "buffer_size_mb", "buffer_timeout_seconds", *_RENAMED}
)
"""Keys of sinks that destinations do not have."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """When a sink lands what it has collected: at this size or after this time.

    Attributes:
        size_mb: in MiB.
        timeout_seconds: since the last landing.
    """

    size_mb: float = 5.0
    timeout_seconds: float = 300.0


def is_sink(values: Mapping[str, Any]) -> bool:
    """Whether a config is that of a streaming sink."""
    return "connector_type" in values


def sink_keys(
    values: Mapping[str, Any], known: Iterable[str] = ()
) -> tuple[dict[str, Any], Buffer]:
    """A destination's keys and the buffer's limits, from a sink's.

    Args:
        values: the sink's keys, rendered; beside its own it may have the destination's.
        known: the destinations' keys, to tell a wrong one early; none are checked if empty.

    Raises:
        ConfigError: an unknown sink or key, or a value that can't be.

    Example:
        >>> sink = {"connector_type": "amazon_s3", "bucket": "lake", "prefix": "raw/clicks"}
        >>> keys, buffer = sink_keys(sink)
        >>> keys["object_key_path"], keys["table"], buffer.size_mb
        ('raw', 'clicks', 5.0)
    """
    given = {name: value for name, value in values.items() if value is not None}
    kind = given.pop("connector_type", None)
    if not isinstance(kind, str) or kind not in _DESTINATIONS:
        raise no_such("streaming sink", str(kind), _DESTINATIONS)
    allowed = SINK_KEYS | set(known)
    for name in given:
        if known and name not in allowed:
            raise no_such("key", name, allowed)
    buffer = Buffer(
        _positive(given.pop("buffer_size_mb", 5), "buffer_size_mb"),
        _positive(given.pop("buffer_timeout_seconds", 300), "buffer_timeout_seconds"),
    )
    for old, new in _RENAMED.items():
        if old in given:
            given.setdefault(new, given.pop(old))
    keys = {"destination": _DESTINATIONS[kind], **given}
    if kind == "azure_data_lake":
        return keys, buffer
    if str(given.get("file_type", "")).lower() == "delta":
        if kind != "amazon_s3":
            raise ConfigError(
                f"the sink `{kind}` can't write `file_type: delta`", "use parquet or csv."
            )
        keys |= {"destination": "delta_lake_s3", **_table_of(keys.pop("table_uri", None))}
    return _placed(keys, kind), buffer


def _table_of(uri: Any) -> dict[str, Any]:
    """The bucket and prefix that a Delta table's URI names."""
    if uri is None:
        return {}
    parts = urlsplit(str(uri))
    if parts.scheme not in {"s3", "s3a"} or not parts.netloc or not parts.path.strip("/"):
        raise ConfigError(f"`table_uri` is {str(uri)!r}", "write s3://bucket/path/of/the/table.")
    return {"bucket": parts.netloc, "prefix": parts.path}


def _placed(keys: dict[str, Any], kind: str) -> dict[str, Any]:
    """The prefix as `object_key_path` and table."""
    prefix = keys.pop("prefix", None)
    if prefix is None:
        if keys.get("table") is None:
            raise ConfigError(
                f"the sink `{kind}` has no `prefix`", "name the folder of its objects."
            )
        return keys
    if not isinstance(prefix, str) or not prefix.strip("/"):
        raise ConfigError(f"`prefix` is {prefix!r}", "name the folder of the sink's objects.")
    if keys.get("table") is not None:
        return {**keys, "object_key_path": prefix}
    path, _, table = prefix.strip("/").rpartition("/")
    return {**keys, "object_key_path": path, "table": table}


def _positive(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if isinstance(value, bool) or not 0 < number < float("inf"):
        raise ConfigError(
            f"`{name}` is {value!r}, not a number above 0", "give one, or leave the key out."
        )
    return number
