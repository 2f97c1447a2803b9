"""Loads by real Airflow, Dagster and Prefect: the examples, retries, ends, errors and secrets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyarrow.fs import S3FileSystem

from tests.emulators import Environment, Minio
from tests.orchestrators.environments import AIRFLOW, DAGSTER, PREFECT

ROOT = Path(__file__).parents[2]
PLAYED_SECONDS = 400
CONNECTIONS = {
    "GCS": {
        "conn_type": "google_cloud_platform",
        "extra": {"keyfile_dict": {"type": "service_account"}, "num_retries": 5},
    },
    "AZURE": {
        "conn_type": "wasb",
        "login": "lake",
        "password": "a2V5",
        "extra": {"sas_token": "sv=1"},
    },
    "KEYS": {"conn_type": "generic", "extra": {"aws_region": "eu-west-1"}},
    "SHOP": {
        "conn_type": "postgres",
        "login": "me",
        "password": "p@ss",
        "host": "db",
        "port": 5432,
        "schema": "shop",
    },
}


@pytest.fixture
def bucket(minio: Minio) -> Iterator[Minio]:
    """The server, with the bucket of the examples."""
    minio.create_bucket("orders")
    yield minio
    client = minio.client()
    for found in client.list_objects_v2(Bucket="orders").get("Contents", ()):
        client.delete_object(Bucket="orders", Key=found["Key"])
    client.delete_bucket(Bucket="orders")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples and what they land."""
    for example in (ROOT / "examples" / "orchestrators").iterdir():
        if example.is_file():
            shutil.copy(example, tmp_path)
    day = tmp_path / "in" / "2026-11-27"
    day.mkdir(parents=True)
    (day / "a.csv").write_text("id,size\n1,S\n2,M\n")
    (day / "b.csv").write_text("id,size\n3,L\n")
    (tmp_path / "sizes.csv").write_text("size\nS\nM\n")
    schema = {"properties": {"id": {"type": "integer"}}}
    messages = [
        {"type": "SCHEMA", "stream": "killed", "schema": schema, "key_properties": []},
        *({"type": "RECORD", "stream": "killed", "record": {"id": number}} for number in (1, 2, 3)),
    ]
    text = "".join(f"{json.dumps(message)}\n" for message in messages)
    (tmp_path / "killed.singer").write_text(text)
    return tmp_path


def play(environment: Environment, folder: Path, minio: Minio, **variables: str) -> dict[str, Any]:
    """What a play has printed; no file that it has left, and nothing else, holds the secret."""
    name = f"{environment.name}_play.py"
    shutil.copy(Path(__file__).with_name(name), folder)
    python = environment.path()
    kept = {
        name: os.environ[name] for name in ("PATH", "HOME", "LAKEPORT_CACHE") if name in os.environ
    }
    done = subprocess.run(
        [python, name],
        cwd=folder,
        env=kept
        | {
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LAKEPORT_ENGINE": "threads",
            "LAKEPORT_AWS_ENDPOINT": minio.endpoint,
            "LAKEPORT_AWS_REGION": minio.region,
        }
        | variables,
        capture_output=True,
        text=True,
        timeout=PLAYED_SECONDS,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told[-5000:]
    assert minio.secret_key not in told
    holders = [path for path in folder.rglob("*") if path.is_file() and holds(path, minio)]
    assert holders == []
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("FACTS "))
    facts: dict[str, Any] = json.loads(line.removeprefix("FACTS "))
    return facts


def holds(path: Path, minio: Minio) -> bool:
    return minio.secret_key.encode() in path.read_bytes()


def landed(minio: Minio, orchestrator: str) -> int:
    """Rows of the example's table of Parquet files, by pyarrow."""
    store = S3FileSystem(
        access_key=minio.access_key,
        secret_key=minio.secret_key,
        endpoint_override=minio.endpoint,
        region=minio.region,
    )
    found = ds.dataset(
        f"orders/{orchestrator}/orders", filesystem=store, exclude_invalid_files=True
    )
    return int(found.count_rows())


def sizes(minio: Minio, load: str) -> list[str]:
    """Values of a table of the lake file, by delta-rs."""
    uri = f"s3://orders/loads/{load}"
    table = DeltaTable(uri, storage_options=minio.delta_options).to_pyarrow_table()
    return sorted(table["size"].to_pylist())


def rows(folder: Path, table: str) -> list[int]:
    return sorted(DeltaTable(folder / "lake" / table).to_pyarrow_table()["id"].to_pylist())


def test_airflow(bucket: Minio, folder: Path) -> None:
    connection = {
        "conn_type": "aws",
        "login": bucket.access_key,
        "password": bucket.secret_key,
        "extra": {"endpoint_url": bucket.endpoint, "region_name": bucket.region},
    }
    settings = {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_LAKE": json.dumps(connection),
        **{f"AIRFLOW_CONN_{name}": json.dumps(one) for name, one in CONNECTIONS.items()},
    }
    facts = play(AIRFLOW, folder, bucket, **settings)
    assert facts.pop("connections") == {
        "gcs": {"google_application_credentials": {"type": "service_account"}},
        "azure": {"account_name": "lake", "access_key": "a2V5", "sas_token": "sv=1"},
        "keys": {"aws_region": "eu-west-1"},
    }
    uri, shown = facts.pop("database")
    assert uri == "postgres://me:p%40ss@db:5432/shop"
    assert "p%40ss" not in shown
    state = {task: (state, tries) for task, (state, tries, _) in facts.items()}
    assert state == {
        "orders": ("success", 1),
        "lake": ("success", 1),
        "again": ("success", 2),
        "wrong": ("failed", 1),
        "absent": ("failed", 2),
        "killed": ("success", 2),  # its first try was ended
        "each0": ("success", 1),
        "each1": ("success", 1),
    }
    orders, lake = facts["orders"][2], facts["lake"][2]
    assert orders["rows"] == 3
    assert orders["run_id"].startswith("lake/orders/manual__")
    assert not {"spans", "pace", "state", "command"} & orders.keys()
    assert [load["rows"] for load in lake["loads"]] == [2, 2]
    assert landed(bucket, "airflow") == 3
    assert sizes(bucket, "sizes") == sizes(bucket, "more") == ["M", "S"]
    assert facts["again"][2]["rows"] == 0  # the first try has landed them
    assert facts["killed"][2]["rows"] == 2
    assert rows(folder, "again") == rows(folder, "killed") == rows(folder, "each") == [1, 2, 3]


def test_dagster(bucket: Minio, folder: Path) -> None:
    keys = {"LAKE_KEY": bucket.access_key, "LAKE_SECRET": bucket.secret_key}
    facts = play(DAGSTER, folder, bucket, **keys)
    example = facts["example"]
    assert example["ok"]
    assert {name: one["rows"] for name, one in example["assets"].items()} == {
        "orders": 3,
        "sizes": 2,
        "more": 2,
    }
    assert example["assets"]["orders"]["uri"] == "s3://orders/dagster/orders"
    assert "spans" not in example["assets"]["orders"]["report"]
    assert example["checks"] == {
        "not_null_id": [True, "WARN"],
        "in_size": [False, "WARN"],
        "not_null_size": [True, "WARN"],
    }
    assert facts["subset"]["assets"].keys() == {"more"}
    assert facts["again"]["ok"]
    assert facts["again"]["retries"] == 1
    assert facts["again"]["assets"]["again"]["rows"] == 0
    assert rows(folder, "again") == [1, 2, 3]
    assert facts["wrong"]["retries"] == 0
    assert "did you mean `table`?" in facts["wrong"]["failures"][0]
    assert "\n\nHint: " in facts["wrong"]["failures"][0]
    assert facts["few"]["checks"] == {"rows_at_least_100": [False, "ERROR"]}
    assert facts["killed"]["retries"] == 1
    assert facts["killed"]["assets"]["killed"]["rows"] == 2  # the first try has landed one
    assert rows(folder, "killed") == [1, 2, 3]
    tables = {path.name for path in (folder / "lake").iterdir()} - {"_lakeport"}
    assert tables == {"again", "killed"}
    assert landed(bucket, "dagster") == 3
    assert sizes(bucket, "sizes") == ["M", "S"]
    assert sizes(bucket, "more") == ["M", "M", "S", "S"]  # the subset was another run


def test_prefect(bucket: Minio, folder: Path) -> None:
    settings = {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "LAKE_KEY": bucket.access_key,
        "LAKE_SECRET": bucket.secret_key,
    }
    facts = play(PREFECT, folder, bucket, **settings)
    first, second = facts["again"]
    assert (first["rows"], second["rows"]) == (3, 0)
    assert first["run_id"] == second["run_id"]
    assert facts["killed"]
    assert rows(folder, "again") == rows(folder, "lost") == [1, 2, 3]
    assert rows(folder, "killed") == [1]
    assert landed(bucket, "prefect") == 3
    assert sizes(bucket, "sizes") == sizes(bucket, "more") == ["M", "S"]
