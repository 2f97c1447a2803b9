"""`lakeport land --from-database`, as users call it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakeport.cli.app import main
from tests.database.kit import Schema

CANARY = "canary-5ecret"


def uri(schema: Schema, password: str = "") -> str:
    return schema.uri.replace("postgres@", f"postgres:{password}@") if password else schema.uri


def ask(schema: Schema, *options: str, database: str = "") -> list[str]:
    return ["--from-database", database or schema.uri, "--to", str(schema.lake), *options]


def test_a_table_is_landed_and_planned(schema: Schema, capsys: pytest.CaptureFixture[str]) -> None:
    schema.sql("CREATE TABLE t AS SELECT i AS id, i / 4.0 AS part FROM generate_series(1, 100) i")
    asked = ask(schema, "--table-of", f"{schema.name}.t", "--split-by", "id", "--json")
    assert main(["plan", *asked]) == 0
    plan = json.loads(capsys.readouterr().out)["streams"][0]
    assert (plan["stream"], plan["rows"], plan["exists"]) == ("t", 100, False)
    assert plan["columns"][0] == {"name": "id", "type": "int32", "change": ""}
    assert not (schema.lake / "t").exists()
    assert main(["land", *asked, "--format", "delta"]) == 0
    assert len(schema.read("t")) == 100


def test_a_query_is_landed_in_the_table_that_is_named(schema: Schema) -> None:
    asked = ask(schema, "--query", "SELECT 1 AS id", "--table", "one", "--format", "delta")
    assert main(["land", *asked]) == 0
    assert schema.read("one")["id"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--cursor", "id", "a.csv"], "`--cursor` is about a database"),
        ([], "no source is named"),
        (["--from-database", "sqlite:///a.db", "--table-of", "t", "a.csv"], "both files and"),
        (["--from-database", "sqlite:///a.db"], "needs a `table` or a `query`"),
        (["--from-database", "db2://x/y", "--table-of", "t"], "no driver is known"),
        (["--from-database", "postgresql://[x/y", "--table-of", "t"], "is malformed"),
        (["--from-database", "${NOWHERE}", "--table-of", "t"], "'NOWHERE', which is not set"),
    ],
)
def test_what_makes_no_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert main(["land", "--to", str(tmp_path / "lake"), *options]) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_a_password_on_the_command_line_is_refused(
    schema: Schema, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ask(schema, "--table-of", "t", database=uri(schema, CANARY))
    assert main(["land", *asked]) == 2
    told = capsys.readouterr()
    assert "other users can read a command line" in told.err
    assert CANARY not in told.out + told.err


@pytest.mark.parametrize(
    "by_spark",
    [
        pytest.param(False, marks=pytest.mark.by_threads),
        pytest.param(True, marks=pytest.mark.spark),
    ],
)
def test_a_password_of_the_environment_is_nowhere_to_be_seen(
    schema: Schema, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by_spark: bool
) -> None:
    schema.sql("CREATE TABLE t AS SELECT i AS id FROM generate_series(1, 100) i")
    monkeypatch.setenv("PGPW", CANARY)
    events = tmp_path / "events"
    events.mkdir()
    spark = ["--spark", "spark.eventLog.enabled=true", "--spark", f"spark.eventLog.dir={events}"]
    for table in ("t", "nope"):
        asked = ask(schema, "--table-of", f"{schema.name}.{table}", "--format", "delta", "--debug")
        asked[1] = uri(schema, "${PGPW}")
        command = [sys.executable, "-m", "lakeport", "land", *asked, "--set", "manifest=true"]
        command += spark if by_spark else []
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == (0 if table == "t" else 3)
        assert CANARY not in done.stdout + done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("reports" in path.parts for path in files)
    assert any("events" in path.parts for path in files) == by_spark
    assert not [path for path in files if CANARY.encode() in path.read_bytes()]
