"""Loads that are done before Spark would be there, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

PEOPLE = "id,name\n1,Ada\n2,Grace\n"


def run_script(script: str, folder: Path) -> Any:
    """What a script prints, as JSON; it knows `land`, `spark` and the folder `here`."""
    head = """
        import json, sys
        from pathlib import Path
        import pyarrow as pa
        import lakeport
        from lakeport.errors import LakeportError
        from lakeport.spark.session import Runtime
        from lakeport.spark import session
        here = Path(sys.argv[1])
        session._SMALL = 4 << 20

        def land(source, **keys):
            return lakeport.land(source, here / "lake", **{"file_type": "parquet", **keys})

        def spark():
            launch = Runtime._current._launch
            return launch is not None
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


def names(folder: Path) -> list[str]:
    """The names in a table of files, read by pyarrow."""
    return sorted(pq.read_table(folder).column("name").to_pylist())


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
        try:
            land(here / "people.csv", file_type="delta", table="tables")
        except LakeportError as error:
            refused = error.message
        print(json.dumps([report.rows, more.rows, frame.rows, refused]))
    """
    assert run_script(script, tmp_path) == [2, 1, 1, "no Java"]
    assert names(tmp_path / "lake" / "people") == ["Ada", "Grace", "Katherine", "Mary"]


@pytest.mark.parametrize(
    ("source", "keys", "started"),
    [
        ("here / 'people.csv'", "", False),
        ("here / 'people.csv'", "file_type='csv'", False),
        ("here / 'people.csv'", "file_type='delta'", True),
        ("here / 'people.csv'", "spark={'spark.ui.showConsoleProgress': 'false'}", True),
        ("pa.table({'name': ['x' * (5 << 20)]})", "table='people'", True),
    ],
    ids=["files", "text", "tables", "settings", "large"],
)
def test_spark_starts_where_there_is_use_for_it(
    source: str, keys: str, started: bool, people: Path, tmp_path: Path
) -> None:
    script = f"""
        report = land({source}, {keys})
        print(json.dumps([report.rows, spark()]))
    """
    rows, found = run_script(script, tmp_path)
    assert rows > 0
    assert found is started


def test_input_that_turns_out_to_be_large_has_spark_start(tmp_path: Path) -> None:
    script = """
        import io
        schema = {"type": "SCHEMA", "stream": "s", "schema": {"properties": {"a": {}}},
                  "key_properties": []}
        record = {"type": "RECORD", "stream": "s", "record": {"a": "x" * 1000}}
        known = []
        class Lines(io.RawIOBase):
            lines = [json.dumps(schema)] + [json.dumps(record)] * 5000
            at = 0
            def readable(self):
                return True
            def readinto(self, buffer):
                if self.at == len(self.lines):
                    known.append(spark())
                    return 0
                if self.at == 1000:
                    known.append(spark())
                data = self.lines[self.at].encode() + b"\\n"
                buffer[: len(data)] = data
                self.at += 1
                return len(data)
        report = land(io.BufferedReader(Lines(), 1 << 16))
        print(json.dumps([report.rows, known]))
    """
    rows, known = run_script(script, tmp_path)
    assert rows == 5000
    assert known == [False, True]  # begun while the input is read yet


def test_a_table_is_planned_and_staged_while_spark_starts(people: Path, tmp_path: Path) -> None:
    script = """
        import threading
        from lakeport.spark.jvm.launch import Launch
        from lakeport.writers.delta.sink import DeltaSink
        staged, opened = threading.Event(), Launch.open
        open_, write = Launch.open, DeltaSink.write

        def late(self):
            assert staged.wait(60)
            return open_(self)

        def told(self, *arguments):
            found = write(self, *arguments)
            staged.set()
            return found

        Launch.open, DeltaSink.write = late, told
        first = land(here / "people.csv", file_type="delta")
        Runtime._current.stop()
        staged.clear()
        (here / "people.csv").write_text("id,name,born\\n3,Mary,1931\\n")
        second = land(here / "people.csv", file_type="delta")
        print(json.dumps([first.rows, second.rows]))
    """
    assert run_script(script, tmp_path) == [2, 1]
    found = DeltaTable(tmp_path / "lake" / "people").to_pyarrow_table().sort_by("id").to_pylist()
    rows = [(row["id"], row["name"], row["born"]) for row in found]
    assert rows == [(1, "Ada", None), (2, "Grace", None), (3, "Mary", 1931)]


def test_what_another_writer_did_meanwhile_is_seen(people: Path, tmp_path: Path) -> None:
    script = """
        import threading
        from deltalake import write_deltalake
        from lakeport.writers.delta.sink import DeltaSink
        write = DeltaSink.write

        def other(self, *arguments):
            table = pa.table({"id": pa.array([9], "int64"), "name": ["Other"]})
            write_deltalake(str(here / "lake" / "people"), table, mode="append")
            return write(self, *arguments)

        DeltaSink.write = other
        keys = {"file_type": "delta", "internal_columns": False}
        report = land(here / "people.csv", **keys)
        print(json.dumps([report.rows]))
    """
    assert run_script(script, tmp_path) == [2]
    found = DeltaTable(tmp_path / "lake" / "people").to_pyarrow_table()["name"].to_pylist()
    assert sorted(found) == ["Ada", "Grace", "Other"]


def test_a_session_that_was_built_meanwhile_is_adopted(people: Path, tmp_path: Path) -> None:
    script = """
        land(here / "people.csv")
        from pyspark.sql import SparkSession
        session = SparkSession.builder.master("local[1]").getOrCreate()
        frame = session.createDataFrame([(3, "Mary")], "id long, name string")
        land(frame, table="people")
        land(here / "people.csv", table="again")
        print(json.dumps([Runtime._current.adopted, session.range(3).count()]))
    """
    assert run_script(script, tmp_path) == [True, 3]
    assert names(tmp_path / "lake" / "people") == ["Ada", "Grace", "Mary"]


@pytest.mark.parametrize("file_type", ["parquet", "delta"])
def test_a_bad_record_is_refused_alike(file_type: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE + "three,Mary\n")
    script = f"""
        told = []
        for settings in ({{}}, {{"spark.ui.showConsoleProgress": "false"}}):
            keys = {{"schema": {{"id": "bigint"}}, "file_type": {file_type!r}, "spark": settings}}
            try:
                land(here / "people.csv", **keys)
            except LakeportError as error:
                told.append([type(error).__name__, error.message, error.hint])
        print(json.dumps(told))
    """
    here, tasks = run_script(script, tmp_path)
    assert here == tasks
    assert "line 4, column 'id'" in here[1]
    left = [path for path in (tmp_path / "lake").rglob("*") if path.suffix == ".parquet"]
    assert left == []
