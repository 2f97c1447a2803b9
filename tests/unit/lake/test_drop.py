"""Tables that are dropped: kept in the lake's bin where folders can be renamed, else deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.cli.app import main
from lakeport.config.destinations.local import LocalConfig
from lakeport.errors import CommitConflict, SourceError
from lakeport.lake.drop import drop, plan_drop
from lakeport.lake.location import TableLocation
from lakeport.model import Storage, StoredObject
from lakeport.storage.local import LocalStorage


def land(lake: Path, *ids: int, table: str = "t", **keys: Any) -> int:
    return lakeport.land(pa.table({"id": ids}), lake, table=table, **keys).rows


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_dropped_table_comes_back_whole(tmp_path: Path, kind: str) -> None:
    land(tmp_path, 1, 2, table="s/t", file_type=kind, run_id="a")
    table = lakeport.Table(tmp_path / "s" / "t")
    plan = table.drop(dry_run=True)
    assert (plan.format, plan.rows, plan.files, plan.dry_run) == (kind, 2, 1, True)
    assert table.drop().kept_until is not None
    with pytest.raises(SourceError, match="there is no table"):
        table.describe()
    assert lakeport.tables(tmp_path) == []
    back = table.undo(dry_run=True)
    assert (back.run_id, back.rows_before, back.rows_after) == ("", 0, 2)
    assert table.undo().committed == back.committed
    rows = DeltaTable(str(table.uri)) if kind == "delta" else pq.ParquetDataset(table.uri)
    read = rows.to_pyarrow_table() if kind == "delta" else rows.read()
    assert read["id"].to_pylist() == [1, 2]
    assert land(tmp_path, 1, 2, table="s/t", file_type=kind, run_id="a") == 0  # landed before
    assert not [*(tmp_path / "_lakeport" / "bin").rglob("*.*")]


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_run_lands_again_in_a_table_that_was_dropped(tmp_path: Path, kind: str) -> None:
    land(tmp_path, 1, file_type=kind, run_id="a")
    table = lakeport.Table(tmp_path / "t")
    table.drop()
    assert land(tmp_path, 1, file_type=kind, run_id="a") == 1
    assert table.describe().rows == 1
    table.drop()
    table.undo()
    assert table.describe().rows == 1


def test_the_bin_is_emptied_after_a_day(tmp_path: Path) -> None:
    for name in ("t", "u"):
        land(tmp_path, 1, table=name)
    lakeport.Table(tmp_path / "t").drop()
    entry = next((tmp_path / "_lakeport" / "bin" / "t").iterdir())
    entry.rename(entry.with_name("20240304-101500-000000"))
    lakeport.Table(tmp_path / "u").drop()
    assert [*(tmp_path / "_lakeport" / "bin" / "t").iterdir()] == []
    with pytest.raises(SourceError, match="there is no table"):
        lakeport.Table(tmp_path / "t").undo()
    assert lakeport.Table(tmp_path / "u").undo().rows_after == 1


def test_a_load_that_is_under_way_makes_the_table_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path, 1)
    table, publish = lakeport.Table(tmp_path / "t"), LocalStorage.publish
    dropped: list[Any] = []

    def dropping(self: LocalStorage, *arguments: Any) -> None:
        if not dropped:
            dropped.append(table.drop())
        publish(self, *arguments)

    monkeypatch.setattr(LocalStorage, "publish", dropping)
    assert land(tmp_path, 2) == 1
    delta = DeltaTable(str(tmp_path / "t"))
    assert (delta.version(), delta.to_pyarrow_table()["id"].to_pylist()) == (0, [2])


class Cloud(Storage):
    """Stands for a store without renaming: a dict, whose log may grow while it is deleted."""

    def __init__(self, *keys: str, stubborn: bool = False) -> None:
        self.objects, self.deleted, self._stubborn = dict.fromkeys(keys, b""), [], stubborn

    def uri(self, key: str = "") -> str:
        return f"s3://bucket/{key}"

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        keys = sorted(key for key in self.objects if key.startswith(f"{prefix}/"))
        return iter([StoredObject(key, 1) for key in keys])

    def delete(self, key: str) -> None:
        self.deleted.append(key)
        if not self._stubborn:
            self.objects.pop(key, None)


class Place(TableLocation):
    def find_lake(self) -> tuple[Storage, str]:
        return self.storage, "t"


def test_on_an_object_store_nothing_is_kept(tmp_path: Path) -> None:
    log = ["t/_delta_log/0.json", "t/_delta_log/1.json"]
    cloud = Cloud("t/a.parquet", *log, "_lakeport/journal/t/r/0.json", "tt/b.parquet")
    place = Place(LocalConfig(path=str(tmp_path)), cloud, "t")
    land(tmp_path, 1)
    table = lakeport.Table(tmp_path / "t").describe()
    assert plan_drop(place, table).kept_until is None
    drop(place, table)
    assert sorted(cloud.objects) == ["tt/b.parquet"]
    assert sorted(cloud.deleted[:2]) == log
    busy = Place(place.config, Cloud(*log, stubborn=True), "t")
    with pytest.raises(CommitConflict, match="another program writes"):
        drop(busy, table)


def test_the_command_says_what_it_drops_and_needs_a_yes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    land(tmp_path, 1, 2)
    uri = str(tmp_path / "t")
    assert main(["table", "drop", uri]) == 2
    said = capsys.readouterr().err
    assert "this drops" in said and "2 rows in 1 file" in said
    assert f"`lakeport table drop {uri} --yes`" in said
    assert main(["table", "drop", uri, "--yes"]) == 0
    assert f"`lakeport table undo {uri}` brings it back" in capsys.readouterr().out
    assert main(["table", "undo", uri, "--yes"]) == 0
    assert "this brings back" in capsys.readouterr().out
    assert lakeport.Table(uri).describe().rows == 2
