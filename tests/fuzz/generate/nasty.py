"""What breaks readers: constants that all kinds of input draw from, and damage done to bytes."""

from __future__ import annotations

import random

_NUMBERS = """
0 -0 -0.0 0.0 0e0 0e999999999 -0e-5 1.0 1e0 1e3 1E+2 10e-1 1.50 3.7 0.1 0.10 100 -7 42 1e15 1e16
9007199254740991 9007199254740992 9007199254740993 9007199254740993.0 -9007199254740993e0 1e18 1e19
9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 1e22 1e23
18446744073709551615 18446744073709551616 9223372036854775807.0 922337203685477580700e-2 12.3450
123456789012345678 12345678901234567890123456789012345678 99999999999999999.999
99999999999999999999999999999999999999 100000000000000000000000000000000000000 0.0005 0.001 0.0010
100000000000000000.000 0.0010000000000000000000 1e308 1.7976931348623157e308
1.7976931348623159e308 1e309 -1e309 1e400
2.2250738585072014e-308 2.2250738585072011e-308 4.9e-324 5e-324 2e-324 3e-324 1e-323 1e-400 1E400
1e-1000 -1e-1000 1e-999999999 1e999999999 1e9999999999999999999 1e-9999999999999999999
7e-99999999999999999999 -1e-9999999999 0.1e1 1e00000000000000000001 1000000e-6 5e-1 25e-2
1e+00000000000000000000000000005 123456.7890123456789 0.30000000000000004
179769313486231580793728971405301e276
"""
NUMBERS = _NUMBERS.split()

_BROKEN_NUMBERS = """
01 +1 .5 5. 1e 1e+ 1e1.5 -- - + 0x10 1_000 NaN nan Infinity -Infinity inf 1,5 ١٢ 1.2.3 00 -01 1e٣ ²
"""
BROKEN_NUMBERS = _BROKEN_NUMBERS.split()

DATES = [
    "2024-01-01",
    "2024-02-29",
    "2023-02-29",
    "2024-02-30",
    "1900-02-29",
    "2000-02-29",
    "0001-01-01",
    "0000-01-01",
    "9999-12-31",
    "10000-01-01",
    "-0001-01-01",
    "+12024-01-01",
    "1582-10-10",
    "1969-12-31",
    "2024-1-1",
    "20240101",
    "2024-01-01T00:00:00Z",
    "2024-01-01T00:00:00",
    "2024-01-01 00:00:00",
    "2024-01-01t00:00:00z",
    "2024-01-01T00:00Z",
    "2024-01-01T00Z",
    "2024-01-01T24:00:00Z",
    "2024-01-01T23:59:60Z",
    "2024-01-01T23:59:59.999999Z",
    "2024-01-01T23:59:59.9999999Z",
    "2024-01-01T23:59:59.120000000Z",
    "2024-01-01T00:00:00.1Z",
    "2024-01-01T00:00:00.Z",
    "2024-01-01T00:00:00,5Z",
    "2024-01-01T00:00:00+00:00",
    "2024-01-01T00:00:00+01",
    "2024-01-01T00:00:00+0130",
    "2024-01-01T00:00:00-23:59",
    "2024-01-01T00:00:00+24:00",
    "2024-01-01T00:00:00 +01:00",
    "2024-01-01T00:00:00[Europe/Berlin]",
    "9999-12-31T23:59:59-01:00",
    "9999-12-31T23:59:59.999999Z",
    "0001-01-01T00:00:00+01:00",
    "0001-01-01T00:00:00Z",
    "0001-01-01T01:00:00+01:00",
    "1677-09-21T00:12:43.145224Z",
    "2262-04-11T23:47:16.854776Z",
    " 2024-01-01",
    "2024-01-01 ",
    "2024-01-01\n",
    "２０２４-01-01",
    "2024-W01-1",
    "now",
]

TEXTS = [
    "",
    " ",
    "a",
    "NA",
    "null",
    "None",
    "true",
    "False",
    "\0",
    "a\0b",
    "\ufeff",
    "\ufeffa",
    "\u2028",
    "\u0085",
    "\x1f",
    "\x7f",
    "é",
    "e\u0301",
    "ß",
    "İ",
    "ǅ",
    "🦀",
    "👩‍👩‍👧",
    "\U0010ffff",
    "\ufffe",
    "\ufffd",
    "ﷺ",
    "\u202eabc",
    '"',
    '""',
    "'",
    "\\",
    "\\\\",
    "\\n",
    "\n",
    "\r",
    "\r\n",
    "\t",
    ",",
    ";",
    "=",
    "/",
    "..",
    ".",
    "../x",
    "%2F",
    "%",
    "{}",
    "[]",
    "[1]",
    '{"a": 1}',
    "{{ 1 }}",
    "${HOME}",
    "-",
    "+",
    "=1+1",
    "a:b",
    "a=b",
    "aGk=",
    "aGk",
    "_lakeport",
    "_delta_log",
    "x" * 300,
    "é" * 150,
]

JUNK = [
    b"\0",
    b"\n",
    b"\r",
    b"\r\n",
    b'"',
    b"'",
    b"\\",
    b",",
    b";",
    b"\t",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xfe\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc0\x80",
    b"null",
    b"true",
    b"1",
    b"-",
    b"1e999999999999",
    b"\\u0000",
    b"\\ud800",
    b"\\ud83d\\ude00",
    b'""',
    b"\n\n",
    b"\x1a",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x7f",
]


def damaged(rng: random.Random, data: bytes, most: int = 4) -> bytes:
    """Change some places of bytes: put junk in, take parts out, repeat, swap, flip bits, cut."""
    parts = bytearray(data)
    for _ in range(rng.randint(1, most)):
        at = rng.randint(0, len(parts))
        match rng.randrange(7):
            case 0:
                parts[at:at] = rng.choice(JUNK)
            case 1:
                parts[at : at + rng.randint(1, 6)] = rng.choice(JUNK)
            case 2:
                del parts[at : at + rng.choice([1, 1, 2, 5, 20])]
            case 3:
                size = rng.choice([1, 3, 10, 40])
                parts[at:at] = parts[at : at + size] * rng.choice([1, 1, 2, 50])
            case 4 if parts:
                parts[at % len(parts)] ^= 1 << rng.randrange(8)
            case 5:
                other = rng.randint(0, len(parts))
                parts[at:at] = parts[other : other + rng.choice([2, 8, 30])]
            case _:
                if rng.random() < 0.3:
                    del parts[at:]
    return bytes(parts)


def text(rng: random.Random) -> str:
    """A text: mostly a nasty one, or several together."""
    pick = rng.random()
    if pick < 0.5:
        return rng.choice(TEXTS)
    if pick < 0.6:
        return rng.choice(DATES)
    if pick < 0.7:
        return rng.choice(NUMBERS)
    if pick < 0.9:
        return "".join(rng.choice(TEXTS[:-2]) for _ in range(rng.randint(1, 4)))
    return "".join(chr(_point(rng)) for _ in range(rng.randint(0, 12)))


def _point(rng: random.Random) -> int:
    top = rng.choice([0x20, 0x80, 0x800, 0x10000, 0x110000])
    found = rng.randrange(top)
    return found if not 0xD800 <= found < 0xE000 else 0x41


def number(rng: random.Random) -> str:
    """A number as JSON writes it: of the list, or made of digits, a point and an exponent."""
    if rng.random() < 0.6:
        return rng.choice(NUMBERS)
    digits = rng.choice([1, 3, 9, 15, 17, 19, 20, 38, 39, 60])
    whole = str(rng.randrange(10 ** rng.randint(1, digits)))
    sign = rng.choice(["", "", "-"])
    fraction = f".{rng.randrange(10 ** rng.randint(1, 20))}" if rng.random() < 0.4 else ""
    size = rng.choice([0, 1, 2, 5, 15, 19, 38, 300, 308, 324, 400, 5000])
    exponent = f"{rng.choice('eE')}{rng.choice(['', '+', '-'])}{size}"
    return sign + whole + fraction + (exponent if rng.random() < 0.4 else "")
