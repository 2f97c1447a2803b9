"""`lakeport target` as Mage's orchestrator starts it: whole loads, read by others' readers."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakeport.cli.app import main
from tests.contract.targets import GcsFiles, LocalFiles, S3Files, read_csv
from tests.emulators import Azurite, FakeGcs, Minio
from tests.unit.mage.test_target import error_of, metrics, told

Cap = pytest.CaptureFixture[str]

PROPERTIES = {
    "id": {"type": ["null", "integer"]},
    "name": {"type": ["null", "string"]},
    "active": {"type": ["null", "boolean"]},
    "seen": {"type": ["null", "string"], "format": "date-time"},
    "tags": {"type": ["null", "array"], "items": {"type": "string"}},
}
SCHEMA = {
    "type": "SCHEMA",
    "stream": "users",
    "schema": {"type": "object", "properties": PROPERTIES},
    "key_properties": ["id"],
    "bookmark_properties": ["seen"],
    "replication_method": "INCREMENTAL",
    "unique_conflict_method": "UPDATE",
    "unique_constraints": ["id"],
    "disable_column_type_check": None,
}
RECORDS = [
    {"id": 2**53 + 1, "name": "Ada", "active": False, "seen": "2024-03-04T15:30:45.123456+00:00"},
    {"id": 2, "name": "pri;vate", "active": True, "tags": ["a", "b"]},
    {"id": 3, "name": None, "active": None},
]
LOG = {"caller": "Tap", "level": "ERROR", "message": "a retry", "tags": {"records": 99}}


def lines() -> bytes:
    """What a Mage source writes into its file: messages, logs, and prints of others."""
    messages: list[Any] = [b"Starting sync of users", SCHEMA, {**LOG, "type": "LOG"}, LOG]
    messages += [{"type": "RECORD", "stream": "users", "record": RECORDS[0]}, b"[1, 2]", b"17"]
    messages += [{"type": "STATE", "value": {"bookmarks": {"users": {"seen": "1"}}}}, b""]
    messages += [{"type": "RECORD", "stream": "users", "record": row} for row in RECORDS[1:]]
    messages += [{"type": "ACTIVATE_VERSION", "stream": "users", "version": 3}, b"null"]
    state = {"bookmarks": {"users": {"seen": "2"}}, "currently_syncing": "users"}
    messages += [{"type": "STATE", "value": state}]
    texts = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in messages]
    return b"".join(text + b"\n" for text in texts)


@dataclass
class Place:
    """A destination as its Mage config names it, and how others read it."""

    destination: str
    config: dict[str, Any]
    rows: Callable[[], list[dict[str, Any]]]
    secret: str = ""


def _s3(minio: Minio, bucket: str) -> dict[str, Any]:
    return {
        "bucket": bucket,
        "object_key_path": "raw/",
        "table": "people",
        "aws_access_key_id": minio.access_key,
        "aws_secret_access_key": minio.secret_key,
        "aws_region": "us-west-2",
        "aws_endpoint": minio.endpoint,
    }


def amazon_s3(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    minio: Minio = request.getfixturevalue("minio")
    minio.create_bucket("mage-files")
    config = {**_s3(minio, "mage-files"), "file_type": "parquet", "date_partition_format": "%Y%m%d"}
    files = S3Files(minio.client(), "mage-files")

    def rows() -> list[dict[str, Any]]:
        keys = [key for key in files.keys() if key.startswith("raw/people/")]  # noqa: SIM118
        today = datetime.now(UTC).strftime("%Y")
        assert all(key.startswith(f"raw/people/{today}") and key.count("/") == 3 for key in keys)
        read = [pq.read_table(io.BytesIO(files.read(key))) for key in keys]
        return list(pa.concat_tables(read).to_pylist())

    return Place("amazon_s3", config, rows, minio.secret_key)


def google_cloud_storage(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    gcs: FakeGcs = request.getfixturevalue("fake_gcs")
    gcs.create_bucket("mage-files")
    config = {
        "bucket": "mage-files",
        "object_key_path": "raw",
        "table": "people",
        "file_type": "csv",
        **gcs.config,
        "google_application_credentials": None,
    }
    files = GcsFiles(gcs.client(), "mage-files")

    def rows() -> list[dict[str, Any]]:
        keys = [key for key in files.keys() if key.startswith("raw/people/")]  # noqa: SIM118
        return [_typed(row) for key in keys for row in read_csv(files.read(key))]

    return Place("google_cloud_storage", config, rows)


def _typed(row: dict[str, Any]) -> dict[str, Any]:
    """A CSV file's row with its JSON fields as values."""
    values = {
        k: json.loads(v) if k in ("id", "active", "tags") and v else v for k, v in row.items()
    }
    if values["seen"]:
        values["seen"] = datetime.fromisoformat(values["seen"])
    return values


def delta_lake_s3(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    minio: Minio = request.getfixturevalue("minio")
    minio.create_bucket("mage-delta")
    options = minio.delta_options
    config = {**_s3(minio, "mage-delta"), "mode": "append"}

    def rows() -> list[dict[str, Any]]:
        table = DeltaTable("s3://mage-delta/raw/people", storage_options=options)
        return list(table.to_pyarrow_table().to_pylist())

    return Place("delta_lake_s3", config, rows, minio.secret_key)


def delta_lake_azure(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    azurite: Azurite = request.getfixturevalue("azurite")
    azurite.create_container("mage-delta")
    host = f"{azurite.account}.dfs.core.windows.net"
    config = {
        "account_name": azurite.account,
        "access_key": azurite.account_key,
        "table_uri": f"abfss://mage-delta@{host}/raw/people",
        "azure_endpoint": azurite.endpoint,
        "mode": "append",
    }
    options = azurite.delta_options

    def rows() -> list[dict[str, Any]]:
        table = DeltaTable("az://mage-delta/raw/people", storage_options=options)
        return list(table.to_pyarrow_table().to_pylist())

    return Place("delta_lake_azure", config, rows, azurite.account_key)


def local(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    lake = tmp_path / "lake"
    config = {"path": str(lake), "table": "people", "mode": "append"}

    def rows() -> list[dict[str, Any]]:
        return list(DeltaTable(str(lake / "people")).to_pyarrow_table().to_pylist())

    return Place("local", config, rows)


@pytest.fixture(
    params=[amazon_s3, google_cloud_storage, delta_lake_s3, delta_lake_azure, local],
    ids=lambda made: made.__name__,
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each destination, empty, with the keys that Mage's documents name."""
    made: Place = request.param(request, tmp_path)
    return made


def test_a_load_as_the_orchestrator_starts_it(place: Place, tmp_path: Path, capsys: Cap) -> None:
    """Test the connection, land the file twice, and read the numbers, the STATE and the rows."""
    source, state = tmp_path / "output.jsonl", tmp_path / "state"
    source.write_bytes(lines())
    state.write_text('{"bookmarks": {"orders": {"id": 5}}}\n')
    config = json.dumps(place.config)

    assert main(["target", place.destination, "--config_json", config, "--test_connection"]) == 0
    assert {log["level"] for log in told(capsys.readouterr().err)} <= {"INFO", "WARNING"}

    command = ["target", place.destination, "--config_json", config, "--log_to_stdout", "1"]
    command += ["--settings", str(tmp_path / "block.yaml"), "--state", str(state)]
    assert main([*command, "--input_file_path", str(source)]) == 0
    out, err = capsys.readouterr()
    assert err == "" and not (place.secret and place.secret in out)
    logs = [json.loads(line) for line in out.splitlines()]
    assert not {"ERROR", "EXCEPTION"} & {log["level"] for log in logs}
    assert metrics(out)["records"] == metrics(out)["records_inserted"] == len(RECORDS)
    unparsed = [log for log in logs if log["message"].startswith("Unable to parse:")]
    assert len(unparsed) == 4  # the orchestrator leaves these out of what it shows
    assert [log["message"] for log in logs if log["message"] == "a retry"] == ["a retry"] * 2
    assert {"stray_lines": 4} in [log["tags"] for log in logs]
    assert any("earlier versions stay" in log["message"] for log in logs)  # ACTIVATE_VERSION
    assert "pri;vate" not in out  # a record's value is in no log
    assert json.loads(state.read_text().splitlines()[-1]) == {
        "bookmarks": {"orders": {"id": 5}, "users": {"seen": "2"}},
        "currently_syncing": "users",
    }

    found = sorted(place.rows(), key=lambda row: row["id"])
    assert [row["id"] for row in found] == [2, 3, 2**53 + 1]
    assert [row["name"] for row in found] == ["pri;vate", None, "Ada"]
    assert [row["active"] for row in found] == [True, None, False]
    assert found[2]["seen"] == datetime(2024, 3, 4, 15, 30, 45, 123456, UTC)
    assert found[0]["tags"] == ["a", "b"] and found[1]["tags"] is None
    assert all(row["_mage_created_at"] and row["_mage_updated_at"] for row in found)

    assert main([*command, "--input_file_path", str(source)]) == 0
    assert len(place.rows()) == 2 * len(RECORDS)  # append, whatever `unique_conflict_method` says


def test_a_connection_that_fails(minio: Minio, capsys: Cap) -> None:
    """One ERROR line says which item failed and what to change; nothing tells the secret."""
    minio.create_bucket("mage-refused")
    wrong = {**_s3(minio, "mage-refused"), "aws_secret_access_key": "canary-5f3a"}
    absent = _s3(minio, "mage-absent")
    for config, word in ((wrong, "secret"), (absent, "mage-absent")):
        given = ["--config_json", json.dumps(config), "--test_connection"]
        for destination in ("amazon_s3", "delta_lake_s3"):
            assert main(["target", destination, *given]) == 1
            out, err = capsys.readouterr()
            told(err)
            shown = error_of(err)
            assert out == "" and word in shown and "Hint: " in shown
            assert "canary" not in err and "Traceback" not in err


def test_every_stream_that_fails_is_told(tmp_path: Path, capsys: Cap) -> None:
    """The first error ends the run; those of the streams beside it are not lost with it."""
    messages: list[Any] = []
    for stream in ("users", "orders"):
        bad = {"type": "RECORD", "stream": stream, "record": {"id": "canary"}}
        messages += [{**SCHEMA, "stream": stream}, bad]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in messages))
    config = json.dumps({"path": str(tmp_path / "lake"), "file_type": "parquet"})
    given = ["--config_json", config, "--input_file_path", str(tmp_path / "in.jsonl")]
    assert main(["target", "local", *given, "--log_to_stdout", "False"]) == 1
    out, err = capsys.readouterr()
    logs = told(err)
    assert out == "" and "canary" not in err and "'users', line 2" in error_of(err)
    others = [log for log in logs if log["message"].startswith("stream 'orders' failed, too: ")]
    assert [log["level"] for log in others] == ["WARNING"]
    assert "line 4" in others[0]["message"]


def run(arguments: list[str], given: bytes, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """A process of its own, as a pipe has it."""
    command = [sys.executable, "-m", "lakeport", "target", *arguments]
    environ = {**os.environ, "LAKEPORT_CDS": "use"}
    return subprocess.run(
        command, input=given, capture_output=True, cwd=folder, env=environ, timeout=280, check=False
    )


def test_a_pipe_that_breaks(tmp_path: Path) -> None:
    """What landed before the broken line stays, with its STATE; nothing behind it goes out.

    The second STATE names both streams, and the records of one of them are bad: in Mage it went out
    with the other's. Standard error holds log lines alone, of Spark's Java process nothing.
    """
    block = tmp_path / "block.yaml"
    block.write_text("destination: local\nconfig:\n  path: lake\n  maximum_batch_rows: 3\n")
    messages: list[Any] = [SCHEMA, {**SCHEMA, "stream": "orders"}]
    messages += [{"type": "RECORD", "stream": "users", "record": row} for row in RECORDS]
    messages += [{"type": "STATE", "value": {"bookmarks": {"users": 1}}}]
    messages += [{"type": "RECORD", "stream": "users", "record": {"id": 4, "name": "canary"}}]
    messages += [{"type": "STATE", "value": {"bookmarks": {"users": 4, "orders": 1}}}]
    given = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    given += b"tap: oops\n" + json.dumps(messages[-2])[:-9].encode()
    done = run(["local", "--settings", "block.yaml"], given, tmp_path)
    err = done.stderr.decode()
    logs = told(err)
    assert done.returncode == 1, err
    assert done.stdout == b"" or json.loads(done.stdout) == {"bookmarks": {"users": 1}}
    assert "line 10" in error_of(err) and "incomplete" in error_of(err)
    assert "canary" not in err and "Traceback" not in err
    assert [log["message"] for log in logs if "Unable to parse" in log["message"]] == [
        "Unable to parse: tap: oops"
    ]
    landed = sum(log["tags"].get("records", 0) for log in logs)
    rows = DeltaTable(str(tmp_path / "lake" / "users")).to_pyarrow_table()
    assert sorted(rows["id"].to_pylist()) == [2, 3, 2**53 + 1] and landed == 3
    files = LocalFiles(tmp_path / "lake").keys()
    assert not [key for key in files if key.startswith("orders/")]


def test_a_silent_endpoint_is_told_in_time(tmp_path: Path) -> None:
    """An endpoint that takes connections and never answers; `run` would wait for minutes."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(16)
        config = {
            "bucket": "lake",
            "aws_access_key_id": "key",
            "aws_secret_access_key": "canary-5f3a",
            "aws_endpoint": f"http://127.0.0.1:{server.getsockname()[1]}",
        }
        (tmp_path / "c.json").write_text(json.dumps(config))
        done = run(["amazon_s3", "--config", "c.json", "--test_connection"], b"", tmp_path)
    assert done.returncode == 1 and done.stdout == b""
    shown = error_of(done.stderr.decode())
    assert "can't be reached" in shown or "no answer within" in shown
