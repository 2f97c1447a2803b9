"""What is expected of a load for which its source has nothing new, and of one without any row."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport import DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.errors import ConfigError, ExpectationFailed

if TYPE_CHECKING:
    from lakeport.engine.spark.session import DriverSession

TAP = """
import json, sys
rows = json.load(open(sys.argv[1]))
state = json.load(open(sys.argv[sys.argv.index("--state") + 1])) if "--state" in sys.argv else {}
last = state.get("bookmarks", {}).get("t", {}).get("id", -1)
schema = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}
def say(message): print(json.dumps(message), flush=True)
if "silent" not in sys.argv:
    say({"type": "SCHEMA", "stream": "t", "key_properties": [], "schema": {"properties": schema}})
for row in rows:
    if row["id"] > last:
        say({"type": "RECORD", "stream": "t", "record": row})
        state = {"bookmarks": {"t": {"id": row["id"]}}}
say({"type": "STATE", "value": state})
"""
SOURCES = ("files", "database", "tables", "tap", "silent tap")
ROWS = {"rows": {"at_least": 1}}
Grow = Callable[[int, float], None]
"""Puts a row into a source: its id, and how many days old it is."""


def at(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def fresh(within: str, otherwise: str = "fail") -> dict[str, Any]:
    return {"fresh": {"column": "at", "within": within}, "otherwise": otherwise}


def made(kind: str, folder: Path) -> tuple[Any, Grow, dict[str, Any]]:
    """A source that remembers, what lets it grow, and what `land` is to be told of it."""
    source: Any
    if kind == "files":
        (folder / "in").mkdir()

        def file(number: int, days: float) -> None:
            line = json.dumps({"id": number, "at": at(days).isoformat()})
            (folder / "in" / f"{number}.jsonl").write_text(line)

        source = FilesSource(files=f"{folder}/in/*.jsonl", new_only=True)
        return source, file, {"schema": {"at": "timestamp"}}
    if kind == "tables":

        def append(number: int, days: float) -> None:
            rows = pa.table({"id": [number], "at": [at(days)]})
            lakeport.land(rows, folder / "bronze", table="from", file_type="delta")

        return TablesSource(tables=[f"{folder}/bronze/from"], incremental=True), append, {}
    if kind == "database":
        path = folder / "shop.db"
        with closing(sqlite3.connect(path)) as made_, made_:
            made_.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, at TEXT)")

        def insert(number: int, days: float) -> None:
            with closing(sqlite3.connect(path)) as connection, connection:
                text = at(days).strftime("%Y-%m-%d %H:%M:%S")
                connection.execute("INSERT INTO t VALUES (?, ?)", (number, text))

        source = DatabaseSource(database=f"sqlite:///{path}", table="t", cursor="id")
        return source, insert, {"sql": "SELECT id, CAST(at AS timestamp) AS at FROM source"}
    rows: list[dict[str, Any]] = []
    (folder / "tap.py").write_text(TAP)

    def add(number: int, days: float) -> None:
        rows.append({"id": number, "at": at(days).isoformat()})
        (folder / "rows.json").write_text(json.dumps(rows))

    command = [sys.executable, f"{folder}/tap.py", f"{folder}/rows.json", kind.split()[0]]
    return TapSource(tap=command, name="tap"), add, {}


@pytest.mark.parametrize("file_type", ["delta", pytest.param("parquet", marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_that_has_gone_quiet_is_noticed_and_no_rows_are_missed(
    driver: DriverSession, tmp_path: Path, kind: str, file_type: str
) -> None:
    source, grow, keys = made(kind, tmp_path)
    silent = kind == "silent tap"
    loud = TapSource(tap=[*source.tap[:-1], "loud"], name="tap") if silent else source
    keys |= {"table": "t", "file_type": file_type}

    def land(source: Any, *expect: dict[str, Any]) -> Any:
        report = lakeport.land(source, tmp_path / "lake", expect=expect, **keys)
        return report.rows, {
            one.name: (one.failed, one.detail)
            for stream in report.streams
            for one in stream.expectations
        }

    grow(1, 5.0)
    grow(2, 3.0)
    assert land(loud, ROWS, fresh("4 days"))[0] == 2
    day = "the newest value of the table is 3.0 days old"
    assert land(source, ROWS, fresh("4 days")) == (0, {"fresh(at)": (0, day)})
    assert land(source, fresh("2 days", "warn")) == (0, {"fresh(at)": (1, day)})
    with pytest.raises(ExpectationFailed) as caught:
        land(source, ROWS, fresh("2 days"))
    assert f"the expectation is not met: fresh(at): {day}" in caught.value.message
    assert caught.value.exit_code == 3
    grow(3, 0.0)
    assert land(loud, ROWS, fresh("2 days"))[0] == 1
    assert land(source, ROWS, fresh("2 days"))[0] == 0


def test_the_tables_name_of_the_column_is_asked(driver: DriverSession, tmp_path: Path) -> None:
    source, grow, keys = made("files", tmp_path)
    keys |= {"table": "t", "file_type": "delta", "rename": {"at": "Moment"}}
    grow(1, 3.0)
    for expect in ([], [fresh("4 days")]):
        report = lakeport.land(source, tmp_path / "lake", expect=expect, **keys)
    (stream,) = report.streams
    assert (stream.notes, stream.warnings) == (("nothing new: 1 file looked at",), ())
    assert [one.failed for one in stream.expectations] == [0]


def test_rows_that_are_deleted_are_not_asked_for_their_age(
    driver: DriverSession, tmp_path: Path
) -> None:
    source, grow, keys = made("files", tmp_path)
    keys |= {"table": "t", "file_type": "delta"}
    grow(1, 3.0)
    grow(2, 1.0)
    lakeport.land(source, tmp_path / "lake", **keys)
    table = f"delta.`{tmp_path}/lake/t`"
    vectors = "'delta.enableDeletionVectors' = 'true'"
    driver.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({vectors})")
    driver.spark.sql(f"OPTIMIZE {table}")
    driver.spark.sql(f"DELETE FROM {table} WHERE id = 2")
    log = sorted((tmp_path / "lake/t/_delta_log").glob("*.json"))
    assert '"deletionVector"' in log[-1].read_text()
    report = lakeport.land(source, tmp_path / "lake", expect=[fresh("4 days", "warn")], **keys)
    (told,) = report.streams[0].expectations
    assert told.detail == "the newest value of the table is 3.0 days old"


def test_csv_files_do_not_tell_and_a_warning_says_so(driver: DriverSession, tmp_path: Path) -> None:
    source, grow, keys = made("files", tmp_path)
    keys |= {"table": "t", "file_type": "csv"}
    grow(1, 3.0)
    for _ in range(2):
        report = lakeport.land(source, tmp_path / "lake", expect=[fresh("4 days")], **keys)
    (warning,) = report.streams[0].warnings
    assert warning.startswith("fresh(at) was not checked: ")


@pytest.mark.parametrize("file_type", ["delta", "parquet"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_source_that_is_read_whole_and_has_no_row_brings_none(
    driver: DriverSession, tmp_path: Path, file_type: str, mode: str
) -> None:
    if mode == "overwrite" and file_type == "parquet":
        mode = "append"
    (tmp_path / "empty.csv").write_text("id,at\n")
    schema = {"properties": {"id": {"type": "integer"}}}
    message = {"type": "SCHEMA", "stream": "s", "key_properties": [], "schema": schema}
    (tmp_path / "empty.singer").write_text(json.dumps(message) + "\n")
    keys = {"file_type": file_type, "mode": mode}
    lakeport.land([{"id": 1}], tmp_path / "lake", table="s", **keys)
    for source, table in (("empty.csv", "t"), ("empty.singer", "s")):
        with pytest.raises(ExpectationFailed, match=r"rows\(at_least 1\): 0 rows"):
            lakeport.land(tmp_path / source, tmp_path / "lake", table=table, expect=[ROWS], **keys)
    assert not (tmp_path / "lake/t").exists()
    if file_type == "delta":
        assert DeltaTable(tmp_path / "lake/s").version() == 0


def test_a_tap_that_brings_no_stream_brings_no_row(driver: DriverSession, tmp_path: Path) -> None:
    source, _, _ = made("silent tap", tmp_path)
    (tmp_path / "rows.json").write_text("[]")
    with pytest.raises(ExpectationFailed, match=r"rows\(at_least 1\): 0 rows"):
        lakeport.land(source, tmp_path / "lake", expect=[ROWS], table="t")


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("att", "there is no column 'att'; did you mean `at`?"),
        ("id", "column 'id' is of type integer, which has no age"),
        ("at", "column 'at' is of type string, which has no age"),
    ],
)
@pytest.mark.parametrize("sql", ["", "SELECT * FROM source"])
def test_what_has_no_age_is_refused(
    driver: DriverSession, tmp_path: Path, column: str, words: str, sql: str
) -> None:
    rows = pa.table({"id": [1], "at": ["2024-05-01"]})
    expect = [{"fresh": {"column": column, "within": "1 day"}}]
    with pytest.raises(ConfigError) as caught:
        lakeport.land(rows, tmp_path, table="t", sql=sql, expect=expect)
    assert words in caught.value.message
    assert not (tmp_path / "t").exists()


def test_a_column_that_never_had_a_value_has_none(driver: DriverSession, tmp_path: Path) -> None:
    with pytest.raises(ExpectationFailed, match=r"fresh\(at\): no value"):
        lakeport.land([{"id": 1, "at": None}], tmp_path, table="t", expect=[fresh("1 day")])
