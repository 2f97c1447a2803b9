"""Delta tables as sources, made by Spark or delta-rs and read by way of `SourceOpener`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeport.config.base import DestinationConfig
from lakeport.config.load import load_target
from lakeport.config.sources import TablesSource
from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.engine import SparkEngine
from lakeport.engine.spark.session import DriverSession
from lakeport.errors import ConfigError, LakeportError, SourceError
from lakeport.model import Batch, Flush
from lakeport.sources.open import SourceOpener
from lakeport.sources.options import ReadOptions
from lakeport.sources.spool import SpoolLocation
from lakeport.sources.target import TargetTables
from lakeport.storage.local import LocalStorage
from tests.unit.sources.kept_memory import KeptMemory

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}


class Loads:
    """A source table `t`, and loads of what is new in it.

    Spark makes a table with properties; delta-rs makes one without, in a tenth of the time.
    """

    def __init__(self, engine: SparkEngine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self.path = folder / "t"
        self.memory = KeptMemory(LocalStorage(str(folder / "lake")))
        self.by_spark = False

    def sql(self, text: str) -> None:
        self.engine.spark.sql(text.format(t=f"delta.`{self.path}`"))

    def create(self, **properties: str) -> None:
        self.by_spark = bool(properties)
        if self.by_spark:
            told = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
            columns = "(id BIGINT, p BIGINT) USING delta PARTITIONED BY (p)"
            self.sql(f"CREATE TABLE {{t}} {columns} TBLPROPERTIES ({told})")
        else:
            columns = pa.schema([("id", pa.int64()), ("p", pa.int64())])
            DeltaTable.create(str(self.path), columns, partition_by=["p"])
        self.add(0, 10)

    def add(self, first: int, end: int) -> None:
        if self.by_spark:
            self.sql(f"INSERT INTO {{t}} SELECT id, id % 2 FROM range({first}, {end}, 1, 1)")
            return
        ids = range(first, end)
        rows = pa.table({"id": ids, "p": [number % 2 for number in ids]})
        write_deltalake(str(self.path), rows, mode="append")

    def tables(self, config: DestinationConfig) -> TargetTables:
        storage = self.memory.storage
        return TargetTables(lambda stream: self.memory, lambda *_: None, storage, config.mode)

    def flush(self, **keys: Any) -> Flush:
        config = load_target(self.memory.storage.uri(), {"table": "copy", **keys})
        source = TablesSource(tables=[str(self.path)], incremental=True)
        spool = SpoolLocation(self.folder)
        opened = SourceOpener(
            ReadOptions(),
            config,
            spool,
            self.engine,
            lambda *_: None,
            self.tables(config),
        ).open(source)
        (flush,) = opened
        return flush

    def __call__(self) -> list[int]:
        """Land what is new; return its ids."""
        batches = self.flush().batches
        for batch in batches:
            assert batch.bookmark is not None
            self.memory.commit(batch.bookmark)
        return sorted(row["id"] for batch in batches for row in rows(batch))


def rows(batch: Batch) -> list[Any]:
    assert batch.frame is not None
    return batch.frame.collect()


@pytest.fixture
def loads(driver: DriverSession, tmp_path: Path) -> Iterator[Loads]:
    with SparkEngine(SessionRequest(driver.needs)) as engine:
        yield Loads(engine, tmp_path)


@pytest.mark.parametrize(
    "properties",
    [MAPPED, *(pytest.param(each, marks=pytest.mark.soak) for each in ({}, FEED, VECTORS))],
    ids=str,
)
def test_each_row_comes_once(loads: Loads, properties: dict[str, str]) -> None:
    loads.create(**properties)
    assert loads() == list(range(10))
    assert loads() == []
    loads.add(10, 13)
    loads.add(13, 15)
    assert loads() == [10, 11, 12, 13, 14]
    assert loads() == []


def test_new_columns_and_partitions_without_a_value(loads: Loads) -> None:
    loads.create()
    loads()
    loads.sql("ALTER TABLE {t} ADD COLUMNS (x STRING)")
    assert loads() == []
    loads.sql("INSERT INTO {t} VALUES (10, NULL, 'new')")
    (batch,) = loads.flush().batches
    assert [tuple(row) for row in rows(batch)] == [(10, None, "new")]


def test_rows_that_optimize_moved_do_not_come_again(loads: Loads) -> None:
    loads.create()
    loads()
    loads.add(10, 12)
    loads.add(12, 14)
    loads.sql("OPTIMIZE {t}")
    assert loads() == [10, 11, 12, 13]
    loads.add(14, 15)
    loads.sql("OPTIMIZE {t}")
    loads()
    DeltaTable(str(loads.path)).optimize.compact()
    assert loads() == []


CHANGES = {
    "DELETE": "DELETE FROM {t} WHERE id = 3",
    "UPDATE": "UPDATE {t} SET id = 100 WHERE id = 3",
    "WRITE": "INSERT OVERWRITE {t} VALUES (7, 7)",
}


@pytest.mark.parametrize(
    ("operation", "properties"),
    [
        ("DELETE", VECTORS),
        pytest.param("UPDATE", {}, marks=pytest.mark.soak),
        pytest.param("WRITE", {}, marks=pytest.mark.soak),
    ],
)
def test_rows_that_changed_are_an_error(
    loads: Loads, operation: str, properties: dict[str, str]
) -> None:
    loads.create(**properties)
    loads()
    loads.sql(CHANGES[operation])
    loads.add(20, 21)
    with pytest.raises(SourceError, match=r"version 2 of .*/t removed or changed rows") as caught:
        loads()
    assert "enableChangeDataFeed" in caught.value.hint
    loads.memory.kept.clear()  # a full refresh
    assert 20 in loads()


def test_the_change_feed_gives_new_and_changed_rows(loads: Loads) -> None:
    loads.create(**FEED)
    loads()
    loads.sql("UPDATE {t} SET id = 100 WHERE id = 3")
    loads.add(20, 22)
    assert loads() == [20, 21, 100]
    loads.sql("DELETE FROM {t} WHERE id = 4")
    loads.add(30, 31)
    (batch,) = loads.flush().batches
    assert [tuple(row) for row in rows(batch)] == [(30, 0)]
    assert any("rows were deleted from" in text for text in batch.warnings)


def test_a_feed_that_does_not_reach_back(loads: Loads) -> None:
    loads.create()
    loads()
    loads.sql("DELETE FROM {t} WHERE id = 4")
    loads.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    with pytest.raises(LakeportError, match="change data"):
        loads()


@pytest.mark.parametrize("added", [pytest.param(0, marks=pytest.mark.soak), 1])
def test_a_table_made_anew(loads: Loads, added: int) -> None:
    loads.create()
    loads()
    shutil.rmtree(loads.path)
    loads.create()
    for _ in range(added):
        loads.add(0, 1)
    with pytest.raises(SourceError, match="another table than the one that was landed"):
        loads()


def test_a_log_that_does_not_reach_back(loads: Loads) -> None:
    loads.create(**{"delta.checkpointInterval": "2"})
    loads()
    for number in range(10, 14):
        loads.add(number, number + 1)
    assert list((loads.path / "_delta_log").glob("*4.checkpoint.parquet"))
    for version in range(3):  # as Delta cleans it
        (loads.path / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(SourceError, match="does not have version 2 any more"):
        loads()


def test_files_that_were_vacuumed(loads: Loads) -> None:
    loads.create()
    loads()
    before = set(loads.path.rglob("*.parquet"))
    loads.add(10, 12)
    new = set(loads.path.rglob("*.parquet")) - before
    loads.sql("OPTIMIZE {t}")
    for path in new:
        path.unlink()
    with pytest.raises(SourceError, match="vacuumed before they were landed"):
        loads()


def test_what_it_does_not_go_with(loads: Loads) -> None:
    loads.create()
    with pytest.raises(ConfigError, match="would replace the table"):
        loads.flush(mode="overwrite")


@pytest.fixture
def opened(loads: Loads) -> Callable[..., Any]:
    def open_tables(**tables: Path) -> Any:
        config = load_target(loads.memory.storage.uri(), {"table": "copy"})
        source = TablesSource(tables={name: str(path) for name, path in tables.items()})
        return SourceOpener(
            ReadOptions(),
            config,
            SpoolLocation(loads.folder),
            loads.engine,
            lambda *_: None,
            loads.tables(config),
        ).open(source)

    return open_tables


def test_whole_tables_are_frames_by_their_names(
    loads: Loads, opened: Callable[..., Any], tmp_path: Path
) -> None:
    loads.create()
    loads.engine.spark.range(3).write.format("delta").save(str(tmp_path / "other"))
    with pytest.raises(ConfigError, match="the source has 2 tables"):
        list(opened(t=loads.path, other=tmp_path / "other"))
    source = opened(t=loads.path, other=tmp_path / "other")
    frames = source.frames()
    assert {name: frame.count() for name, frame in frames.items()} == {"t": 10, "other": 3}
    assert len(list(source)) == 1
    (flush,) = opened(t=loads.path)
    assert flush.batches[0].bookmark is None
    assert len(rows(flush.batches[0])) == 10


def test_what_is_no_table(opened: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is no Delta table"):
        opened(t=tmp_path)
