from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.errors import ConfigError, DestinationError, ObjectExists
from lakeport.model import Batch, Landed, Staged
from lakeport.storage.local import STAGING, LocalStorage
from lakeport.writers import parquet
from lakeport.writers.base import TablePlan
from lakeport.writers.files import writer as writer_module
from lakeport.writers.files.columns import ColumnLog
from lakeport.writers.files.encode import Encoder
from lakeport.writers.files.sink import FileSink, ObjectNames, RowRange, visible_rows
from lakeport.writers.files.writer import FilesWriter

CLOCK = datetime(2024, 3, 4, 15, 30, 45, 123456, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64())])
BATCH = Batch("users", 0)
NAME = "users/20240304-153045"


class Bound(LocalStorage):
    """A store that binds a staged object to its key, as S3 does."""

    @property
    def can_rename_staged(self) -> bool:
        return False

    def publish(self, staged: Staged, key: str) -> None:
        assert key == staged.key
        super().publish(staged, key)


@pytest.fixture
def store(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path / "lake"))


def rows(ids: range, step: int = 10) -> Iterator[pa.RecordBatch]:
    for start in range(ids.start, ids.stop, step):
        part = list(range(start, min(start + step, ids.stop)))
        yield pa.RecordBatch.from_pydict({"id": part}, schema=SCHEMA)


def stage(plan: TablePlan, tasks: list[range]) -> list[Staged]:
    sink = pickle.loads(pickle.dumps(plan.sink))
    return [one for i, ids in enumerate(tasks) for one in sink.write(rows(ids), i)]


def land(
    writer: FilesWriter, tasks: list[range], batch: Batch = BATCH, state: bytes | None = None
) -> Landed:
    """What a load does with a batch: plan, stage, commit, and again after a clash."""
    while True:
        plan = writer.plan(SCHEMA, batch, (), CLOCK, len(tasks))
        staged = stage(plan, tasks)
        try:
            return writer.commit(plan, staged, batch, state)
        except ObjectExists:
            writer.discard(staged)
        except BaseException:
            writer.discard(staged)
            raise


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_GROUP_ROWS", 10)


def ids(store: LocalStorage, folder: str = "users") -> list[int]:
    found = [store.uri(o.key) for o in store.list(folder)]
    return sorted(i for path in found for i in pq.read_table(path)["id"].to_pylist())


def keys(store: LocalStorage, folder: str = "users") -> list[str]:
    return [o.key for o in store.list(folder)]


def test_one_small_batch_is_one_file(store: LocalStorage) -> None:
    landed = land(FilesWriter(store, Encoder(), "users", manifest=False), [range(25)])
    assert keys(store) == [f"{NAME}.parquet"]
    assert ids(store) == list(range(25))
    assert landed.files == (store.uri(f"{NAME}.parquet"),)
    assert (landed.rows, landed.table, landed.version) == (25, store.uri("users"), None)
    assert landed.bytes == Path(landed.files[0]).stat().st_size
    assert keys(store, STAGING) == []


def test_many_batches_in_one_second_never_overwrite(store: LocalStorage) -> None:
    for i in range(4):
        land(FilesWriter(store, Encoder(), "users"), [range(i * 10, i * 10 + 10)])
    assert keys(store) == sorted(f"{NAME}{s}.parquet" for s in ("", "-1", "-2", "-3"))
    assert ids(store) == list(range(40))


def test_folders_compression_and_tasks_without_rows(store: LocalStorage) -> None:
    writer = FilesWriter(
        store, Encoder("csv", "gzip"), "raw/t", date_partition_format="%Y/%m", manifest=False
    )
    land(writer, [range(5), range(0), range(5, 9)])
    assert keys(store, "raw") == [
        "raw/t/2024/03/20240304-153045-1.csv.gz",
        "raw/t/2024/03/20240304-153045.csv.gz",
    ]
    query = f"select id from read_csv('{store.uri('raw/t/2024/03')}/*.csv.gz') order by 1"
    assert [r[0] for r in duckdb.sql(query).fetchall()] == list(range(9))


@pytest.mark.parametrize("kind", [LocalStorage, Bound])
@pytest.mark.usefixtures("small_groups")
def test_big_tasks_roll_over_under_distinct_names(tmp_path: Path, kind: type[LocalStorage]) -> None:
    store = kind(str(tmp_path))
    writer = FilesWriter(store, Encoder(), "users", target_bytes=1)
    landed = land(writer, [range(30), range(30, 40)])
    assert ids(store) == list(range(40))
    assert len(landed.files) == 4
    expected = ("", "-1", "-2", "-3") if store.can_rename_staged else ("", "-1", "-2", "-4")
    assert keys(store) == sorted(f"{NAME}{s}.parquet" for s in expected)


def test_no_rows_no_object(store: LocalStorage) -> None:
    landed = land(FilesWriter(store, Encoder(), "users"), [range(0)])
    assert (landed.rows, landed.files) == (0, ())
    assert list(store.list("")) == []


@pytest.mark.usefixtures("small_groups")
def test_a_clash_of_bound_objects_adds_every_row_once(tmp_path: Path) -> None:
    store = Bound(str(tmp_path))
    for taken in ("", "-3", "-4"):
        store.put(f"other/20240304-153045{taken}.parquet", b"foreign", create_only=True)
    writer = FilesWriter(store, Encoder(), "other", target_bytes=1, manifest=False)
    landed = land(writer, [range(30), range(30, 45)])
    mine = [o.key for o in store.list("other") if store.get(o.key) != b"foreign"]
    found = [i for key in mine for i in pq.read_table(store.uri(key))["id"].to_pylist()]
    assert sorted(found) == list(range(45))
    assert landed.rows == 45
    assert sorted(landed.files) == sorted(store.uri(key) for key in mine)
    assert len(list(store.list("other"))) == len(mine) + 3


def test_a_clash_says_what_is_taken(tmp_path: Path) -> None:
    store = Bound(str(tmp_path))
    store.put(f"{NAME}.parquet", b"foreign")
    writer = FilesWriter(store, Encoder(), "users")
    plan = writer.plan(SCHEMA, BATCH, (), CLOCK, 1)
    with pytest.raises(ObjectExists, match=r"20240304-153045\.parquet exists"):
        writer.commit(plan, stage(plan, [range(3)]), BATCH, None)
    assert writer.plan(SCHEMA, BATCH, (), CLOCK, 1).detail.names.first == 1
    assert writer.plan(SCHEMA, Batch("users", 1), (), CLOCK, 1).detail.names.first == 0


def test_a_task_beyond_the_plan_has_names_of_its_own() -> None:
    names = ObjectNames("f", CLOCK, "csv", tasks=2)
    found = [names.task_key(task, part) for task in range(5) for part in range(5)]
    assert len(set(found)) == 25
    assert names.task_key(3, 1) == "f/20240304-153045-p3-1.csv"


@pytest.mark.parametrize("where", ["read", "write", "finish"])
@pytest.mark.usefixtures("small_groups")
def test_a_failed_task_leaves_nothing_staged(
    store: LocalStorage, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows(range(30))
        if where == "read":
            raise ZeroDivisionError
        if where == "write":
            yield pa.RecordBatch.from_pydict({"id": ["text"]})
        else:
            monkeypatch.setattr("os.fsync", lambda _: 1 / 0)

    sink = FileSink(store, Encoder(), SCHEMA, ObjectNames("t", CLOCK, "parquet"), target_bytes=1)
    if where == "finish":
        sink = FileSink(store, Encoder(), SCHEMA, ObjectNames("t", CLOCK, "parquet"))
    with pytest.raises((ZeroDivisionError, pa.ArrowException, ValueError)):
        sink.write(broken(), 0)
    assert list(store.list("")) == []


@pytest.mark.parametrize("at", range(12))
def test_rows_that_are_visible_are_left_out(store: LocalStorage, at: int) -> None:
    landed = {0: (RowRange(0, at), RowRange(at + 5, at + 8))}
    sink = FileSink(store, Encoder(), SCHEMA, ObjectNames("t", CLOCK, "parquet"), landed=landed)
    (one,) = sink.write(rows(range(40), step=7), 0)
    store.publish(one, "t/x.parquet")
    assert ids(store, "t") == [*range(at, at + 5), *range(at + 8, 40)]


def test_ranges_of_visible_rows() -> None:
    assert visible_rows([], [10, 5, 5], [False, True, True]) == (RowRange(10, 15), RowRange(15, 20))
    before = (RowRange(0, 4), RowRange(6, 8))
    assert visible_rows(before, [3, 9], [True, False]) == (
        *before[:1],
        RowRange(4, 6),
        *before[1:],
        RowRange(8, 9),
    )


@dataclass(frozen=True)
class Failing(LocalStorage):
    """A store that refuses the second publication."""

    def publish(self, staged: Staged, key: str) -> None:
        if key.endswith("-1.parquet"):
            raise DestinationError("no more", "free space.")
        super().publish(staged, key)


def test_a_failure_half_way_names_what_is_visible(tmp_path: Path) -> None:
    store = Failing(str(tmp_path))
    writer = FilesWriter(store, Encoder(), "users")
    with pytest.raises(DestinationError, match="no more") as caught:
        land(writer, [range(5), range(5, 9), range(9, 12)])
    assert f"1 of 3 objects of this batch are visible already: {store.uri(NAME)}.parquet" in (
        caught.value.hint
    )
    assert keys(store, STAGING) == []


def test_a_failure_before_anything_is_visible_is_raised_as_it_came(
    store: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = DestinationError("no more", "free space.")

    def refuse(*_: Any) -> None:
        raise refusal

    monkeypatch.setattr(LocalStorage, "publish", refuse)
    with pytest.raises(DestinationError) as caught:
        land(FilesWriter(store, Encoder(), "users"), [range(5)])
    assert (caught.value, refusal.__cause__, refusal.hint) == (refusal, None, "free space.")


def test_manifest(store: LocalStorage) -> None:
    writer = FilesWriter(store, Encoder(), "raw/users")
    landed = land(writer, [range(5), range(5, 9)], state=b'{"a": 1.0}')
    (found,) = store.list("_lakeport/manifests")
    assert found.key.startswith("_lakeport/manifests/raw%2Fusers/20240304-153045-")
    content = json.loads(store.get(found.key) or b"")
    assert (content["stream"], content["rows"], content["bytes"]) == ("users", 9, landed.bytes)
    assert [f["uri"] for f in content["files"]] == list(landed.files)
    assert content["files"][0]["checksum"].startswith("crc32:")
    assert content["schema"] == [{"name": "id", "type": "int64"}]
    assert content["state"] == '{"a": 1.0}'


def test_without_manifest_only_data_is_left(store: LocalStorage) -> None:
    land(FilesWriter(store, Encoder(), "users", manifest=False), [range(5)])
    assert keys(store, "") == [f"{NAME}.parquet"]


def test_a_manifest_that_fails_is_a_warning(
    store: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise DestinationError("full")

    monkeypatch.setattr(LocalStorage, "put", refuse)
    landed = land(FilesWriter(store, Encoder(), "users"), [range(5)])
    assert landed.warnings == (
        "the table's columns were not put on record: full",
        "the manifest was not written: full",
    )


def test_columns_that_cannot_be_read_once_all_is_visible_are_a_warning(
    store: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = FilesWriter(store, Encoder(), "users")
    columns = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.null()))])
    plan = writer.plan(columns, BATCH, (), CLOCK, 1)
    batch = pa.RecordBatch.from_pydict({"id": [1], "tags": [[]]}, schema=plan.schema)
    staged = plan.sink.write(iter([batch]), 0)

    def refuse(_: ColumnLog) -> None:
        raise DestinationError("the store is tired")

    discard = writer_module.discard_staging_names

    def dropped(*given: Any) -> None:
        discard(*given)
        monkeypatch.setattr(ColumnLog, "read", refuse)

    monkeypatch.setattr(writer_module, "discard_staging_names", dropped)
    landed = writer.commit(plan, staged, BATCH, None)
    assert landed.rows == 1 and landed.warnings[-1].endswith("the store is tired")


def test_partition_columns_are_not_for_files(store: LocalStorage) -> None:
    plan = FilesWriter(store, Encoder(), "users").plan(SCHEMA, BATCH, ("id",), CLOCK, 1)
    assert "'id'" in plan.warnings[0]


def test_refused_paths(store: LocalStorage) -> None:
    with pytest.raises(ConfigError):
        FilesWriter(store, Encoder(), "../users").plan(SCHEMA, BATCH, (), CLOCK, 1)


def test_unique_names_and_content_types(
    store: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    real: Callable[..., Any] = LocalStorage.stage

    def spy(self: LocalStorage, key: str, kind: str) -> Any:
        seen.append(kind)
        return real(self, key, kind)

    monkeypatch.setattr(LocalStorage, "stage", spy)
    writer = FilesWriter(store, Encoder(), "users", unique="ab", manifest=False)
    land(writer, [range(5), range(5, 6)])
    assert keys(store) == [f"{NAME}-ab-1.parquet", f"{NAME}-ab.parquet"]
    assert seen == ["application/vnd.apache.parquet"] * 2
