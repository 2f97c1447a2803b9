"""Mage's catalog (`--catalog_json`, a block's `catalog:`): schemas that stand above the tap's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NO_EFFECT = ("unique_constraints", "unique_conflict_method")


@dataclass(frozen=True, slots=True)
class CatalogStream:
    """One stream of a catalog.

    Attributes:
        schema: the JSON schema that its records are cut to.
        key_properties: columns that identify a record.
        partition_keys: columns to partition by.
        unused: keys that were given and have no effect.
    """

    schema: Mapping[str, Any]
    key_properties: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


def parse_catalog(value: Any) -> dict[str, CatalogStream]:
    """The streams of a catalog by name (`tap_stream_id`, else `stream`).

    Args:
        value: a mapping with `streams`, or its JSON text.

    Raises:
        ValueError: it is none, naming the part at fault.

    Example:
        >>> list(parse_catalog('{"streams": [{"stream": "users", "schema": {"properties": {}}}]}'))
        ['users']
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError("is no JSON") from None
    if not isinstance(value, Mapping):
        raise ValueError('has to look like {"streams": […]}')
    if value and all(isinstance(stream, CatalogStream) for stream in value.values()):
        return dict(value)
    streams = value.get("streams", [] if not value else None)
    if not isinstance(streams, Sequence) or isinstance(streams, str):
        raise ValueError("has no list `streams`")
    return dict(_stream(stream, number) for number, stream in enumerate(streams, 1))


def catalog_warnings(catalog: Mapping[str, CatalogStream]) -> tuple[str, ...]:
    """A sentence for each stream with keys that have no effect."""
    return tuple(
        f"catalog: stream {name!r}: {' and '.join(f'`{key}`' for key in stream.unused)} "
        "took no effect: `mode` decides what happens to rows that are there already"
        for name, stream in catalog.items()
        if stream.unused
    )


def _stream(stream: Any, number: int) -> tuple[str, CatalogStream]:
    if not isinstance(stream, Mapping):
        raise ValueError(f"has no mapping as stream {number}")
    name = stream.get("tap_stream_id") or stream.get("stream")
    if not isinstance(name, str):
        raise ValueError(f"has a stream without `tap_stream_id` and `stream`: number {number}")
    schema = stream.get("schema")
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        raise ValueError(f"has no `schema` with `properties` for the stream {name!r}")
    return name, CatalogStream(
        dict(schema),
        _names(stream, "key_properties", name),
        _names(stream, "partition_keys", name),
        tuple(key for key in _NO_EFFECT if stream.get(key)),
    )


def _names(stream: Mapping[str, Any], key: str, name: str) -> tuple[str, ...]:
    names = stream.get(key) or ()
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
        raise ValueError(f"has no list of names as `{key}` of the stream {name!r}")
    return tuple(dict.fromkeys(names))
