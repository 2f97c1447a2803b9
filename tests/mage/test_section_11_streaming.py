"""Section 11: a streaming sink's YAML, landed with as a config (its buffer is for streams)."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

import lakeport
from lakeport.config.load import load_sink
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
