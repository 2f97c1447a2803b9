"""What a table remembers of a database moves in the very commit that lands the rows."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from lakeport.errors import LakeportError
from tests.database.kit import Schema

KILLED = """
import os, signal, sys
from lakeport.cli.app import main
from lakeport.writers.delta.table import DeltaTableWriter

commit = DeltaTableWriter.commit

def killed(self, *about):
    if sys.argv[1] == "after":
        commit(self, *about)
    os.kill(os.getpid(), signal.SIGKILL)

DeltaTableWriter.commit = killed
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def filled(schema: Schema) -> Schema:
    schema.sql(
        "CREATE TABLE t (id int PRIMARY KEY, at int)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 2)"
    )
    return schema


def ids(schema: Schema) -> list[int]:
    return [row["id"] for row in schema.rows()]


def test_each_load_has_what_is_new(filled: Schema) -> None:
    source = filled.source(cursor="at")
    assert filled.land(source=source).rows == 3
    assert filled.land(source=source).rows == 0
    filled.sql("INSERT INTO t VALUES (4, 2), (5, 3)")
    assert filled.land(source=source).rows == 2
    assert ids(filled) == [1, 2, 3, 4, 5]


def test_a_full_refresh_begins_anew(filled: Schema) -> None:
    source = filled.source(cursor="at")
    filled.land(source=source, mode="merge")
    filled.sql("UPDATE t SET at = 1")  # unseen: it went back
    filled.land(source=source, mode="merge", full_refresh=True)
    assert [row["at"] for row in filled.rows()] == [1, 1, 1]
    assert filled.land(source=source, mode="merge").rows == 0


@pytest.mark.parametrize(
    ("moments", "mode"),
    [
        (("before", "after"), "append"),
        pytest.param(("after", "before", "before"), "append", marks=pytest.mark.soak),
        pytest.param(("after", "before", "before"), "merge", marks=pytest.mark.soak),
    ],
)
def test_a_load_that_is_killed_lands_nothing_twice_and_skips_nothing(
    filled: Schema, moments: tuple[str, ...], mode: str
) -> None:
    asked = ["land", "--from-database", filled.uri, "--table-of", f"{filled.name}.t"]
    asked += ["--cursor", "at", "--to", str(filled.lake), "--format", "delta", "--mode", mode]
    number = 3
    for moment in moments:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, moment, *asked], capture_output=True, timeout=120
        )
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
        subprocess.run([sys.executable, "-m", "lakeport", *asked], check=True, timeout=120)
        assert ids(filled) == list(range(1, number + 1))
        number += 1
        filled.sql(f"INSERT INTO t VALUES ({number}, 2 + {number} / 5)")


def test_two_loads_at_once_do_not_land_the_same_rows(filled: Schema) -> None:
    """The second one finds the bookmark moved when it comes to commit."""
    from lakeport.sources.database.database_source import DatabaseFlushes

    begin, source = DatabaseFlushes._make_batches, filled.source(cursor="at")
    others: list[bool] = []

    def late(self: DatabaseFlushes, session: object) -> object:
        batches = list(begin(self, session))  # type: ignore[arg-type]
        if not others:
            others.append(True)
            filled.land(source=source)
        return batches

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseFlushes, "_make_batches", late)
        with pytest.raises(LakeportError):
            filled.land(source=source)
    assert ids(filled) == [1, 2, 3]
    assert filled.land(source=source).rows == 0


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_cursor_that_went_back_is_told_by_the_report(filled: Schema, mode: str) -> None:
    source = filled.source(cursor="at")
    filled.land(source=source, mode=mode)
    filled.sql("DELETE FROM t WHERE at = 2")
    report = filled.land(source=source, mode=mode)
    assert report.rows == 0
    assert "'at' is older than the one that has landed" in report.streams[0].warnings[0]
    assert ids(filled) == [1, 2, 3]
    filled.sql("INSERT INTO t VALUES (9, 3)")
    assert filled.land(source=source, mode=mode).rows == 1
    assert ids(filled) == [1, 2, 3, 9]


@pytest.mark.parametrize("file_type", ["parquet", "csv"])
def test_files_remember_too(filled: Schema, file_type: str) -> None:
    source = filled.source(cursor="at")
    assert filled.land(source=source, file_type=file_type).rows == 3
    assert filled.land(source=source, file_type=file_type).rows == 0
    filled.sql("INSERT INTO t VALUES (4, 2)")
    assert filled.land(source=source, file_type=file_type).rows == 1
