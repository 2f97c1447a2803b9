"""The tables and the runs of a lake, on the local disk."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport.errors import ConfigError, SourceError
from lakeport.lake import tables as listing

ROWS = [{"id": number, "v": "x"} for number in range(5)]


def land(root: Path, table: str, rows: Any = ROWS, **keys: Any) -> lakeport.LandingReport:
    return lakeport.land(rows, root, table=table, internal_columns=False, **keys)


def told(root: Path) -> dict[str, tuple[Any, ...]]:
    """name -> format, rows and files."""
    return {t.name: (t.format, t.rows, t.files) for t in lakeport.tables(root)}


def test_tables_of_every_format_by_name(tmp_path: Path) -> None:
    land(tmp_path, "plain", file_type="parquet")
    land(tmp_path, "plain", file_type="parquet")
    land(tmp_path, "texts", file_type="csv")
    land(tmp_path, "delta")
    report = land(tmp_path, "delta", mode="overwrite", rows=ROWS[:2])
    assert told(tmp_path) == {
        "delta": ("delta", 2, 1),
        "plain": ("parquet", 10, 2),
        "texts": ("csv", None, 1),
    }
    delta, plain, _ = lakeport.tables(tmp_path)
    assert (delta.version, plain.version) == (1, None)
    assert delta.uri == str(tmp_path / "delta") == report.streams[0].table
    assert delta.bytes == report.streams[0].bytes
    assert delta.last_change and datetime.now(UTC) - delta.last_change < timedelta(minutes=5)
    assert json.loads(json.dumps(delta.to_dict()))["rows"] == 2


def test_tables_lie_deep_and_partitions_are_none(tmp_path: Path) -> None:
    land(tmp_path, "silver/people", partition_keys="id")
    land(tmp_path, "silver/days", file_type="parquet", date_partition_format="%Y/%m/%d")
    land(tmp_path, "2024")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "stray.parquet")
    assert told(tmp_path) == {
        "2024": ("delta", 5, 1),
        "silver/days": ("parquet", 5, 1),
        "silver/people": ("delta", 5, 5),
    }


def test_a_table_is_a_lake_of_one(tmp_path: Path) -> None:
    land(tmp_path, "delta")
    land(tmp_path, "plain", file_type="parquet", date_partition_format="day=%d")
    assert told(tmp_path / "delta") == {"delta": ("delta", 5, 1)}
    assert told(tmp_path / "plain") == {"plain": ("parquet", 5, 1)}
    (tmp_path / "nothing").mkdir()
    assert told(tmp_path / "nothing") == {}


def test_a_damaged_table_hides_no_other(tmp_path: Path) -> None:
    land(tmp_path, "fine")
    (tmp_path / "torn" / "_delta_log").mkdir(parents=True)
    (tmp_path / "torn" / "_delta_log" / f"{0:020}.json").write_text("{")
    (tmp_path / "void" / "_delta_log").mkdir(parents=True)
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "a.parquet").write_bytes(b"PAR1")
    found = {table.name: table for table in lakeport.tables(tmp_path)}
    assert found["fine"].rows == 5 and found["fine"].problem is None
    assert found["torn"].rows is None and found["torn"].problem
    assert found["void"].problem == "its `_delta_log` has no version"
    assert (found["half"].files, found["half"].rows) == (1, None)


def test_what_is_looked_into_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        land(tmp_path, f"t{number}", file_type="parquet")
    monkeypatch.setattr(listing, "_FOOTERS", 2)
    assert [table.rows for table in lakeport.tables(tmp_path)] == [5, 5, None]
    monkeypatch.setattr(listing, "_FILES", 0)
    assert {(table.files, table.bytes) for table in lakeport.tables(tmp_path)} == {(None, None)}
    monkeypatch.setattr(listing, "_FOLDERS", 2)
    with pytest.raises(SourceError, match="more than 2 folders"):
        lakeport.tables(tmp_path)


def test_a_folder_of_tables_is_none_itself(tmp_path: Path) -> None:
    for name in ("people", "places"):
        land(tmp_path, name)
    for ask in ("describe", "preview", "history"):
        with pytest.raises(SourceError, match="is no table but a folder of tables") as caught:
            getattr(lakeport.Table(tmp_path), ask)()
        assert caught.value.hint == "name one of them: people, places."
    assert [table.name for table in lakeport.Table(tmp_path).tables()] == ["people", "places"]
    assert lakeport.Table(tmp_path / "people").tables() == []


def test_files_beside_delta_tables_are_no_table(tmp_path: Path) -> None:
    """Else the rows of all tables would be shown as those of one."""
    land(tmp_path, "silver/people")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "stray.parquet")
    for ask in ("describe", "preview"):
        with pytest.raises(SourceError, match="is no table but a folder of tables"):
            getattr(lakeport.Table(tmp_path), ask)()
    assert [table.name for table in lakeport.Table(tmp_path).tables()] == ["silver/people"]


def test_files_in_a_lakes_folder_hide_no_tables_of_files(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for name in ("people", "places"):
        land(lake, name, file_type="parquet")
    pq.write_table(pa.table({"id": [1]}), lake / "stray.parquet")
    with pytest.raises(SourceError, match="is no table but a folder of tables"):
        lakeport.Table(lake).describe()
    assert told(tmp_path) == {
        "lake/people": ("parquet", 5, 1),
        "lake/places": ("parquet", 5, 1),
    }


def test_files_in_folders_are_one_table(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    for folder in (tmp_path, tmp_path / "more"):
        pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")
    assert lakeport.Table(tmp_path).describe().rows == 2


def test_a_misspelt_table_names_its_neighbours(tmp_path: Path) -> None:
    for name in ("people", "places"):
        land(tmp_path, name)
    (tmp_path / "Documents").mkdir()
    for table in (lakeport.Table(tmp_path / "peple"), lakeport.Table("peple", tmp_path)):
        with pytest.raises(SourceError, match="did you mean people") as caught:
            table.describe()
        assert caught.value.hint == f"tables in {tmp_path}: people, places."
    with pytest.raises(SourceError) as caught:
        lakeport.Table(tmp_path / "none" / "people").history()
    assert caught.value.hint == "check its name; `land` makes tables."


def test_an_empty_log_is_no_table_and_not_its_own_neighbour(tmp_path: Path) -> None:
    (tmp_path / "people" / "_delta_log").mkdir(parents=True)
    with pytest.raises(SourceError, match=r"there is no table in .*/people\n"):
        lakeport.Table(tmp_path / "people").describe()


def test_a_file_is_no_place_for_tables(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("id\n1\n")
    for ask in (lambda: lakeport.land(file, str(file)), lambda: lakeport.tables(str(file))):
        with pytest.raises(ConfigError, match=r"the target '.*people.csv' is a file"):
            ask()
    with pytest.raises(ConfigError, match="is a file, and a table is a folder"):
        lakeport.Table(file)


def test_runs_are_told_by_their_reports(tmp_path: Path) -> None:
    land(tmp_path, "people", run_id="first")
    (tmp_path / "bad.csv").write_text('id\n"1\n')
    with pytest.raises(lakeport.InputError):
        lakeport.land(tmp_path / "bad.csv", tmp_path, run_id="second")
    land(tmp_path, "people", manifest=False)
    (tmp_path / "_lakeport" / "reports" / "29990101-000000-ab.json").write_text("{}")
    second, first = lakeport.runs(tmp_path)
    assert (first.run_id, first.rows, first.streams, first.ok) == ("first", 5, ("people",), True)
    assert first.report["streams"][0]["stream"] == "people"
    assert first.error is None and first.seconds > 0 and first.started < second.started
    assert (second.run_id, second.rows, second.ok) == ("second", 0, False)
    assert second.error and second.error.startswith("BadRecords: bad record in stream 'bad'")
    assert "report" not in first.to_dict()
    (tmp_path / "_lakeport" / "reports" / "29990101-000000-ab.json").unlink()
    assert [run.run_id for run in lakeport.runs(tmp_path, 1)] == ["second"]
    (tmp_path / "none").mkdir()
    assert lakeport.runs(tmp_path / "none") == []
    with pytest.raises(SourceError, match="is a table, and reports of runs lie beside") as caught:
        lakeport.runs(tmp_path / "people")
    assert f"`lakeport runs {tmp_path}`" in caught.value.hint


def test_a_lake_that_is_not_there_has_no_tables_to_list(tmp_path: Path) -> None:
    land(tmp_path / "lake", "people")
    for ask in (lakeport.tables, lakeport.runs):
        with pytest.raises(SourceError, match=r"there is no folder .*/lkae; did you mean lake\?"):
            ask(tmp_path / "lkae")
        with pytest.raises(SourceError, match=r"there is no folder .*/none/lake\n"):
            ask(tmp_path / "none" / "lake")
