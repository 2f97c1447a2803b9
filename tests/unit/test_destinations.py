"""What a table is opened for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport.config.load import load_target
from lakeport.config.sources import FilesSource
from lakeport.destinations import check_place, open_storage, open_table, worker_packages
from lakeport.errors import ConfigError
from tests.s3_stub import BrokenS3, Fault


@pytest.mark.parametrize("file_type", ["parquet", "csv"])
def test_files_stay_out_of_a_delta_table(tmp_path: Path, file_type: str) -> None:
    """Its readers would not see them, and its vacuum would remove them."""
    config = load_target(tmp_path, {"file_type": file_type})
    storage = open_storage(config)
    no_spark: Any = None
    (tmp_path / "sales" / "_delta_log").mkdir(parents=True)
    assert open_table(config, storage, no_spark, "sales").uri == str(tmp_path / "sales")
    (tmp_path / "sales" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    with pytest.raises(ConfigError, match=f"is a Delta table, and `file_type` is '{file_type}'"):
        open_table(config, storage, no_spark, "sales")
    assert open_table(config, storage, no_spark, "sale").uri == str(tmp_path / "sale")


@pytest.mark.parametrize("file_type", ["parquet", "csv"])
def test_a_delta_table_stays_out_of_a_table_of_files(tmp_path: Path, file_type: str) -> None:
    """Neither's readers would see the rows of the other."""
    lakeport.land([{"id": 1}], tmp_path, table="t", file_type=file_type)
    with pytest.raises(ConfigError, match=f"is a table of {file_type} files") as refused:
        lakeport.land([{"id": 2}], tmp_path, table="t")
    assert f"`--set file_type={file_type}`" in refused.value.hint
    for file in (tmp_path / "t").iterdir():
        file.unlink()
    lakeport.land([{"id": 2}], tmp_path, table="t")
    lakeport.land([{"id": 3}], tmp_path, table="t")


def log(folder: Path) -> None:
    (folder / "_delta_log").mkdir(parents=True)
    (folder / "_delta_log" / "00000000000000000000.json").write_text("{}")


@pytest.mark.parametrize("file_type", ["parquet", "delta"])
@pytest.mark.parametrize("below", ["", "x", "day=1/hour=2", "_delta_log", "_delta_log/x"])
def test_a_lake_stays_out_of_a_delta_table(tmp_path: Path, file_type: str, below: str) -> None:
    """Its vacuum deletes what its log does not name."""
    log(tmp_path / "lake" / "outer")
    (tmp_path / "link").symlink_to(tmp_path / "lake" / "outer")
    for outer in (tmp_path / "lake" / "outer", tmp_path / "link"):
        with pytest.raises(ConfigError, match="would lie in the folder of the Delta") as refused:
            config = load_target(outer / below, {"file_type": file_type})
            check_place(config, open_storage(config))
        assert f"land in {outer.parent} with `table: {outer.name}`" in refused.value.hint
    assert [path.name for path in (tmp_path / "lake" / "outer").iterdir()] == ["_delta_log"]


@pytest.mark.parametrize("file_type", ["parquet", "delta"])
def test_a_table_stays_out_of_a_delta_table(tmp_path: Path, file_type: str) -> None:
    log(tmp_path / "outer")
    config = load_target(tmp_path, {"file_type": file_type, "table": "outer/x"})
    no_spark: Any = None
    with pytest.raises(ConfigError, match=f"would lie in .* table {tmp_path}/outer, whose"):
        open_table(config, open_storage(config), no_spark, "sales")


def test_in_a_bucket_what_can_be_seen_is_looked_at() -> None:
    with BrokenS3(honours_conditions=True) as stub:
        stub.create_bucket("lake")
        stub.client().put_object(Bucket="lake", Key="outer/_delta_log/0.json", Body=b"{}")
        told = {
            "aws_access_key_id": stub.access_key,
            "aws_secret_access_key": stub.secret_key,
            "aws_endpoint": stub.endpoint,
            "aws_region": stub.region,
        }

        def check(uri: str) -> int:
            before = stub.count("ListObjects")
            config = load_target(uri, told)
            check_place(config, open_storage(config))
            return stub.count("ListObjects") - before

        for inside in ("outer", "outer/x", "outer/day=1/hour=2"):
            with pytest.raises(ConfigError, match="of the Delta table s3://lake/outer, whose"):
                check(f"s3://lake/{inside}")
        assert check("s3://lake/beside/it/below") == 2
        odd = {**told, "destination": "amazon_s3", "bucket": "lake", "object_key_path": "outer#1"}
        check_place(load_target(odd), open_storage(load_target(odd)))
        stub.inject(Fault("status", on="ListObjects", status=403, times=2))
        assert check("s3://lake/outer/x") == 2


def test_workers_need_what_reaches_the_files_of_a_description(tmp_path: Path) -> None:
    config = load_target(tmp_path)
    named = worker_packages(config, ["s3://inbox/*.json"])
    assert "botocore" in named
    assert worker_packages(config, FilesSource(files="s3://inbox/*.json")) == named
