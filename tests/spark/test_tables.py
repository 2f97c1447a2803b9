"""`Table`: facts and rows of Delta tables and of plain files, queries, maintenance."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from delta_support import land, writer
from deltalake import DeltaTable

from lakeport.errors import ConfigError, DestinationError, LakeportError, SourceError
from lakeport.lake import maintenance
from lakeport.lake.table import Table

ODD = "my `odd` table's é ${x}"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    into = writer(tmp_path, ODD)
    land(into, pa.table({"id": [1, 2], "p": ["a b", None]}), keys=["p"], run_id="r1", digest="d")
    land(into, pa.table({"id": [3], "p": ["a b"], "more": [1.5]}))
    return Table(tmp_path / ODD)


def test_describe_and_history_need_no_spark(table: Table) -> None:
    plain = Table(table.uri)
    facts = plain.describe()
    assert (facts.version, facts.rows, facts.files, facts.small_files) == (1, 3, 3, 3)
    assert facts.partition_columns == ("p",)
    assert facts.partitions == 2
    assert facts.protocol == "reader 1, writer 2"
    assert "Delta-Lake" in facts.last_writer
    assert [c.name for c in facts.columns] == ["id", "p", "more"]
    assert plain.describe(version=0).rows == 2
    versions = plain.history()
    assert [e.version for e in versions] == [1, 0]
    assert versions[1].run_id == "r1"
    assert [e.rows_added for e in plain.history(limit=1)] == [1]


def test_preview_now_and_then(table: Table) -> None:
    rows = Table(table.uri).preview(10).sort_by("id").to_pylist()
    assert rows == [
        {"id": 1, "p": "a b", "more": None},
        {"id": 2, "p": None, "more": None},
        {"id": 3, "p": "a b", "more": 1.5},
    ]
    assert table.preview(1).num_rows == 1
    assert table.preview(10, version=0).num_rows == 2
    assert table.preview(10, timestamp="2999-01-01").num_rows == 3
    with pytest.raises(SourceError, match="as old as"):
        table.preview(10, timestamp="2001-01-01T00:00:00+02:00")
    with pytest.raises(SourceError, match="no version 7"):
        table.preview(10, version=7)
    with pytest.raises(ConfigError, match="not a moment"):
        table.preview(10, timestamp="yesterday")


def test_query_reads_and_does_nothing_else(table: Table) -> None:
    found = table.query(
        "with x as (select * from t) "
        "select count(*) n from x join `my ``odd`` table's é ${x}` using (id)"
    )
    assert found.to_pylist() == [{"n": 3}]
    assert table.query("select * from t", version=0).num_rows == 2
    assert table.query("select * from t order by id", limit=1).num_rows == 1
    for sql in (
        "drop table t",
        "insert into t values (1)",
        "select 1; select 2",
        "create table x as select 1",
        "set a=b",
        "",
        "vacuum t",
        "explain select 1",
    ):
        with pytest.raises(ConfigError, match="not one query"):
            table.query(sql)
    with pytest.raises(ConfigError, match="can't run"):
        table.query("select nothing from t")


@pytest.mark.parametrize("sql", ["select nothing from t", "select cast('a' as int) / id from t"])
def test_a_query_that_fails_prints_no_trace(
    table: Table, sql: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(LakeportError):
        table.query(sql)
    assert capfd.readouterr() == ("", "")


def test_plain_files_have_no_versions(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    for n in range(2):
        pq.write_table(pa.table({"id": [n, n]}), tmp_path / "f" / f"{n}.parquet")
    table = Table(tmp_path / "f")
    assert (table.describe().rows, table.describe().files) == (4, 2)
    assert table.preview(3).num_rows == 3
    assert table.query("select sum(id) s from f").to_pylist() == [{"s": 2}]
    with pytest.raises(SourceError, match="no versions"):
        table.preview(1, version=0)
    with pytest.raises(SourceError):
        table.history()
    (tmp_path / "c").mkdir()
    pyarrow.csv.write_csv(pa.table({"id": ["1"], "b": [None]}), tmp_path / "c" / "x.csv")
    csv = Table(tmp_path / "c")
    assert csv.preview(5).num_rows == 1
    assert csv.query("select id from t").to_pylist() == [{"id": "1"}]
    with pytest.raises(SourceError, match="no table"):
        Table(tmp_path / "nothing").describe()
    with pytest.raises(ConfigError, match="no table can be at"):
        Table("ftp://bucket/t")


def test_a_log_that_holds_something_else_is_named(tmp_path: Path) -> None:
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    for text in ('{"add', "[]"):
        (log / f"{0:020}.json").write_text(f"\n{text}\n")
        for call in ("describe", "history", "preview", "state", "compact_report"):
            with pytest.raises(DestinationError, match=r"0\.json is no commit .* line 2 is"):
                getattr(Table(tmp_path / "t"), call)()


def test_what_is_wrong_with_a_table_of_others_is_told(tmp_path: Path) -> None:
    def made(name: str) -> Table:
        land(writer(tmp_path, name), pa.table({"id": [1]}))
        for checksum in Path(tmp_path, name, "_delta_log").glob("*.crc"):
            checksum.unlink()
        return Table(tmp_path / name)

    def query_fails(table: Table) -> str:
        with pytest.raises(DestinationError) as failed:
            table.query("SELECT * FROM t")
        return failed.value.message

    newer = made("newer")
    log = Path(newer.uri, "_delta_log", f"{0:020}.json")
    log.write_text(re.sub(r'"minReaderVersion":\d', '"minReaderVersion":5', log.read_text()))
    assert "versions in the table's protocol" in query_fails(newer)
    with pytest.raises(DestinationError, match="versions in the table's protocol"):
        newer.preview()
    damaged = made("damaged")
    (file,) = Path(damaged.uri).glob("*.parquet")
    (file.parent / f".{file.name}.crc").write_bytes(b"crc\0\0\0\2\0\xff\xff\xff\xff")
    assert "does not match the checksum that lies beside it" in query_fails(damaged)
    assert damaged.preview().num_rows == 1


def test_optimize_restore_and_vacuum(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = "p = 'a b' AND p <> '${x}' -- sort these"
    assert table.optimize(zorder=["id"], where=where).files_removed == 2
    assert table.restore(0).version == 3
    assert DeltaTable(table.uri).to_pyarrow_table().num_rows == 2
    with pytest.raises(ConfigError, match="1 hours only, less than 168"):
        table.vacuum(retain_hours=1)
    for wrong in (-1, 1.5):
        with pytest.raises(ConfigError, match=f"{wrong} is no retention"):
            table.vacuum(retain_hours=wrong, force=True)
    assert table.vacuum(dry_run=True).files == ()
    time.sleep(0.01)
    coming, left = (Path(table.uri, f"part-{name}.parquet") for name in ("coming", "left"))
    for unnamed, days in ((coming, 6), (left, 8)):
        unnamed.touch()
        os.utime(unnamed, (time.time() - days * 86400,) * 2)
    begun, newest = maintenance.vacuum, table.describe().version

    def beside_a_load(*arguments: Any, **options: Any) -> Any:
        done = begun(*arguments, **options)
        land(writer(Path(table.uri).parent, ODD), pa.table({"id": [4], "p": ["a b"]}))
        return done

    monkeypatch.setattr(maintenance, "vacuum", beside_a_load)
    done = table.vacuum(retain_hours=0, force=True)
    assert done.deleted > 1
    assert done.bytes > 0
    assert done.version == newest + 2
    assert coming.exists(), "a writer at work may be about to commit it"
    assert not left.exists()
    assert DeltaTable(table.uri).to_pyarrow_table().num_rows == 3
