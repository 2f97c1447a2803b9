"""Values of partition columns, two that are nearly the same, and now and then a whole table."""

from __future__ import annotations

import random

from tests.fuzz.case import Case
from tests.fuzz.generate.nasty import TEXTS, text

_HARD = [
    "__HIVE_DEFAULT_PARTITION__",
    "null",
    "%",
    "%25",
    "a%2Fb",
    "x" * 400,
    "é" * 200,
    "\x7f",
    "a.",
    ".",
]
_NAMES = ["p", "P", "a b", "a=b", "a/b", "é", "%", "_x", ".x", "a:b", '"', "x" * 250]


def case(rng: random.Random) -> Case:
    value = _text(rng)
    return Case(
        value.encode("utf-8", "surrogatepass"),
        {
            "other": rng.choice(
                [_text(rng), value + rng.choice([" ", ".", "%", "~", "\0"]), value[:-1]]
            ),
            "name": rng.choice(_NAMES),
            "int": rng.choice([0, 1, -1, 2**31 - 1, -(2**31), rng.randint(-(2**31), 2**31 - 1)]),
            "long": rng.choice([2**63 - 1, -(2**63), rng.randint(-(2**63), 2**63 - 1)]),
            "micros": rng.choice(
                [
                    0,
                    -1,
                    -62135596800000000,
                    253402300799999999,
                    rng.randint(-62135596800000000, 253402300799999999),
                ]
            ),
            "day": rng.choice([0, -719162, 2932896, rng.randint(-719162, 2932896)]),
            "unscaled": rng.choice(
                [0, 1, -1, 10**38 - 1, -(10**38) + 1, rng.randint(-(10**20), 10**20)]
            ),
            "scale": rng.choice([0, 2, 18, 38]),
            "flag": rng.choice([True, False, None]),
            "table": rng.random() < 0.02,
        },
    )


def _text(rng: random.Random) -> str:
    return rng.choice([text(rng), rng.choice(TEXTS), rng.choice(_HARD)])
