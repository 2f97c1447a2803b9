"""Lines of records for one of a few schemas, good ones and broken ones."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.fuzz.case import Case
from tests.fuzz.generate.nasty import BROKEN_NUMBERS, DATES, damaged, number, text

_LEAVES: dict[str, dict[str, Any]] = {
    "i": {"type": "integer"},
    "n": {"type": "number"},
    "s": {"type": "string"},
    "b": {"type": "boolean"},
    "t": {"type": "string", "format": "date-time"},
    "d": {"type": "string", "format": "date"},
    "m": {"type": "number", "x-precision": 12, "x-scale": 2},
    "p": {"type": "string", "format": "singer.decimal", "precision": 20, "scale": 3},
    "w": {"type": "string", "format": "singer.decimal", "precision": 38, "scale": 38},
    "y": {"type": "string", "contentEncoding": "base64"},
    "j": {},
    "a": {"type": "array"},
    "e": {"type": "object"},
}
NAMES = [
    "x",
    "y",
    "z",
    "new",
    "",
    "\u0000",
    'q"',
    "a.b",
    "é",
    "Ö",
    "\\",
    "tab\t",
    "record",
    "type",
]


def case(rng: random.Random) -> Case:
    properties = {
        name: schema_of(rng, 2)
        for name in rng.sample([*_LEAVES, *NAMES[:4], 'q"', "é"], rng.randint(1, 5))
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if rng.random() < 0.2:
        schema["required"] = [rng.choice(list(properties))]
    envelope = rng.random() < 0.5
    options = {
        "schema": schema,
        "envelope": envelope,
        "unknown": rng.choice(["evolve", "evolve", "drop", "fail"]),
    }
    return Case(lines(rng, schema, envelope=envelope), options)


def schema_of(rng: random.Random, depth: int) -> dict[str, Any]:
    pick = rng.random()
    if depth and pick < 0.15:
        return {"type": ["null", "array"], "items": schema_of(rng, depth - 1)}
    if depth and pick < 0.3:
        names = rng.sample(NAMES, rng.randint(1, 3))
        return {"type": "object", "properties": {n: schema_of(rng, depth - 1) for n in names}}
    return dict(rng.choice(list(_LEAVES.values())))


def lines(rng: random.Random, schema: dict[str, Any], *, envelope: bool) -> bytes:
    """Up to a dozen lines, most of them records that fit but for one value."""
    found = [_line(rng, schema, envelope) for _ in range(rng.choice([1, 1, 2, 3, 5, 12]))]
    data = rng.choice([b"\n", b"\n", b"\n", b"\r\n", b"\n\n"]).join(found)
    if rng.random() < 0.05:
        data = b"\xef\xbb\xbf" + data
    return data + rng.choice([b"", b"\n"])


def _line(rng: random.Random, schema: dict[str, Any], envelope: bool) -> bytes:
    bent = rng.choice([0.0, 0.0, 0.05, 0.3])
    record = literal(rng, schema, bent)
    if rng.random() < 0.05:
        record = junk(rng, 3)
    line = record
    if envelope:
        keys = ['"type": "RECORD"', '"stream": "s"', f'"record": {record}']
        if rng.random() < 0.2:
            extra = rng.choice(["version", "time_extracted", "seen", "a:b"])
            keys.append(f'"{extra}": {junk(rng, 1)}')
        if rng.random() < 0.1:
            rng.shuffle(keys)
        line = "{" + ", ".join(keys) + "}"
    data = line.encode("utf-8", "surrogatepass")
    return damaged(rng, data).replace(b"\n", b" ") if rng.random() < 0.08 else data


def literal(rng: random.Random, schema: dict[str, Any], bent: float) -> str:
    """A JSON value that fits a schema; with probability `bent`, at each place, any other."""
    if rng.random() < bent:
        return junk(rng, 2)
    if rng.random() < 0.05:
        return "null"
    match schema.get("type"):
        case "object" if schema.get("properties"):
            return _object(rng, schema["properties"], bent)
        case "object":
            return rng.choice(["{}", '{"a": 1, "b": [1.10, null]}', _string(rng, '{"a": 1.50}')])
        case ["null", "array"]:
            items = [literal(rng, schema["items"], bent) for _ in range(rng.randint(0, 3))]
            found = f"[{rng.choice([', ', ',', ' , ']).join(items)}]"
            return _string(rng, found) if rng.random() < 0.05 else found
        case "array":
            return rng.choice(["[]", "[1, 2]", '[1,"x",null,{"a":[]}]', '"[1]"', "[[[]]]", "[1e5]"])
        case "integer":
            return rng.choice(
                [number(rng), str(rng.randint(-(2**63), 2**63 - 1)), str(rng.randint(-9, 9))]
            )
        case "number" if "x-scale" in schema:
            return rng.choice([number(rng), f"{rng.randint(-(10**12), 10**12)}e-2", "1.25"])
        case "number":
            return rng.choice(
                [number(rng), repr(rng.uniform(-1, 1) * 10 ** rng.randint(-320, 308))]
            )
        case "boolean":
            return rng.choice(["true", "false"])
    return _text_for(rng, schema)


def _text_for(rng: random.Random, schema: dict[str, Any]) -> str:
    form = schema.get("format", schema.get("contentEncoding"))
    if form in ("date-time", "date"):
        return _string(rng, rng.choice(DATES) if rng.random() < 0.7 else _date(rng, form))
    if form == "singer.decimal":
        found = (
            number(rng)
            if rng.random() < 0.6
            else f"{rng.randint(-(10**17), 10**17)}e-{rng.randint(0, 4)}"
        )
        return _string(rng, found) if rng.random() < 0.8 else found
    if form == "base64":
        return _string(rng, rng.choice(["", "aGk=", "aGk", "aGkh", "a===", "aGk=\n", "é", "-_-_"]))
    return _string(rng, text(rng)) if schema else junk(rng, 2)


def _date(rng: random.Random, form: str) -> str:
    year, month, day_of_month = rng.choice([1, 2, 1582, 1969, 2024, 9999]), *_two(rng, 12, 31)
    day = f"{year:04}-{month:02}-{day_of_month:02}"
    if form == "date":
        return day
    zone = rng.choice(["", "Z", "+01:00", "-23:30", "+14:00", "z"])
    fraction = rng.choice(["", ".5", ".123456", ".1234560", ".1234567"])
    hour, minute, second = rng.randint(0, 24), *_two(rng, 60, 60)
    return f"{day}{rng.choice('T ')}{hour:02}:{minute:02}:{second:02}{fraction}{zone}"


def _two(rng: random.Random, first: int, second: int) -> tuple[int, int]:
    return rng.randint(1, first), rng.randint(1, second)


def _object(rng: random.Random, properties: dict[str, Any], bent: float) -> str:
    members = [
        (_string(rng, name), literal(rng, sub, bent))
        for name, sub in properties.items()
        if rng.random() < 0.8
    ]
    if rng.random() < bent:
        members.append((_string(rng, rng.choice(NAMES)), junk(rng, 2)))
    if rng.random() < bent and members:
        members.append((rng.choice(members)[0], junk(rng, 1)))
    if rng.random() < 0.2:
        rng.shuffle(members)
    colon = rng.choice([": ", ":", " : ", ":\t"])
    return "{" + rng.choice([", ", ","]).join(f"{k}{colon}{v}" for k, v in members) + "}"


def _string(rng: random.Random, value: str) -> str:
    if rng.random() < 0.02:
        return (
            '"'
            + rng.choice(
                ["\\ud800", "\\udc00x", "\\ud83d\\ude00", "\\u0000", "\\x", "\\u12", "a\tb"]
            )
            + '"'
        )
    if rng.random() < 0.1:
        return '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in value) + '"'
    return json.dumps(value, ensure_ascii=rng.random() < 0.5)


def junk(rng: random.Random, depth: int) -> str:
    """Any JSON value, or nearly one."""
    pick = rng.random()
    if pick < 0.3:
        return number(rng)
    if pick < 0.35:
        return rng.choice(BROKEN_NUMBERS)
    if pick < 0.6:
        return _string(rng, text(rng))
    if pick < 0.75 or not depth:
        return rng.choice(
            ["null", "true", "false", "nul", "tru", "/**/", "", "[]", "{}", "[" * 40 + "]" * 40]
        )
    if pick < 0.76:
        deep = rng.choice([100, 240, 260, 499, 501, 5000])
        return rng.choice(["[" * deep + "]" * deep, '{"a":' * deep + "1" + "}" * deep])
    if pick < 0.88:
        return "[" + ", ".join(junk(rng, depth - 1) for _ in range(rng.randint(0, 3))) + "]"
    members = [
        f"{_string(rng, rng.choice(NAMES))}: {junk(rng, depth - 1)}"
        for _ in range(rng.randint(0, 3))
    ]
    return "{" + ", ".join(members) + "}"
