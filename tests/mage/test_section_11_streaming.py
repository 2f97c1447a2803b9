"""Section 11: a streaming sink's YAML, landed with as a config (its buffer is for streams)."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import lakeport
from lakeport.config.load import load_target, read_sink_interval
from lakeport.errors import ConfigError, LakeportError
from tests.mage.conftest import Make, Place
from tests.streaming.kit import Inbox, until

pytestmark = pytest.mark.spark
_PLACE = {
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_endpoint",
    "bucket",
    "google_endpoint",
    "account_name",
    "access_key",
    "azure_endpoint",
    "table_uri",
}
SINKS = {
    "amazon_s3": ("amazon_s3", {"prefix": "raw/users", "file_type": "parquet"}),
    "delta_lake_s3": (
        "amazon_s3",
        {"prefix": "raw/users", "file_type": "delta", "mode": "append"},
    ),
    "google_cloud_storage": (
        "google_cloud_storage",
        {
            "prefix": "raw/users",
            "file_type": "parquet",
            "path_to_credentials_json_file": None,
            "date_partition_format": "%Y/%m/%d",
        },
    ),
    "delta_lake_azure": (
        "azure_data_lake",
        {"file_type": "delta", "mode": "append"},
    ),
}


def test_objects_lie_where_the_sink_puts_them(s3: Place, tmp_path: Path) -> None:
    file = tmp_path / "sink.yaml"
    file.write_text(
        "connector_type: amazon_s3\n"
        f"bucket: {s3.config['bucket']}\n"
        "prefix: events/clicks\n"
        "file_type: parquet\n"
        "buffer_size_mb: 1\n"
        "buffer_timeout_seconds: 10\n"
        "date_partition_format: '%Y%m%d'\n"
        f"aws_access_key_id: {s3.config['aws_access_key_id']}\n"
        f"aws_secret_access_key: {s3.config['aws_secret_access_key']}\n"
        f"aws_endpoint: {s3.config['aws_endpoint']}\n"
    )
    file.chmod(0o600)
    config = load_target(file)
    assert read_sink_interval(file) == 10
    lakeport.land(pd.DataFrame({"n": [1, 2]}), config)
    (key,) = s3.data_keys()
    assert re.fullmatch(r"events/clicks/\d{8}/\d{8}-\d{6}\.parquet", key)
    assert s3.rows("n") == [(1,), (2,)]


def test_a_sinks_stream_loses_nothing_and_repeats_nothing(s3: Place, tmp_path: Path) -> None:
    """What fails stays in the checkpoint, an end loses nothing, date-times are what they are."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    keys = ("aws_access_key_id", "aws_secret_access_key", "aws_endpoint", "bucket")
    sink = {"connector_type": "amazon_s3", "prefix": "events/clicks"}
    sink |= {key: s3.config[key] for key in keys}

    def events(spark: Any) -> Any:
        return spark.readStream.schema("n long, at timestamp").json(str(inbox))

    def run(rows: str, **more: Any) -> None:
        (inbox / f"{len(list(inbox.iterdir()))}.json").write_text(rows)
        checkpoint = tmp_path / "checkpoint"
        lakeport.land_stream(
            events, {**sink, **more}, checkpoint=checkpoint, available_now=True
        ).wait()

    run('{"n": 1, "at": "2024-03-04T15:30:45.123456Z"}\n')
    with pytest.raises(LakeportError):
        run('{"n": 2}\n', aws_secret_access_key="wrong-secret")
    run('{"n": 3}\n')
    assert s3.rows("n") == [(1,), (2,), (3,)]
    stamps = [row["at"] for row in s3.arrow().to_pylist() if row["at"]]
    assert stamps == [datetime(2024, 3, 4, 15, 30, 45, 123456, tzinfo=UTC)]


@pytest.mark.parametrize("destination", SINKS)
def test_a_sinks_file_is_a_streams_target(destination: str, make: Make, tmp_path: Path) -> None:
    """Every kind of sink, as Mage's YAML has it: its buffer's time is the trigger."""
    place = make(destination)
    kind, keys = SINKS[destination]
    given = {key: value for key, value in place.config.items() if key in _PLACE}
    # Spark's triggers come at multiples of their time since 1970: the next of these in 2033.
    buffer = {"buffer_size_mb": 1, "buffer_timeout_seconds": 1_000_000_000}
    file = tmp_path / "sink.yaml"
    values = {"connector_type": kind, **keys, **given, **buffer}
    file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items()))
    inbox = Inbox(tmp_path / "in")

    def start(**more: Any) -> lakeport.LandingStream:
        return lakeport.land_stream(
            inbox.stream(), file, checkpoint=tmp_path / "checkpoint", **more
        )

    inbox.add(range(5))
    inbox.add(range(5, 10))
    if any("secret" in key or key == "access_key" for key in given):
        file.chmod(0o666)
        with pytest.raises(ConfigError, match="others may write"):
            start()
    file.chmod(0o600)
    with start() as stream:
        until(lambda: stream.status.message == "Waiting for next trigger")
        assert (stream.status.batch, stream.report.rows) == (0, 5)
    with start(trigger=0.1) as stream:  # goes before the buffer's time
        until(lambda: stream.report.rows == 5)
    inbox.add(range(10, 15))
    assert start(available_now=True).wait()
    assert place.rows("id", "name") == [(n, f"n{n}") for n in range(15)]
    assert "_mage_created_at" in place.arrow().schema.names
    if destination == "google_cloud_storage":
        names = r"raw/users/\d{4}/\d\d/\d\d/\d{8}-\d{6}(-\w+)?\.parquet"
        assert all(re.fullmatch(names, key) for key in place.data_keys())
