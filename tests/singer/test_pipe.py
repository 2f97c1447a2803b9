"""PostgreSQL -> a published tap -> `target-lakeport` -> Delta on S3, as users run it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakeport.cli.app import run
from lakeport.cli.singer import NAME, app
from tests.emulators import Minio
from tests.postgres import Postgres

TARGET = (
    sys.executable,
    "-c",
    "from lakeport.__main__ import singer; singer()",
)
TABLE = """
CREATE TABLE people (id int PRIMARY KEY, name text, born date, weight double precision,
                     tags jsonb, changed timestamptz NOT NULL)
"""
ADD = """
INSERT INTO people SELECT i, 'name ' || i, date '2000-01-01' + i, i / 8.0,
       jsonb_build_array('a', i), timestamptz '2024-05-06 00:00:00.25+02' + i * interval '1 second'
FROM generate_series({}, {}) i
"""


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@dataclass
class Pipe:
    """A tap, a target, and the state between their runs."""

    postgres: Postgres
    folder: Path
    target: dict[str, Any]

    def __post_init__(self) -> None:
        self.state = self.folder / "state.json"
        self.state.write_text("{}")
        self._write("tap.json", self.postgres.tap_config())
        self._write("target.json", self.target)

    def _write(self, name: str, content: Any) -> None:
        (self.folder / name).write_text(json.dumps(content))
        (self.folder / name).chmod(0o600)

    def discover(self) -> None:
        """Choose everything, incrementally."""
        command = self.postgres.tap("--config", "tap.json", "--discover")
        found = subprocess.run(command, cwd=self.folder, capture_output=True, check=True)
        catalog = json.loads(found.stdout)
        for stream in catalog["streams"]:
            stream |= {"replication_method": "INCREMENTAL", "replication_key": "changed"}
            (top,) = (m["metadata"] for m in stream["metadata"] if not m["breadcrumb"])
            top |= {"selected": True, "replication-method": "INCREMENTAL"}
            top |= {"replication-key": "changed"}
        self._write("catalog.json", catalog)

    def tap(self) -> list[str]:
        files = ("--config", "tap.json", "--catalog", "catalog.json", "--state", "state.json")
        return self.postgres.tap(*files)

    def keep(self, out: str) -> None:
        """Keep the last state as a runner does; everything on stdout has to be one."""
        values = [json.loads(line) for line in out.splitlines()]
        assert all("bookmarks" in value for value in values)
        if values:
            self.state.write_text(json.dumps(values[-1]))

    def piped(self, kill_after: str = "") -> str:
        """Run both as processes, one into the other; the target's stderr.

        A target that is to be killed does not see its input's end before that, however late it is.
        """
        reading, writing = os.pipe()
        with (self.folder / "tap.log").open("w") as log:
            tap = subprocess.Popen(self.tap(), cwd=self.folder, stdout=writing, stderr=log)
        target = subprocess.Popen(
            [*TARGET, "--config", "target.json"],
            cwd=self.folder,
            stdin=reading,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert target.stderr is not None
        assert target.stdout is not None
        os.close(reading)
        if not kill_after:
            os.close(writing)
        said = ""
        for line in target.stderr:
            said += line
            if kill_after and kill_after in line:
                os.killpg(target.pid, signal.SIGKILL)
        if kill_after:
            os.close(writing)
        self.keep(target.stdout.read())
        target.stdout.close()
        target.stderr.close()
        code = target.wait()
        tap_code = tap.wait()
        assert (code, kill_after or tap_code) == ((-9, kill_after) if kill_after else (0, 0)), said
        return said

    def in_process(self) -> str:
        """Run the tap into a file, and the command on it in this process."""
        lines = self.folder / "lines.singer"
        with lines.open("wb") as out, (self.folder / "tap.log").open("w") as log:
            subprocess.run(self.tap(), cwd=self.folder, stdout=out, stderr=log, check=True)
        out = io.TextIOWrapper(io.BytesIO())
        with redirect_stdout(out):
            config = str(self.folder / "target.json")
            assert run(app, NAME, ["--config", config, "--input", str(lines)]) == 0
        out.seek(0)
        said = out.read()
        self.keep(said)
        return said


def bookmark(pipe: Pipe) -> str:
    return str(json.loads(pipe.state.read_text())["bookmarks"]["public-people"])


@pytest.mark.timeout(900)  # ten processes, two of them with a JVM of their own
def test_incremental_runs_and_one_that_is_killed(
    postgres: Postgres, minio: Minio, tmp_path: Path
) -> None:
    bucket = minio.create_bucket("pipe")
    keys = {"aws_access_key_id": minio.access_key, "aws_secret_access_key": minio.secret_key}
    where = {"destination": "delta_lake_s3", "bucket": bucket, "aws_endpoint": minio.endpoint}
    more = {"load_method": "upsert", "batch_size_rows": 150, "add_record_metadata": True}
    postgres.sql(TABLE + ";" + ADD.format(1, 150))
    pipe = Pipe(postgres, tmp_path, {**where, **keys, **more})
    pipe.discover()

    pipe.piped()
    first = bookmark(pipe)
    assert len(table(minio, bucket)) == 150

    postgres.sql("UPDATE people SET name = 'new', changed = now() WHERE id IN (1, 150)")
    postgres.sql(ADD.format(151, 200).replace("2024", "2025"))
    pipe.in_process()
    second = bookmark(pipe)
    assert second > first
    compare(postgres, minio, bucket)

    postgres.sql(ADD.format(201, 640).replace("2024", "2124"))  # the third batch is not full
    said = pipe.piped(kill_after="batch 1 landed")
    assert "Error" not in said
    assert 200 < len(table(minio, bucket)) < 640
    pipe.in_process()
    assert bookmark(pipe) > second
    compare(postgres, minio, bucket)
    rows = table(minio, bucket)
    assert all(row["_sdc_extracted_at"] <= row["_sdc_received_at"] for row in rows)


def table(minio: Minio, bucket: str) -> list[dict[str, Any]]:
    options = minio.delta_options
    found = DeltaTable(f"s3://{bucket}/public-people", storage_options=options)
    rows: list[dict[str, Any]] = found.to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def compare(postgres: Postgres, minio: Minio, bucket: str) -> None:
    """Every row of the database is in the lake, once, with its values and types."""
    said = postgres.sql("SELECT row_to_json(people) FROM people ORDER BY id")
    expected = [json.loads(line) for line in said.splitlines()]
    rows = table(minio, bucket)
    assert [row["id"] for row in rows] == [row["id"] for row in expected]
    for row, sent in zip(rows, expected, strict=True):
        assert (row["name"], row["weight"]) == (sent["name"], sent["weight"])
        assert row["born"] == date.fromisoformat(sent["born"])
        assert row["changed"] == datetime.fromisoformat(sent["changed"]).astimezone(UTC)
        assert json.loads(row["tags"]) == sent["tags"]
