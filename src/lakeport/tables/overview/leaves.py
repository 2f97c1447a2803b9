"""The columns of a Delta table's schema, nested ones by their own names. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeport.tables.views import declared

_DEPTH = 4
_PHYSICAL = "delta.columnMapping.physicalName"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One column, or a part of one.

    Attributes:
        name: as the table spells it; with dots for a part of a struct.
        path: its names in the data files.
        type: in Delta's JSON.
        told: the type in words.
    """

    name: str
    path: tuple[str, ...]
    type: Any
    told: str


def leaves(schema: str) -> list[Leaf]:
    """The columns of a schema, with the parts of structs in the place of these.

    Args:
        schema: Delta's JSON text.

    >>> inner = {"type": "struct", "fields": [{"name": "b", "type": "long", "metadata": {}}]}
    >>> outer = {"fields": [{"name": "a", "type": inner, "metadata": {}}]}
    >>> [(leaf.name, leaf.path, leaf.told) for leaf in leaves(json.dumps(outer))]
    [('a.b', ('a', 'b'), 'integer')]
    """
    found = list(_walk(json.loads(schema)["fields"], "", ()))
    words = declared({"fields": [field for _, _, field in found]})
    return [
        Leaf(name, path, field["type"], word.type)
        for (name, path, field), word in zip(found, words, strict=True)
    ]


def _walk(
    fields: list[dict[str, Any]], above: str, path: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
    for field in fields:
        name = f"{above}{field['name']}"
        inner = (*path, field.get("metadata", {}).get(_PHYSICAL, field["name"]))
        type_ = field["type"]
        if isinstance(type_, Mapping) and type_.get("type") == "struct" and len(inner) < _DEPTH:
            yield from _walk(type_["fields"], f"{name}.", inner)
        else:
            yield name, inner, field
