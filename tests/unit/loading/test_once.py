"""Files whose content was landed before: told, or left out; the rows counted by delta-rs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.delta_log import transactions
from lakeport.errors import ConfigError

TWICE = "has its rows twice now"
LEFT_OUT = "nothing was added"
ROWS = [{"id": n, "name": f"name {n}"} for n in range(500)]


def _csv(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = [f"{row['id']},{row['name']}\n" for row in rows]
    path.write_text("id,name\n" + "".join(lines))


def _gz(path: Path, rows: list[dict[str, Any]]) -> None:
    _csv(path, rows)
    path.write_bytes(gzip.compress(path.read_bytes()))


def _jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _json(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(rows))


def _parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=100)


FORMATS = {".csv": _csv, ".csv.gz": _gz, ".jsonl": _jsonl, ".json": _json, ".parquet": _parquet}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def land(lake: Path) -> Callable[..., lakeport.StreamReport]:
    def once(source: Path | list[str], **keys: Any) -> lakeport.StreamReport:
        given = [str(source)] if isinstance(source, Path) else source
        (stream,) = lakeport.land(given, str(lake), table="t", **keys).streams
        return stream

    return once


def rows(lake: Path) -> int:
    return int(DeltaTable(str(lake / "t")).to_pyarrow_table().num_rows)


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_same_content_is_told_and_left_out(
    tmp_path: Path, lake: Path, land: Callable[..., lakeport.StreamReport], suffix: str
) -> None:
    one, other, changed = (tmp_path / f"{name}{suffix}" for name in ("one", "other", "changed"))
    for path in (one, other):
        FORMATS[suffix](path, ROWS)
    FORMATS[suffix](changed, [*ROWS[:-1], {"id": 499, "name": "name 498"}])
    assert land(one).notes == ()
    left_out = land(other, once=True)
    assert (left_out.rows, left_out.skipped_batches, rows(lake)) == (0, 1, 500)
    assert LEFT_OUT in left_out.notes[0]
    assert land(changed, once=True).rows == 500
    again = land(other)
    assert again.rows == 500 and TWICE in again.notes[0] and rows(lake) == 1500
    assert len(DeltaTable(str(lake / "t")).file_uris()) == 3


def test_content_is_the_same_however_it_is_shared_out(
    tmp_path: Path, lake: Path, land: Callable[..., lakeport.StreamReport]
) -> None:
    for name in ("a", "b"):
        _csv(tmp_path / f"{name}.csv", [{**row, "name": name} for row in ROWS])
    both = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    land(both)
    tiny = {"min_file_size_mb": 0.001, "target_file_size_mb": 0.005}
    assert land(both, once=True, **tiny).rows == 0
    assert land(both[::-1], once=True).rows == 0
    assert land(tmp_path / "a.csv", once=True).rows == 0


@pytest.mark.parametrize("suffix", FORMATS)
def test_files_are_known_each_by_itself(
    tmp_path: Path, lake: Path, land: Callable[..., lakeport.StreamReport], suffix: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        name = folder / f"{number}{suffix}"
        FORMATS[suffix](name, [{**row, "name": f"n{number}"} for row in ROWS[number:]])
        landed = land(folder, once=True)
        assert landed.rows == 500 - number and landed.skipped_batches == 0
        left_out = [
            f"left out {number} of {number + 1} files: the table has had their content before"
        ]
        assert list(landed.notes) == (left_out if number else [])
    assert rows(lake) == 500 + 499 + 498
    FORMATS[suffix](folder / f"3{suffix}", ROWS[:1])
    again = land(folder)
    assert again.rows == 1498
    assert again.notes[0].startswith(
        "the table had 3 of these 4 files before, whose rows are there twice now"
    )
    assert land(folder, once=True).skipped_batches == 1


def test_the_same_bytes_in_another_folder_are_other_rows(
    tmp_path: Path, lake: Path, land: Callable[..., lakeport.StreamReport]
) -> None:
    for day in (1, 2):
        (tmp_path / "in" / f"day={day}").mkdir(parents=True)
        _csv(tmp_path / "in" / f"day={day}" / "a.csv", ROWS[:5])
        assert land(tmp_path / "in", once=True).rows == 5
    assert rows(lake) == 10


def test_many_files_are_known_as_a_whole(
    tmp_path: Path,
    lake: Path,
    land: Callable[..., lakeport.StreamReport],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakeport.loading.tasks._MOST_CONTENT_NAMES", 2)
    both = []
    for number in range(3):
        both.append(str(tmp_path / f"{number}.csv"))
        _csv(Path(both[-1]), ROWS[number:])
    land(both)
    assert land(both, once=True).rows == 0
    assert land(both[:1], once=True).rows == 500


def test_other_columns_are_another_content(
    tmp_path: Path, lake: Path, land: Callable[..., lakeport.StreamReport]
) -> None:
    (tmp_path / "a.csv").write_text("id,a\n1,2\n")
    (tmp_path / "b.csv").write_text("id,b\n1,2\n")
    land(tmp_path / "a.csv")
    assert land(tmp_path / "b.csv", once=True).rows == 1


def test_what_was_overwritten_may_come_again(
    tmp_path: Path, lake: Path, land: Callable[..., lakeport.StreamReport]
) -> None:
    _csv(tmp_path / "a.csv", ROWS)
    _csv(tmp_path / "b.csv", ROWS[:3])
    land(tmp_path / "a.csv")
    land(tmp_path / "b.csv", mode="overwrite")
    assert land(tmp_path / "b.csv", once=True).rows == 0  # it is what the table holds
    assert land(tmp_path / "a.csv", once=True).rows == 500
    assert land(tmp_path / "a.csv", once=True).rows == 0
    assert rows(lake) == 503


def test_many_at_once_land_it_once(
    tmp_path: Path, lake: Path, land: Callable[..., lakeport.StreamReport]
) -> None:
    _csv(tmp_path / "a.csv", ROWS)
    land(tmp_path / "a.csv")
    _csv(tmp_path / "b.csv", ROWS[:7])
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: land(tmp_path / "b.csv", once=True).rows, range(4)))
    assert sorted(found) == [0, 0, 0, 7] and rows(lake) == 507


def test_frames_are_not_remembered(lake: Path) -> None:
    frame = pa.Table.from_pylist(ROWS)
    for _ in range(2):
        (stream,) = lakeport.land(frame, str(lake), table="t", once=True).streams
        assert stream.rows == 500 and stream.notes == ()


@pytest.mark.parametrize("keys", [{"file_type": "parquet"}, {"mode": "overwrite"}])
def test_it_takes_appends_to_delta_tables(lake: Path, keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="`once` is for appends to Delta tables"):
        lakeport.land("a.csv", str(lake), once=True, **keys)


def test_a_file_is_known_when_checkpoints_have_left_it_out(
    land: Callable[..., lakeport.StreamReport],
    lake: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transactions, "_KEPT", 2)
    sources = [tmp_path / f"{number}.csv" for number in range(11)]
    for number, source in enumerate(sources):
        _csv(source, [{"id": number, "name": "n"}])
        land(source)
    assert len([*(lake / "t" / "_lakeport" / "transactions").rglob("*.json")]) == 9
    left_out = land([str(source) for source in sources], once=True)
    assert (left_out.rows, left_out.skipped_batches) == (0, 1)
    assert land(sources[0]).rows == 1
    assert len(DeltaTable(lake / "t").to_pyarrow_table()) == 12


BAD = {"schema": {"id": "integer"}, "on_bad_record": "quarantine"}
UNMET = {"expect": [{"between": {"id": [0, 9]}, "otherwise": "quarantine"}]}


@pytest.mark.parametrize("keys", [BAD, UNMET], ids=["bad records", "expectations"])
def test_records_of_a_file_that_is_left_out_are_not_set_aside_again(
    keys: dict[str, Any], tmp_path: Path, lake: Path, land: Callable[..., lakeport.StreamReport]
) -> None:
    keys = {**keys, "once": True, "engine": "threads"}
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    bad = "x" if "schema" in keys else "-1"
    first.write_text(f"id\n1\n{bad}\n")
    assert (land(first, **keys).rejected, land(first, **keys).rejected) == (1, 0)
    second.write_text(f"id\n2\n{bad}\n{bad}\n")
    both = land([str(first), str(second)], **keys)
    assert (both.rows, both.rejected) == (1, 2)
    assert [one.checked for one in both.expectations] == ([] if "schema" in keys else [3])
    assert sum(one.records for one in lakeport.quarantined(str(lake))) == 3


def test_a_repeated_run_sets_nothing_aside_of_files_that_it_left_out(
    tmp_path: Path, lake: Path, land: Callable[..., lakeport.StreamReport]
) -> None:
    keys = {**BAD, "once": True, "engine": "threads"}
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("id\n1\nx\n")
    second.write_text("id\n2\nx\nx\n")
    land(first, **keys)
    for rejected in (2, 0):
        both = land([str(first), str(second)], run_id="repeated", **keys)
        assert both.rejected == rejected
    assert sum(one.records for one in lakeport.quarantined(str(lake))) == 3
