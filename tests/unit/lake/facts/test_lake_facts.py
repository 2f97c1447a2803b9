"""What the page of a lake shows."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeport
from lakeport.html.facts import MOST_POINTS
from lakeport.lake import tables as lake
from lakeport.storage.local import LocalStorage
from tests.long_table import write_long_table

ROWS = [{"id": number} for number in range(5)]


def test_tables_grow_and_have_small_files(tmp_path: Path) -> None:
    for number in range(3):
        lakeport.land(ROWS[number:], tmp_path, table="silver/delta")
        lakeport.land(ROWS[number:], tmp_path, table="raw", file_type="csv")
    (tmp_path / "void" / "_delta_log").mkdir(parents=True)
    raw, delta, void = lake.list_tables(LocalStorage(str(tmp_path)), "", MOST_POINTS)
    assert [rows for _, rows in delta.growth] == [5, 9, 12]
    assert [rows for _, rows in raw.growth] == [5, 9, 12]
    moments = [at for at, _ in delta.growth]
    assert moments == sorted(moments) and delta.last_change is not None
    assert (delta.rows, delta.files, delta.small_files, delta.version) == (12, 3, 3, 2)
    assert (raw.files, raw.small_files, raw.problem) == (3, 3, None)
    assert void.problem and void.growth == ()
    listed = lakeport.tables(tmp_path)
    assert [(t.name, t.rows, t.bytes) for t in listed] == [
        (t.name, t.rows, t.bytes) for t in (raw, delta, void)
    ]


def test_growth_of_a_long_log_has_its_newest_points(tmp_path: Path) -> None:
    write_long_table(tmp_path / "t", versions=120, files=2, checkpoints=10)
    (told,) = lake.list_tables(LocalStorage(str(tmp_path)), "", MOST_POINTS)
    assert len(told.growth) == MOST_POINTS
    assert told.growth[-1][1] == told.rows
    assert told.growth[0][1] < told.growth[-1][1]


def test_many_tables_have_fewer_points_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        write_long_table(tmp_path / name, versions=30, files=1, checkpoints=10)
    assert [
        len(t.growth) for t in lake.list_tables(LocalStorage(str(tmp_path)), "", MOST_POINTS)
    ] == [30, 30]
    monkeypatch.setattr(lake, "_GROWTH", 12)
    assert [
        len(t.growth) for t in lake.list_tables(LocalStorage(str(tmp_path)), "", MOST_POINTS)
    ] == [6, 6]
