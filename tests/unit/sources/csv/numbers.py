"""Texts that look like numbers, dates or booleans, what becomes of each, and who else differs."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

CODES = {"12E12", "7E3", "5E10", "1e5", "0E0", "-7E3", "+7E3", "12e4", "007E3"}
CODES |= {"123e4567", "1e400", "1E-400"}
PADDED = {"007", "00", "00.5", "-007"}
SIGNED = {"+5", "+0.5"}
GROUPED = {"1 000", "1\u00a0000", "1\u2009000", "1'000"}
TOO_LONG = {"9223372036854775808", "12345678901234567890", "9" * 30, "0.1234567890123456789"}
TOO_LONG |= {"9007199254740993.0"}
NOT_FINITE = {"Infinity", "-Infinity", "inf", "INF", "nan", "NaN", "-nan"}

TEXTS: dict[str, Any] = {
    # An exponent as programs write it, and codes with an E.
    **{"1e-05": 1e-05, "1.5E10": 1.5e10, "1E+10": 1e10, "1.e5": 1e5, ".5E3": 500.0},
    **{"5.E-3": 0.005, "-2.5e-7": -2.5e-7, "1e+22": 1e22, "1.0E0": 1.0},
    **dict.fromkeys([*CODES, "1e", "e5", "1.5e", "1e+", "1E5e"]),
    # Digits, and what some languages put beside them.
    **{"0": 0, "7": 7, "-7": -7, "-0": -0.0, "-0.0": -0.0, "0.50": 0.5, "1.10": 1.1, "1.9": 1.9},
    **{".5": 0.5, "5.": 5.0, "-.5": -0.5, "20240102": 20240102},
    **dict.fromkeys([*PADDED, *SIGNED, "+49 123", "1_000", "1__0"]),
    **dict.fromkeys(["0x10", "0X1F", "0b1", "0o7", "1d", "1D", "1f", "1F", "1L", "1l", "5u"]),
    **dict.fromkeys(NOT_FINITE),
    **dict.fromkeys(["１２", "٣", "١٢", "²", "½", "−5", "- 5", "--5"]),
    **dict.fromkeys(["5-", "5%", "$5", "(5)", "1.2.3", "1,000", "-", "."]),
    **dict.fromkeys(GROUPED, 1000),  # which the report says
    # More digits than a column holds.
    **{"4111111111111111": 4111111111111111, "9007199254740993": 9007199254740993},
    **{"9223372036854775807": 2**63 - 1, "0.12345678901234567": 0.12345678901234567},
    **dict.fromkeys(TOO_LONG),
    # Dates, times and booleans.
    **{"2024-01-02": date(2024, 1, 2), "TRUE": True, "false": False},
    **{"1-2": None, "12/13": None, "24:00": None, "23:59": None, "10:30": None, "2024-W01": None},
    **dict.fromkeys(["2024-W01-1", "2024-02-30", "2024-1-2", "0000-01-01", "2024-01", "2024-366"]),
    **dict.fromkeys(["10000-01-01", "yes", "no", "T", "F", "t", "Y", "on"]),
}
"""A text alone in its column, and its value; None where it stays the text that it is."""


def one_row(path: Path) -> list[str]:
    """Write a CSV of one row, each text in a column of its own; return the texts."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([[f"c{n}" for n in range(len(TEXTS))], TEXTS])
    return list(TEXTS)


def differing(texts: Iterable[str], values: Iterable[Any]) -> set[str]:
    """The texts that someone else reads as another value, or as another kind of value."""
    return {text for text, value in zip(texts, values, strict=True) if _kind(value) != _ours(text)}


def _ours(text: str) -> tuple[str, Any]:
    value = TEXTS[text]
    return _kind(text if value is None else value)


def _kind(value: Any) -> tuple[str, Any]:
    if isinstance(value, str):
        return "text", value
    if isinstance(value, datetime) and value.time() == datetime.min.time():
        value = value.date()
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return "number", Decimal(value)
    return type(value).__name__, value
