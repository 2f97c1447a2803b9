"""Section 11: a streaming sink's YAML, landed with as a config (its buffer is for streams)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import lakeport
from lakeport.config.load import load_sink
from lakeport.errors import LakeportError
from tests.mage.conftest import Place


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
    config, buffer = load_sink(file)
    assert (buffer.size_mb, buffer.timeout_seconds) == (1, 10)
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
