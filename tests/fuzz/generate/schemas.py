"""JSON schemas as taps write them and as nobody should, with records for those that can be read."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.fuzz.case import Case
from tests.fuzz.generate import records
from tests.fuzz.generate.nasty import NUMBERS, text

_TYPES = ["string", "integer", "number", "boolean", "object", "array", "null"]
_FORMATS = ["date-time", "date", "time", "singer.decimal", "uuid", "email", "", None, 1]
_REFS = [
    "#",
    "#/",
    "#/definitions/a",
    "#/definitions/b",
    "#/properties/x",
    "#/$defs/%41",
    "#/definitions/0",
    "#/definitions/a/properties/b",
    "http://x/y",
    "",
    "a",
    "#a",
    1,
    "#/~1/~0",
]
_ANY: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    "x",
    [],
    {},
    [1],
    {"type": "string"},
    [{}],
    10**40,
]


def case(rng: random.Random) -> Case:
    root: dict[str, Any] = {
        "type": rng.choice(["object", ["object"], ["null", "object"], "string", None]),
        "properties": {_name(rng): _schema(rng, 3) for _ in range(rng.randint(0, 5))},
    }
    if rng.random() < 0.5:
        root["definitions"] = {n: _schema(rng, 2) for n in ("a", "b", "0")}
        root["$defs"] = {"A": _schema(rng, 1), "/": {"~": {}}}
    if rng.random() < 0.15:
        root[rng.choice(["allOf", "anyOf", "oneOf"])] = [_schema(rng, 2) for _ in range(2)]
    if rng.random() < 0.3:
        root["required"] = rng.choice([list(root["properties"])[:2], ["absent"], "x", 1, [1]])
    if rng.random() < 0.15:
        _bend(rng, root)
    properties = root.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    plain = {"type": "object", "properties": {n: _plain(s) for n, s in properties.items()}}
    options = {
        "keys": rng.choice([[], [], ["x"], [""]]),
        "lines": records.lines(rng, plain, envelope=False).decode("utf-8", "surrogateescape"),
        "unknown": rng.choice(["evolve", "drop", "fail"]),
    }
    return Case(json.dumps(root).encode(), options)


def _name(rng: random.Random) -> str:
    return rng.choice(["x", "y", "id", "Id", text(rng), rng.choice(records.NAMES)])


def _schema(rng: random.Random, depth: int) -> Any:
    pick = rng.random()
    if pick < 0.04:
        return rng.choice(_ANY)
    if pick < 0.12:
        return {"$ref": rng.choice(_REFS)}
    if depth and pick < 0.24:
        keyword = rng.choice(["allOf", "anyOf", "oneOf"])
        found: dict[str, Any] = {
            keyword: [_schema(rng, depth - 1) for _ in range(rng.randint(0, 3))]
        }
        return {**_leaf(rng), **found} if rng.random() < 0.4 else found
    if depth and pick < 0.36:
        names = [_name(rng) for _ in range(rng.randint(0, 3))]
        return {
            "type": _typed(rng, "object"),
            "properties": {n: _schema(rng, depth - 1) for n in names},
        }
    if depth and pick < 0.46:
        return {"type": _typed(rng, "array"), "items": _schema(rng, depth - 1)}
    if pick < 0.75:
        return records.schema_of(rng, depth)
    return _leaf(rng)


def _leaf(rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if rng.random() < 0.9:
        found["type"] = rng.choice(
            [rng.choice(_TYPES), rng.sample(_TYPES, rng.randint(0, 3)), "any", ["null", "string"]]
        )
    for key, values in (
        ("format", _FORMATS),
        ("enum", [[1, "a"], [], [None], "x", [1.5, 2], [True, {}]]),
        ("const", _ANY),
        ("multipleOf", [float(n) for n in NUMBERS[:12]] + ["0.01", 1e-40, True, None, "nan"]),
        ("x-precision", [1, 10, 38, 39, 0, -1, "5", True, None, 10**30]),
        ("x-scale", [0, 2, 38, -1, "2", None]),
        ("precision", [20, 38, None]),
        ("scale", [3, 0]),
        ("minimum", [0, -(10**30), 1e300, "x"]),
        ("maximum", [10**30, 5e-324, None]),
        ("contentEncoding", ["base64", "quoted-printable", 1]),
        ("additionalProperties", [True, False, {}, {"type": "string"}]),
        ("items", [{}, [], [{"type": "string"}, {"type": "integer"}], True, None]),
        ("prefixItems", [[{}]]),
    ):
        if rng.random() < 0.12:
            found[key] = rng.choice(values)
    return found


def _typed(rng: random.Random, name: str) -> Any:
    return rng.choice([name, ["null", name], [name, "string"], [name]])


def _plain(schema: Any, depth: int = 5) -> dict[str, Any]:
    """A schema that records can be made for, near to one that may be anything; never deep."""
    if not isinstance(schema, dict) or not depth:
        return {}
    kind, members, items = schema.get("type"), schema.get("properties"), schema.get("items")
    kind = kind if isinstance(kind, str) else None
    if isinstance(members, dict) and members:
        return {
            "type": "object",
            "properties": {n: _plain(s, depth - 1) for n, s in members.items()},
        }
    if items is not None:
        return {"type": ["null", "array"], "items": _plain(items, depth - 1)}
    return {**schema, "type": kind} if kind else {}


def _bend(rng: random.Random, root: dict[str, Any]) -> None:
    key = rng.choice(list(root))
    root[key] = rng.choice(_ANY)
    if rng.random() < 0.3:
        deep: Any = {"type": "string"}
        for _ in range(rng.choice([50, 101, 150])):
            deep = rng.choice(
                [{"type": "array", "items": deep}, {"type": "object", "properties": {"d": deep}}]
            )
        root["properties"] = {"deep": deep}
