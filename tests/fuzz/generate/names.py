"""Names of streams, tables and prefixes, and a second one that is nearly the same."""

from __future__ import annotations

import random
import unicodedata

from tests.fuzz.case import Case
from tests.fuzz.generate.nasty import TEXTS, text

_PIECES = [
    "/",
    "//",
    "\\",
    "..",
    ".",
    "%",
    "%2F",
    "%2f",
    "%2e",
    "%~",
    "%empty",
    "_",
    "_lakeport",
    "_delta_log",
    "{stream}",
    "{",
    "}",
    "%Y",
    "%m",
    "%-d",
    "%q",
    "\0",
    "\n",
    "~",
    " ",
    "a",
    "A",
    "é",
    "e\u0301",
    "\ud800",
    "\udfff",
    "\u2028",
    "\x85",
    "=",
    ":",
    "?",
    "#",
    "+",
    "&",
    "*",
    '"',
    "CON",
    "nul.",
    "x" * 199,
    "é" * 100,
    "s3://b/k",
    "file:///x",
    "~user",
    "-",
    "--",
    "$(id)",
    "`",
]


def case(rng: random.Random) -> Case:
    one = _name(rng)
    return Case(one.encode("utf-8", "surrogatepass"), {"other": _near(rng, one)})


def _name(rng: random.Random) -> str:
    pick = rng.random()
    if pick < 0.3:
        return rng.choice([text(rng), rng.choice(TEXTS)])
    return "".join(rng.choice(_PIECES) for _ in range(rng.randint(1, 6)))


def _near(rng: random.Random, name: str) -> str:
    """Another name that a careless encoding would take for the same."""
    match rng.randrange(9):
        case 0:
            return name.swapcase()
        case 1:
            return name.replace("%", "%25")
        case 2:
            return name.replace("/", "%2F").replace("\\", "%5C")
        case 3:
            return unicodedata.normalize(rng.choice(["NFC", "NFD", "NFKC"]), name)
        case 4:
            return name + rng.choice([" ", ".", "/", "\0", "x"])
        case 5:
            return (
                "".join(f"%{b:02X}" for b in name[:1].encode("utf-8", "surrogatepass")) + name[1:]
            )
        case 6:
            return name[: len(name) - 1]
        case 7:
            return name[:170] + "y" + name[171:]
    return _name(rng)
