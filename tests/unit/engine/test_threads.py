"""The engine of threads: it does what Spark does, and refuses the rest before anything is read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeport
from lakeport.cli.app import main
from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.engine import _is_custom_hook
from lakeport.engine.threads import ThreadEngine, choose_engine
from lakeport.errors import ConfigError, InputError

PEOPLE = [{"id": 1, "name": "Ada"}, {"id": 2, "name": None}]


def test_results_come_in_the_order_of_the_items() -> None:
    engine = ThreadEngine()
    assert engine.run_tasks("double", lambda x: [x, 2 * x], range(5)) == [
        0, 0, 1, 2, 2, 4, 3, 6, 4, 8,
    ]  # fmt: skip
    assert engine.run_tasks("nothing", lambda x: [x], []) == []
    told = engine.report()
    assert (told.name, told.jobs, told.tasks) == ("threads", 0, 5)


def test_the_first_failure_is_raised_and_what_succeeded_is_discarded() -> None:
    discarded: list[int] = []

    def work(item: int) -> list[int]:
        if item:
            raise InputError(f"item {item}", "none.")
        return [item]

    with pytest.raises(InputError, match="item 1"):
        ThreadEngine().run_tasks("fail", work, [0, 1], discard=discarded.extend)
    assert discarded == [0]


def test_an_interrupt_discards_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    discarded: list[int] = []

    def work(item: int) -> list[int]:
        if item:
            raise KeyboardInterrupt
        return [item]

    with pytest.raises(KeyboardInterrupt):
        ThreadEngine().run_tasks("interrupted", work, [0, 1], discard=discarded.extend)


def never() -> Iterator[dict[str, Any]]:
    """Records that nobody may ask for."""
    raise AssertionError("the source was read")
    yield {}


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"sql": "SELECT * FROM source"}, "`sql`"),
        ({"python": "module:function"}, "`python`"),
        ({"expect": [{"check": "id > 0"}]}, "check"),
        ({"table_properties": {"delta.appendOnly": "true"}}, "`table_properties`"),
        ({"cluster_by": ["id"]}, "`cluster_by`"),
    ],
)
def test_what_takes_spark_is_refused_before_anything_is_read(
    tmp_path: Path, keys: dict[str, Any], what: str
) -> None:
    with pytest.raises(ConfigError, match=f"{what}.* takes Spark, and `engine` is") as caught:
        lakeport.land(never(), tmp_path, table="t", engine="threads", **keys)
    assert "`engine: spark`" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_an_expectation_of_a_type_that_spark_compares_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"at": pa.array([1], pa.timestamp("us"))})
    limits = [{"between": {"at": ["2024-01-01", "2024-02-01"]}}]
    with pytest.raises(ConfigError, match="for a column of this type, takes Spark"):
        lakeport.land(rows, tmp_path, table="t", engine="threads", expect=limits)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "source",
    [
        lakeport.TablesSource(tables={"x": "elsewhere/x"}),
        lakeport.DatabaseSource(database="jdbc:derby:memory:x", table="t"),
        lakeport.DatabaseSource(database="sqlite:///x.db", table="t", deletes="compare"),
    ],
)
def test_sources_that_spark_reads_are_refused(tmp_path: Path, source: Any) -> None:
    with pytest.raises(ConfigError, match="takes Spark, and `engine` is `threads`"):
        lakeport.land(source, tmp_path, table="t", engine="threads")
    with pytest.raises(ConfigError, match="takes Spark, and `engine` is `threads`"):
        lakeport.plan(source, tmp_path, table="t", engine="threads")
    with pytest.raises(ConfigError, match="a stream takes Spark"):
        lakeport.land_stream(
            lambda spark: spark, tmp_path, table="t", checkpoint=tmp_path / "c", engine="threads"
        )


def test_a_table_that_only_delta_spark_may_write_is_refused_before_anything_is_read(
    tmp_path: Path,
) -> None:
    place = str(tmp_path / "t")
    rows = pa.table({"id": [1]})
    write_deltalake(place, rows, configuration={"delta.enableChangeDataFeed": "true"})
    with pytest.raises(ConfigError, match="no plain Delta table, takes Spark"):
        lakeport.land(never(), tmp_path, table="t", engine="threads")
    assert DeltaTable(place).version() == 0


@pytest.mark.parametrize("work", [lakeport.land, lakeport.plan])
def test_streams_of_tables_that_only_delta_spark_may_write_are_refused(
    tmp_path: Path, work: Callable[..., Any]
) -> None:
    """Their names are known once they are read; a plan says so as well, and nothing is staged."""
    place = str(tmp_path / "lake/t")
    fed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(place, pa.table({"id": [1]}), configuration=fed)
    source = tmp_path / "t.singer"
    schema = {
        "type": "SCHEMA",
        "stream": "t",
        "schema": {"properties": {"id": {"type": "integer"}}},
    }
    record = {"type": "RECORD", "stream": "t", "record": {"id": 2}}
    source.write_text(f"{json.dumps(schema)}\n{json.dumps(record)}\n")
    with pytest.raises(ConfigError, match=f"{place}.* no plain Delta table after it, takes Spark"):
        work(str(source), tmp_path / "lake", engine="threads", source_format="singer")
    assert len(list((tmp_path / "lake/t").glob("*.parquet"))) == 1


def test_a_load_without_tasks_names_its_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "p.csv"
    source.write_text("id\n1\n")
    command = ["land", str(source), "--to", str(tmp_path / "lake"), "--new-only"]
    assert main([*command, "--engine", "threads"]) == 0
    capsys.readouterr()
    assert main([*command, "--engine", "threads"]) == 0
    assert capsys.readouterr().out.endswith(", by threads of this process, 0 tasks\n")


def test_no_java_and_no_spark_are_needed(tmp_path: Path) -> None:
    script = f"""
import sys, lakeport
lakeport.land({PEOPLE!r}, {str(tmp_path)!r}, table="people", engine="threads")
lakeport.land({PEOPLE!r}, {str(tmp_path)!r}, table="people", engine="threads", mode="merge",
              merge_keys="id", internal_columns=False, schema_evolution="evolve")
assert "pyspark" not in sys.modules
"""
    environment = {"PATH": "/nowhere", "JAVA_HOME": "/nowhere", "LAKEPORT_WARM": "off"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert sorted(DeltaTable(tmp_path / "people").to_pyarrow_table()["id"].to_pylist()) == [1, 2]


def test_the_engine_is_a_key_an_option_and_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "p.csv"
    source.write_text("id\n1\n")
    target = tmp_path / "lake.yaml"
    target.write_text(f"destination: local\npath: {tmp_path / 'lake'}\nengine: threads\n")
    monkeypatch.delenv("LAKEPORT_ENGINE")
    assert main(["land", str(source), "--to", str(target)]) == 0
    assert capsys.readouterr().out.endswith(", by threads of this process, 1 task\n")
    target.write_text(f"destination: local\npath: {tmp_path / 'lake'}\n")
    assert main(["land", str(source), "--to", str(target), "--engine", "threads", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["engine"]
    assert (told["name"], told["tasks"]) == ("threads", 1)
    monkeypatch.setenv("LAKEPORT_ENGINE", "threads")
    assert main(["plan", str(source), "--to", str(target)]) == 0
    assert "engine: threads of this process" in capsys.readouterr().out
    assert main(["land", str(source), "--to", str(target), "--engine", "thread"]) == 2
    assert "did you mean `threads`?" in capsys.readouterr().err
    history = lakeport.Table(tmp_path / "lake/p").history()
    assert [entry.engine for entry in history] == [f"lakeport/{lakeport.__version__} threads"] * 2


def test_an_engine_is_chosen_once_and_begins_nothing() -> None:
    assert isinstance(choose_engine("threads", SessionRequest()), ThreadEngine)


@pytest.mark.parametrize(
    ("key", "value", "own"),
    [
        ("spark.delta.logStore.s3a.impl", "io.delta.storage.S3DynamoDBLogStore", True),
        ("spark.delta.logStore.s3a.impl", "com.example.Store", True),
        ("spark.delta.logStore.s3a.impl", "io.lakeport.delta.ConditionalS3LogStore", False),
        ("spark.delta.logStore.azure.impl", "io.delta.storage.AzureLogStore", False),
        ("spark.delta.logStore.class", "org.apache.spark.sql.delta.storage.LocalLogStore", False),
        ("spark.sql.catalog.spark_catalog", "io.unitycatalog.spark.UCSingleCatalog", False),
        ("spark.databricks.delta.properties.defaults.appendOnly", "true", True),
        ("spark.sql.shuffle.partitions", "7", False),
    ],
)
def test_sessions_that_name_what_commits_go_through(key: str, value: str, own: bool) -> None:
    assert _is_custom_hook(key, value) == own
