"""Dates and times as text."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.schema.literals import parse_days, parse_microseconds

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:00", 0),
        ("1970-01-01 00:00:01Z", 1_000_000),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01T01", 3_600_000_000),
        ("1970-01-01T01:30+01:30", 0),
        ("1970-01-01T00:00:00-0100", 3_600_000_000),
        ("1970-01-01T05:00:00+05", 0),
        ("1970-01-01T00:00:00.1", 100_000),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("1970-01-01T00:00:00.000001000", 1),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000_000),
        ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
        ("2024-02-29", 1_709_164_800_000_000),
    ],
)
def test_timestamps(text: str, expected: int) -> None:
    assert parse_microseconds(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2023-02-29", "not a timestamp"),
        ("2024-13-01", "not a timestamp"),
        ("2024-01-01T24:00:00", "not a timestamp"),
        ("2024-01-01T23:59:60", "not a timestamp"),
        ("2024-01-01T00:00:00+24:00", "not a timestamp"),
        ("2024-01-01T00:00:00+01:60", "not a timestamp"),
        ("2024-1-1", "not a timestamp"),
        ("", "not a timestamp"),
        ("today", "not a timestamp"),
        ("2024-01-01 ", "not a timestamp"),
        ("٢٠٢٤-01-01", "not a timestamp"),
        ("0000-00-00", "date out of range"),
        ("10000-01-01T00:00:00Z", "date out of range"),
        ("-0001-01-01", "date out of range"),
        ("0001-01-01T00:00:00+00:01", "date out of range"),
        ("9999-12-31T23:59:59-00:01", "date out of range"),
        ("2024-01-01T00:00:00.1234567", "finer than microseconds"),
    ],
)
def test_bad_timestamps(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        parse_microseconds(text)


@pytest.mark.parametrize(
    "text", ["1970-01-03", "1970-01-03T00:00:00.000+00:00", "1970-01-03 00:00"]
)
def test_dates(text: str) -> None:
    assert parse_days(text) == 2


@pytest.mark.parametrize("text", ["2024-01-01T00:00:01", "2024-01-01T00:00:00+01:00", "2024-02-30"])
def test_bad_dates(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not a date$"):
        parse_days(text)


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.integers(-1439, 1439))
def test_any_offset(local: datetime, minutes: int) -> None:
    sign, size = "-" if minutes < 0 else "+", abs(minutes)
    text = f"{local.isoformat()}{sign}{size // 60:02}:{size % 60:02}"
    instant = local.replace(tzinfo=UTC) - timedelta(minutes=minutes)
    assert parse_microseconds(text) == (instant - EPOCH) // timedelta(microseconds=1)


@given(st.dates())
def test_any_date(day: date) -> None:
    assert parse_days(day.isoformat()) == (day - EPOCH.date()).days
