"""What a tap writes: messages of several streams, in order and out of it, with damage."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.fuzz.case import Case
from tests.fuzz.generate.nasty import TEXTS, damaged
from tests.fuzz.generate.records import junk

_STREAMS = ["users", "orders", 'a "b"\\', "ü", "users2", "Users"]


def case(rng: random.Random) -> Case:
    names = rng.sample(_STREAMS, rng.randint(1, 3))
    found = [_schema(name) for name in names]
    for number in range(rng.choice([0, 1, 3, 10, 30])):
        found.append(_message(rng, names, number))
    data = (
        rng.choice(["\n", "\n", "\n", "\r\n", "\n\n"]).join(found).encode("utf-8", "surrogatepass")
    )
    data += rng.choice([b"", b"\n"])
    if rng.random() < 0.05:
        data = b"\xef\xbb\xbf" + data
    if rng.random() < 0.3:
        first = data.find(b"\n") + 1
        data = data[:first] + damaged(rng, data[first:])
    return Case(
        data,
        {
            "flush_rows": rng.choice([0, 1, 2, 5]),
            "flush_bytes": rng.choice([0, 130, 500]),
            "split_bytes": rng.choice([1, 150, 1000]),
            "on_bad_record": rng.choice(["quarantine", "quarantine", "fail"]),
            "stray_lines": rng.choice(["fail", "skip"]),
            "most": rng.choice([1, 7, 100, 5000]),
            "seed": rng.randrange(100),
        },
    )


def _schema(stream: str) -> str:
    properties: dict[str, Any] = {"id": {"type": "integer"}, "v": {"type": ["null", "string"]}}
    return json.dumps(
        {
            "type": "SCHEMA",
            "stream": stream,
            "schema": {"properties": properties},
            "key_properties": [],
        }
    )


def _message(rng: random.Random, names: list[str], number: int) -> str:
    pick = rng.random()
    stream = rng.choice(names)
    if pick < 0.6:
        return _record(rng, stream, number)
    if pick < 0.7:
        value = (
            junk(rng, 2)
            if rng.random() < 0.5
            else json.dumps({"bookmarks": {stream: {"at": number}}})
        )
        return f'{{"type": "STATE", "value": {value}}}'
    if pick < 0.75:
        return _schema(stream)
    if pick < 0.8:
        return rng.choice(
            ["", "  ", "Traceback (most recent call last):", "\t", "null", "[1]", "{}", "{", '"x"']
        )
    if pick < 0.85:
        version = f'"stream": {json.dumps(stream)}, "version": {junk(rng, 0)}'
        return f'{{"type": "ACTIVATE_VERSION", {version}}}'
    if pick < 0.9:
        return json.dumps(
            {
                "type": rng.choice(["LOG", "log", "STATE", "BATCH", "RECORDS", "record", None, 1]),
                "stream": stream,
            }
        )
    if pick < 0.95:
        return json.dumps(
            {
                "type": "RECORD",
                "stream": rng.choice(["unknown", "", *TEXTS[:20]]),
                "record": {"id": number},
            }
        )
    members = [
        f"{json.dumps(k)}: {junk(rng, 1)}"
        for k in rng.sample(["type", "stream", "record", "schema", "value"], 3)
    ]
    return "{" + ", ".join(members) + "}"


def _record(rng: random.Random, stream: str, number: int) -> str:
    keys = {
        "type": json.dumps(rng.choice(["RECORD"] * 9 + ["Record"])),
        "stream": json.dumps(stream, ensure_ascii=rng.random() < 0.7),
        "record": json.dumps(
            {"id": number, "v": rng.choice(TEXTS[:60])}, ensure_ascii=rng.random() < 0.5
        ),
    }
    if rng.random() < 0.3:
        keys["version"] = junk(rng, 0)
    if rng.random() < 0.2:
        keys[rng.choice(["time_extracted", "record ", "seen"])] = junk(rng, 2)
    order = list(keys)
    if rng.random() < 0.4:
        rng.shuffle(order)
    colon, comma = rng.choice([(": ", ", "), (":", ","), (" :", " ,")])
    return (
        rng.choice(["", "", " "]) + "{" + comma.join(f'"{k}"{colon}{keys[k]}' for k in order) + "}"
    )
