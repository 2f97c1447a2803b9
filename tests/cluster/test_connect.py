"""Frames, files and Singer lines land by a Spark Connect server, as by a classic session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakeport.engine.spark.jvm.versions import installed_build
from tests.cluster.connect_server import ConnectServer
from tests.cluster.standalone import bare_python, packed_environment, zipped_package
from tests.emulators import Minio, free_port
from tests.streaming.kit import until

pytestmark = pytest.mark.skipif(
    installed_build().minor == "3.5", reason="PySpark 3.5 comes without the server's jar"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path_factory.mktemp("connect")) as started:
        yield started


def rows(table: Path, **options: Any) -> list[dict[str, Any]]:
    """A Delta table's rows without lakeport's own columns."""
    found = DeltaTable(str(table), **options).to_pyarrow_table()
    own = [name for name in found.column_names if not name.startswith("_mage_")]
    listed: list[dict[str, Any]] = found.select(own).to_pylist()
    return listed


def test_frames_land_in_files_and_tables(server: ConnectServer, tmp_path: Path) -> None:
    answers = server.run(
        """
numbers = spark.range(6).selectExpr("id", "id % 2 as p", "cast(id as string) as `a.b`")
values = spark.sql(\"\"\"select timestamp'2026-01-01 00:00:00' t, null as v, array(1, 2) as a,
    named_struct('x', 1) as s, map('k', 1.5D) as m, cast(1 as decimal(10, 2)) as d\"\"\")
attempt("parquet", lambda: land(numbers, lake, table="parquet", file_type="parquet"))
attempt("csv", lambda: land(numbers, lake, table="csv", file_type="csv"))
attempt("delta", lambda: land(numbers, lake, table="delta"))
attempt("again", lambda: land(numbers, lake, table="delta"))
attempt("overwrite", lambda: land(numbers, lake, table="over", partition_keys=["p"]))
odd = numbers.where("p = 1").limit(1)
attempt("odd", lambda: land(odd, lake, table="over", partition_keys=["p"], mode="overwrite"))
attempt("types", lambda: land(values, lake, table="types"))
more = numbers.withColumn("more", f.lit(7))
attempt("evolve", lambda: land(more, lake, table="delta"))
keyed = {"table": "merged", "mode": "merge", "merge_keys": ["id"]}
attempt("first", lambda: land(numbers, lake, **keyed))
changed = numbers.where("id > 3").withColumn("p", f.lit(9)).union(spark.sql("select 10, 9, 'x'"))
attempt("merge", lambda: land(changed, lake, **keyed))
named = {"table": "named", "run_id": "nightly"}
attempt("named", lambda: land(numbers, lake, **named))
attempt("repeated", lambda: land(numbers, lake, **named))
""",
        tmp_path,
    )
    assert {name: found.get("rows", found) for name, found in answers.items()} == {
        **dict.fromkeys(("parquet", "csv", "delta", "again", "overwrite", "evolve"), 6),
        **{"odd": 1, "types": 1, "first": 6, "merge": 3, "named": 6, "repeated": 0},
    }
    assert {found["engine"] for found in answers.values()} == {"connect"}
    found = pa.concat_tables(map(pq.read_table, (tmp_path / "parquet").glob("*.parquet")))
    assert sorted(found["a.b"].to_pylist()) == list("012345")
    lines = pa.concat_tables(map(pa.csv.read_csv, (tmp_path / "csv").glob("*.csv")))
    assert sorted(lines["id"].to_pylist()) == list(range(6))
    assert len(rows(tmp_path / "delta")) == 18
    assert sum(row["more"] == 7 for row in rows(tmp_path / "delta")) == 6
    assert sorted(row["id"] for row in rows(tmp_path / "over")) == [0, 1, 2, 4]
    (typed,) = rows(tmp_path / "types")
    assert (typed["v"], typed["a"], typed["s"], dict(typed["m"])) == (
        None,
        [1, 2],
        {"x": 1},
        {"k": 1.5},
    )
    merged = {row["id"]: row["p"] for row in rows(tmp_path / "merged")}
    assert merged == {0: 0, 1: 1, 2: 0, 3: 1, 4: 9, 5: 9, 10: 9}
    assert len(rows(tmp_path / "named")) == 6


def test_frames_and_files_land_in_a_bucket(
    server: ConnectServer, minio: Minio, tmp_path: Path
) -> None:
    """Also where the workers don't see this machine's disk: by a spool in the bucket."""
    bucket = minio.create_bucket("connect")
    (tmp_path / "a.csv").write_text("id,name\n1,x\n2,y\n")
    answers = server.run(
        f"""
keys = json.loads(os.environ["KEYS"])
delta = dict(keys, destination="delta_lake_s3")
target = "s3://{bucket}/lake"
attempt("delta", lambda: land(spark.range(100), target, table="delta", **delta))
attempt("parquet", lambda: land(spark.range(9), target, table="p", file_type="parquet", **keys))
from lakeport.engine.spark import connect
connect._found[spark] = connect.ServerWorkers(2, None)
file = {str(tmp_path / "a.csv")!r}
attempt("unseen", lambda: land(file, target, table="csv", **keys))
attempt("spooled", lambda: land(file, target, table="csv", spool_uri="s3://{bucket}/spool", **keys))
""",
        tmp_path,
        KEYS=json.dumps(minio.config),
    )
    assert [answers[name].get("rows") for name in ("delta", "parquet", "spooled")] == [100, 9, 2]
    assert answers["unseen"]["error"] == "ConfigError"
    assert "spool_uri" in answers["unseen"]["text"]
    place = f"s3://{bucket}/lake/delta"
    landed = DeltaTable(place, storage_options=minio.delta_options).to_pyarrow_table()
    assert sorted(landed["id"].to_pylist()) == list(range(100))
    listed = minio.client().list_objects_v2(Bucket=bucket)["Contents"]
    names = [each["Key"] for each in listed]
    assert any(name.startswith("lake/p/") for name in names)
    assert not any(name.startswith("spool/") for name in names)


def test_a_command_lands_files_and_singer_lines_by_the_server(
    server: ConnectServer, tmp_path: Path
) -> None:
    (tmp_path / "orders.csv").write_text("id,name\n1,x\n2,y\n")
    (tmp_path / "events.jsonl").write_text('{"id": 1, "tags": ["a"]}\n')
    people: dict[str, Any] = {"stream": "people"}
    columns = {"properties": {"id": {"type": "integer"}}}
    messages = [
        people | {"type": "SCHEMA", "schema": columns, "key_properties": ["id"]},
        *(people | {"type": "RECORD", "record": {"id": number}} for number in range(5)),
    ]
    lake = tmp_path / "lake"
    program = Path(sys.executable).with_name("lakeport")
    for source in ("orders.csv", "events.jsonl", "-"):
        done = subprocess.run(
            [program, "land", source, "--to", str(lake), "--json"],
            input="\n".join(map(json.dumps, messages)),
            env={**os.environ, "SPARK_REMOTE": server.url},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert json.loads(done.stdout)["engine"]["name"] == "connect"
    assert [row["id"] for row in rows(lake / "orders")] == [1, 2]
    assert [row["id"] for row in rows(lake / "events")] == [1]
    assert sorted(row["id"] for row in rows(lake / "people")) == list(range(5))


def test_what_takes_a_classic_session_is_refused_by_name(
    server: ConnectServer, tmp_path: Path
) -> None:
    answers = server.run(
        """
frame = spark.range(3)
attempt("sql", lambda: land(frame, lake, table="t", sql="select * from source"))
attempt("python", lambda: land(frame, lake, table="t", python=lambda given: given))
properties = {"delta.appendOnly": "true"}
attempt("properties", lambda: land(frame, lake, table="t", table_properties=properties))
attempt("tables", lambda: land(lakeport.TablesSource(tables={"a": lake}), lake, table="t"))
attempt("warm", lambda: land(frame, lake, table="t", warm="require"))
attempt("threads", lambda: land(frame, lake, table="t", engine="threads"))
""",
        tmp_path,
    )
    assert {found["error"] for found in answers.values()} == {"ConfigError"}
    for name in ("sql", "python", "properties", "tables"):
        assert "this process uses Spark Connect" in answers[name]["text"]
        assert "SPARK_REMOTE" in answers[name]["hint"]
    assert "`sql` takes a classic Spark session" in answers["sql"]["text"]
    assert "a warm session's Spark" in answers["warm"]["text"]
    assert "`engine` is `threads`" in answers["threads"]["text"]


def test_failures_have_the_words_of_a_classic_session(
    server: ConnectServer, tmp_path: Path
) -> None:
    answers = server.run(
        """
def fails(batches):
    for batch in batches:
        raise ValueError("no")
        yield batch
attempt("cast", lambda: land(spark.sql("select cast('x' as int) a"), lake, table="t"))
attempt("raised", lambda: land(spark.sql("select raise_error('no') a"), lake, table="t"))
attempt("udf", lambda: land(spark.range(3).mapInArrow(fails, "id long"), lake, table="t"))
attempt("column", lambda: land(spark.range(3).select("x"), lake, table="t"))
attempt("type", lambda: land(spark.sql("select interval 1 day as i"), lake, table="t"))
Path(lake, "file").write_text("")
attempt("store", lambda: land(spark.range(3), lake + "/file", table="t"))
gone = spark.range(3)
spark.stop()
attempt("stopped", lambda: land(gone, lake, table="t"))
""",
        tmp_path,
    )
    texts = {name: found.get("text", found) for name, found in answers.items()}
    assert texts["cast"] == "a value of the frame can't be computed as its plan says"
    assert texts["raised"].startswith("the frame's plan raised an error of its own")
    assert texts["udf"].startswith("a Python function of the frame raised ValueError in fails")
    assert texts["column"].startswith("Spark failed: [UNRESOLVED_COLUMN.WITH_SUGGESTION]")
    assert texts["type"].startswith("column 'i' has the Spark type interval day")
    assert texts["stopped"] == "the frame's Spark session was stopped"
    assert not (tmp_path / "t").exists()


def test_workers_without_lakeport_are_named_and_get_it_as_an_artifact(
    server: ConnectServer, tmp_path: Path
) -> None:
    venv.create(tmp_path / "empty")
    answers = server.run(
        f"""
spark.conf.set("spark.sql.execution.pyspark.python", {str(tmp_path / "empty/bin/python")!r})
attempt("empty", lambda: land(spark.range(3), lake, table="t"))
spark.conf.set("spark.sql.execution.pyspark.python", {str(bare_python(tmp_path / "bare"))!r})
attempt("bare", lambda: land(spark.range(3), lake, table="t"))
spark.addArtifacts({str(zipped_package(tmp_path))!r}, pyfile=True)
attempt("shipped", lambda: land(spark.range(3), lake, table="t"))
""",
        tmp_path / "lake",
    )
    assert answers["empty"]["text"] == "Spark's workers lack the Python package pyarrow"
    assert 'spark.addArtifacts("env.tar.gz#environment", archive=True)' in answers["empty"]["hint"]
    assert answers["bare"]["error"] == "MissingDependency", answers
    assert "lack the Python package lakeport" in answers["bare"]["text"]
    assert "spark.addArtifacts('./lakeport.zip', pyfile=True)" in answers["bare"]["hint"]
    assert answers["shipped"].get("rows") == 3, answers


def test_an_archive_of_an_environment_is_all_that_workers_need(
    server: ConnectServer, tmp_path: Path
) -> None:
    """It has what docs/clusters.md lists, and what the server's own Python has does not count."""
    (tmp_path / "a.csv").write_text("id,name\n1,x\n2,y\n")
    answers = server.run(
        f"""
spark.addArtifacts({str(packed_environment(tmp_path))!r} + "#environment", archive=True)
spark.conf.set("spark.sql.execution.pyspark.python", "./environment/bin/python")
keyed = {{"table": "t", "mode": "merge", "merge_keys": "id"}}
attempt("frame", lambda: land(spark.range(3), lake, **keyed))
attempt("merge", lambda: land(spark.range(2, 4), lake, **keyed))
rule = {{"not_null": "id", "otherwise": "quarantine"}}
attempt("file", lambda: land({str(tmp_path / "a.csv")!r}, lake, table="csv", expect=[rule]))
""",
        tmp_path / "lake",
    )
    found = {name: answer.get("rows", answer) for name, answer in answers.items()}
    assert found == {"frame": 3, "merge": 2, "file": 2}
    assert sorted(row["id"] for row in rows(tmp_path / "lake" / "t")) == [0, 1, 2, 3]


def test_a_server_that_does_not_answer_is_told_at_once(tmp_path: Path) -> None:
    port = free_port()
    done = subprocess.run(
        [Path(sys.executable).with_name("lakeport"), "land", "a.csv", "--to", "lake"],
        env={**os.environ, "SPARK_REMOTE": f"sc://127.0.0.1:{port}/;token=hidden"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert f"no Spark Connect server answers at 127.0.0.1:{port}" in done.stderr
    assert "hidden" not in done.stderr


@pytest.mark.parametrize(
    "by", [pytest.param(signal.SIGKILL, marks=pytest.mark.soak), signal.SIGINT]
)
def test_a_client_ended_in_the_middle_lands_once_when_run_again(
    server: ConnectServer, tmp_path: Path, by: signal.Signals
) -> None:
    program = """
beat = lake + ".beat"
def slow(batches, beats=int(os.environ.get("BEATS", "0")), beat=beat):
    import pathlib, time
    for batch in batches:
        for _ in range(beats):
            pathlib.Path(beat).touch()
            time.sleep(0.2)
        yield batch
frame = spark.range(40).repartition(4).mapInArrow(slow, "id long")
attempt("land", lambda: land(frame, lake, table="t", run_id="nightly"))
"""
    lake, beat = tmp_path / "lake", tmp_path / "lake.beat"
    # A killed client's tasks go on to their end, and the next run waits for the server's cores.
    client = server.start(program, lake, BEATS="50" if by is signal.SIGKILL else "600")
    end = time.monotonic() + 300
    while not beat.exists():
        assert client.poll() is None and time.monotonic() < end, client.communicate()
        time.sleep(0.1)
    client.send_signal(by)
    client.communicate(timeout=60)
    assert not (lake / "t" / "_delta_log").exists()
    if by is signal.SIGINT:  # the server's tasks have ended with the client
        time.sleep(5)
        beat.unlink()
        time.sleep(2)
        assert not beat.exists()
    assert server.run(program, lake)["land"]["rows"] == 40
    assert server.run(program, lake)["land"]["rows"] == 0
    assert sorted(row["id"] for row in rows(lake / "t")) == list(range(40))


def test_expectations_of_a_frame_are_checked_by_the_server(
    server: ConnectServer, tmp_path: Path
) -> None:
    program = """
frame = spark.createDataFrame([(1, "ABC"), (2, "x"), (12, "DEF")], "id int, code string")
def expect(name, **rule):
    attempt(name, lambda: land(frame, lake, table=name, expect=[rule]))
expect("matches", matches={"code": "[A-Z]{3}"}, otherwise="quarantine")
expect("between", between={"id": [1, 9]}, otherwise="quarantine")
expect("unique", unique=["id"])
expect("check", check="id < 9")
"""
    found = server.run(program, tmp_path / "lake")
    assert found["matches"]["rows"] == found["between"]["rows"] == 2
    for name in ("unique", "check"):
        assert "takes a classic Spark session" in found[name]["text"]


STREAMS = """
class Watcher:
    def __init__(self):
        self.heard = []
    def on_landed(self, landed):
        self.heard.append([landed.sequence, landed.rows])
    def on_warning(self, text):
        pass
    def on_finished(self, report):
        self.heard.append(report.ok)
inbox = Path(lake).parent / "in"
def add(*ids):
    number = len(list(inbox.iterdir()))
    (inbox / f"{number}.json").write_text("".join(json.dumps({"id": i}) + "\\n" for i in ids))
def read(session, schema="id long"):
    return session.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(inbox))
def stream(table, frame=None, **keys):
    given = {"checkpoint": f"{lake}/../cp/{table}", "available_now": True, **keys}
    return lakeport.land_stream(frame or read(spark), lake, table=table, **given)
def follow(name, start):
    try:
        running = start()
        running.wait()
        answers[name] = {"rows": running.report.rows, "id": running.id}
    except lakeport.LakeportError as error:
        answers[name] = {"error": type(error).__name__, "text": error.message, "hint": error.hint}
"""


def test_a_stream_lands_each_row_once(server: ConnectServer, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    (tmp_path / "in").mkdir()
    found = server.run(
        STREAMS
        + """
add(1, 2); add(3, 4); add(5, 6)
watcher = Watcher()
follow("delta", lambda: stream("delta", observer=watcher))
answers["heard"] = watcher.heard
follow("files", lambda: stream("files", read, file_type="parquet"))
add(7, 8)
follow("on", lambda: stream("delta"))
follow("other", lambda: stream("other", checkpoint=f"{lake}/../cp/delta"))
follow("clash", lambda: stream("delta", read(spark, "id string"), checkpoint=f"{lake}/../cp/text"))
follow("batch", lambda: stream("batch", spark.range(3)))
follow("trigger", lambda: stream("soon", available_now=False, trigger="soon"))
with stream("rate", spark.readStream.format("rate").option("rowsPerSecond", 20).load(),
            available_now=False) as running:
    while running.report.rows < 40 and running.active:
        running.wait(0.1)
    assert running.status.active and running.status.batch >= 0
answers["rate"] = {"rows": running.report.rows}
""",
        lake,
    )
    heard = found.pop("heard")
    assert heard == [[0, 2], True, [1, 2], True, [2, 2], True]
    assert [found[name].get("rows", found) for name in ("delta", "files", "on")] == [6, 6, 2]
    assert found["delta"]["id"] == found["on"]["id"]
    assert sorted(row["id"] for row in rows(lake / "delta")) == list(range(1, 9))
    files = pa.concat_tables(map(pq.read_table, (lake / "files").glob("*.parquet")))
    assert sorted(files["id"].to_pylist()) == list(range(1, 7))
    assert sorted(row["value"] for row in rows(lake / "rate")) == list(range(found["rate"]["rows"]))
    told = {name: (each["error"], each["text"]) for name, each in found.items() if "text" in each}
    assert told["clash"] == (
        "SchemaConflict",
        "column 'id' is integer in the table and string in the stream",
    )
    assert "belongs to the table" in told["other"][1]
    assert told["batch"] == ("ConfigError", "the frame is no stream")
    assert told["trigger"] == ("ConfigError", "`trigger` is 'soon', which is no interval")


def test_a_stream_goes_on_when_its_client_or_its_process_on_the_server_is_killed(
    server: ConnectServer, tmp_path: Path
) -> None:
    """The server lands what is there after its client is gone; who comes then lands the rest."""
    lake = tmp_path / "lake"
    (tmp_path / "in").mkdir()
    program = (
        STREAMS
        + """
for number in range(0 if list(inbox.iterdir()) else 8):
    add(2 * number, 2 * number + 1)
running = stream("t")
running.wait()
answers["t"] = {"id": running.id}
"""
    )
    client = server.start(program, lake)
    until(lambda: (lake / "t" / "_delta_log").exists(), 300)
    client.kill()
    client.communicate()
    until(lambda: len(rows(lake / "t")) == 16, 300)
    # Now the process that lands, of a client that goes on.
    for number in range(8, 16):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"id": {number + 8}}}\n')
    client = server.start(program, lake)
    until(lambda: len(rows(lake / "t")) > 16, 300)
    server.kill_landing()
    client.communicate(timeout=120)
    assert client.returncode != 0
    server.run(program, lake)
    assert sorted(row["id"] for row in rows(lake / "t")) == list(range(24))
