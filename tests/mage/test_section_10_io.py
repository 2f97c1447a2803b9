"""Section 10: io_config.yaml and the io classes, as exporter blocks use them."""

from __future__ import annotations

import datetime as dt
import io
import re
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.errors import ConfigError, ObjectExists, SourceError
from lakeport.mage import DeltaLakeS3
from lakeport.mage.io import (
    S3,
    AzureBlobStorage,
    ConfigFileLoader,
    EnvironmentVariableLoader,
    GoogleCloudStorage,
)
from tests.emulators import Azurite
from tests.mage.conftest import Make, Place

FRAME = pd.DataFrame({"id": [1, 2], "at": pd.to_datetime(["2024-03-04T15:30:45.123456", None])})


@pytest.fixture
def loader(s3: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConfigFileLoader:
    monkeypatch.setenv("LAKE_SECRET", s3.config["aws_secret_access_key"])
    file = tmp_path / "io_config.yaml"
    file.write_text(
        "version: 0.1.1\n"
        "default:\n"
        f"  AWS_ACCESS_KEY_ID: {s3.config['aws_access_key_id']}\n"
        "  AWS_SECRET_ACCESS_KEY: {{ env_var('LAKE_SECRET') }}\n"
        "  AWS_SESSION_TOKEN: session_token (Used to generate Redshift credentials)\n"
        "  AWS_REGION: region\n"
        f"  AWS_ENDPOINT: {s3.config['aws_endpoint']}\n"
        "  POSTGRES_HOST: {{ env_var('SURELY_NOT_SET') }}\n"
    )
    return ConfigFileLoader(str(file), "default")


def test_objects_in_s3(s3: Place, loader: ConfigFileLoader, tmp_path: Path) -> None:
    bucket = s3.config["bucket"]
    store = S3.with_config(loader)
    for frame in (FRAME, pl.from_pandas(FRAME)):
        store.export(frame, bucket, "daily/users.parquet")
        found = pq.read_table(io.BytesIO(s3.files.read("daily/users.parquet")))
        assert found["id"].to_pylist() == [1, 2]
        assert found["at"].to_pylist()[0].isoformat().endswith("45.123456")
    store.export(FRAME, bucket, "daily/users.csv", index=False)
    assert s3.files.read("daily/users.csv").splitlines()[0] == b"id,at"
    store.export(FRAME[["id"]], bucket, "daily/users", format="json", orient="records")
    assert s3.files.read("daily/users") == b'[{"id":1},{"id":2}]'
    local = tmp_path / "notes.txt"
    local.write_text("kept as it is")
    store.export(str(local), bucket, "notes.txt")
    assert s3.files.read("notes.txt") == b"kept as it is"
    assert not list(Path.cwd().glob(".tmp*"))
    assert (store.exists(bucket, "daily"), store.exists(bucket, "weekly")) == (True, False)
    assert len(store.load(bucket, "daily/users.csv", limit=1)) == 1
    with pytest.raises(SourceError, match="no object"):
        store.load(bucket, "daily/none.csv")
    with pytest.raises(ConfigError, match="did you mean `parquet`"):
        store.export(FRAME, bucket, "daily/users.parqet")
    with pytest.raises(SourceError, match="not a frame"):
        store.export([1], bucket, "daily/users.csv")
    for bad, key in (({"id": [1, "x"]}, "a.parquet"), ({"id": ["\ud800"]}, "a.csv")):
        with pytest.raises(SourceError, match="can't be written as"):
            store.export(pd.DataFrame(bad), bucket, key)
    with pytest.raises(SourceError, match="can't be written as csv"):
        store.export(FRAME, bucket, "a.csv", inedx=False)


def test_objects_in_gcs_and_azure(
    make: Make, azurite: Azurite, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make("google_cloud_storage")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", place.config["google_endpoint"])
    gcs = GoogleCloudStorage.with_config(ConfigFileLoader(config={}))
    gcs.export(FRAME, place.config["bucket"], "users.parquet")
    assert pq.read_table(io.BytesIO(place.files.read("users.parquet"))).num_rows == 2

    place = make("delta_lake_azure")
    container = place.config["table_uri"].split("/")[2]
    blobs = AzureBlobStorage(
        account_name=azurite.account,
        access_key=azurite.account_key,
        azure_endpoint=azurite.endpoint,
    )
    blobs.export(FRAME, container, "users.csv", index=False)
    with pytest.raises(ObjectExists) as refused:
        blobs.export(FRAME, container, "users.csv")
    assert '`upload_kwargs={"overwrite": True}`' in refused.value.hint
    blobs.export(FRAME[["id"]], container, "users.csv", upload_kwargs={"overwrite": True})
    assert place.files.read("users.csv").startswith(b",id\n")


def test_a_profile_makes_a_destination(delta: Place, loader: ConfigFileLoader) -> None:
    """The same profile, for tables; the credentials are the profile's."""
    keys: dict[str, Any] = {"bucket": delta.config["bucket"], "object_key_path": "raw"}
    made = DeltaLakeS3.with_config(loader, **keys, mode="append")
    made.export(FRAME, table="users")
    assert delta.rows("id") == [(1,), (2,)]


def test_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.delenv("AWS_ENDPOINT", raising=False)
    loader = EnvironmentVariableLoader()
    assert (loader["AWS_REGION"], "AWS_ENDPOINT" in loader) == ("eu-west-1", False)


def test_days_of_the_hybrid_calendar_are_rebased(
    s3: Place, loader: ConfigFileLoader, tmp_path: Path
) -> None:
    old = pa.table({"d": [dt.date(1001, 1, 7)]})
    keys = {b"org.apache.spark.version": b"2.4.8"}
    pq.write_table(old.replace_schema_metadata(keys), tmp_path / "old.parquet")
    store, bucket = S3.with_config(loader), s3.config["bucket"]
    store.export(str(tmp_path / "old.parquet"), bucket, "old.parquet")
    assert store.load(bucket, "old.parquet")["d"].tolist() == [dt.date(1001, 1, 1)]


BLOCK = """\
from mage_ai.settings.repo import get_repo_path
from mage_ai.io.config import ConfigFileLoader
from mage_ai.io.s3 import S3
from pandas import DataFrame
from os import path

if 'data_exporter' not in globals():
    from mage_ai.data_preparation.decorators import data_exporter
if 'test' not in globals():
    from mage_ai.data_preparation.decorators import test


@data_exporter
def export_data_to_s3(df: DataFrame, **kwargs) -> None:
    config_path = path.join(get_repo_path(), 'io_config.yaml')
    config_profile = 'default'
    S3.with_config(ConfigFileLoader(config_path, config_profile)).export(
        df,
        BUCKET,
        'blocks/users.parquet',
    )


@test
def test_output(output, *args) -> None:
    assert output is None, 'an exporter returns nothing'
"""


def test_a_block_runs_outside_of_mage_with_its_import_lines_changed(
    s3: Place, loader: ConfigFileLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = re.sub(r"from mage_ai\.io\.\w+ import", "from lakeport.mage.io import", BLOCK)
    block = re.sub(r"from mage_ai\.\S+ import", "from lakeport.mage import", block)
    names: dict[str, Any] = {"BUCKET": s3.config["bucket"]}
    monkeypatch.chdir(tmp_path)  # the fixture `loader` has left its file there
    exec(block, names)
    names["test_output"](names["export_data_to_s3"](FRAME))
    monkeypatch.chdir("/")
    monkeypatch.setenv("MAGE_REPO_PATH", str(tmp_path))
    names["export_data_to_s3"](FRAME.tail(1))
    found = S3.with_config(loader).load(s3.config["bucket"], "blocks/users.parquet")
    assert found["id"].tolist() == [2]
