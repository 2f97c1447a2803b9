"""CSV files: written by the rules, written in odd ways, and damaged."""

from __future__ import annotations

import random
from typing import Any

from tests.fuzz.case import Case
from tests.fuzz.generate.nasty import BROKEN_NUMBERS, DATES, TEXTS, damaged, number, text

_TYPES = ["string", "integer", "number", "boolean", "date", "timestamp", "decimal"]


def case(rng: random.Random) -> Case:
    width = rng.choice([1, 1, 2, 3, 5])
    options: dict[str, Any] = {
        "delimiter": rng.choice([",", ",", ",", ";", "\t", "|"]),
        "quote": rng.choice(['"', '"', '"', '"', "'", ""]),
        "escape": rng.choice(["", "", "", "", "", "\\"]),
        "header": rng.random() < 0.8,
        "null_values": rng.choice([["", "NA"], ["", "NA"], [""], ["NULL", "\\N"]]),
        "split_bytes": rng.choice([1, 20, 100, 10_000]),
        "block_bytes": rng.choice([1, 16, 64, 4096]),
        "way": rng.choice(["text", "inferred", "declared", "declared"]),
        "types": [rng.choice(_TYPES) for _ in range(width)],
    }
    newline = rng.choice(["\n", "\n", "\n", "\r\n", "\r"])
    rows = [
        [_field(rng, options["types"][at]) for at in range(width)]
        for _ in range(rng.choice([0, 1, 2, 3, 8, 20]))
    ]
    if options["header"]:
        rows.insert(0, [f"c{at}" for at in range(width)])
    lines = [_line(rng, row, options, strict=(n == 0)) for n, row in enumerate(rows)]
    if rng.random() < 0.1:
        lines.insert(rng.randint(0, len(lines)), "")
    data = newline.join(lines).encode("utf-8", "surrogatepass")
    data += rng.choice([b"", newline.encode(), newline.encode() * 3])
    if rng.random() < 0.05:
        data = b"\xef\xbb\xbf" + data
    options["regular"] = True
    if rng.random() < 0.25:
        keep = data.find(newline.encode()) + 1 if options["header"] and rng.random() < 0.8 else 0
        data, options["regular"] = data[:keep] + damaged(rng, data[keep:]), False
    return Case(data, options)


def _field(rng: random.Random, kind: str) -> str:
    if rng.random() < 0.1:
        return rng.choice(["", "NA", "NULL", "\\N", *TEXTS[:40]])
    if rng.random() < 0.05:
        return rng.choice(BROKEN_NUMBERS)
    match kind:
        case "integer":
            return rng.choice(
                [
                    number(rng),
                    str(rng.randint(-(2**63), 2**63 - 1)),
                    str(rng.randint(-9, 99)),
                    "007",
                    " 7",
                ]
            )
        case "number":
            return rng.choice(
                [number(rng), repr(rng.uniform(-1, 1) * 10 ** rng.randint(-320, 308))]
            )
        case "boolean":
            return rng.choice(["true", "false", "True", "FALSE", "1", "0", "yes", "t"])
        case "date" | "timestamp":
            return rng.choice(DATES)
        case "decimal":
            return rng.choice(
                [number(rng), f"{rng.randint(-(10**9), 10**9)}.{rng.randint(0, 99):02}"]
            )
    return text(rng)


def _line(rng: random.Random, row: list[str], options: dict[str, Any], *, strict: bool) -> str:
    found = [_written(rng, value, options, strict=strict) for value in row]
    if not strict and rng.random() < 0.03:
        found = rng.choice([[*found, "more"], found[1:], found[:-1]])
    return str(options["delimiter"]).join(found)


def _written(rng: random.Random, value: str, options: dict[str, Any], *, strict: bool) -> str:
    quote, escape = options["quote"], options["escape"]
    special = [c for c in (options["delimiter"], quote, escape, "\n", "\r") if c]
    if not quote:
        return "".join(c for c in value if c not in special)
    if escape:
        value = value.replace(escape, escape * 2)
    if any(c in value for c in special) or rng.random() < 0.1:
        doubled = escape + quote if escape and rng.random() < 0.5 else quote * 2
        value = quote + value.replace(quote, doubled) + quote
        if not strict and rng.random() < 0.02:
            value += rng.choice(["x", " ", quote, f"{quote}x{quote}"])
    return value
