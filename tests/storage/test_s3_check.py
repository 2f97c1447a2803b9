"""The connection test: what it finds, what it advises, what it never shows."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from lakeport.config.destinations.gcs import GoogleCloudStorageConfig
from lakeport.config.destinations.local import LocalConfig
from lakeport.config.destinations.s3 import AmazonS3Config, DeltaLakeS3Config
from lakeport.engine.base import Engine
from lakeport.errors import LakeportError
from lakeport.loading.check import CheckReport
from lakeport.storage.checks import check_clock
from lakeport.storage.s3.client import S3Connection
from tests.emulators import Keys, Minio, TokenServer
from tests.gcs_stub import GcsStub
from tests.s3_stub import BrokenS3
from tests.storage.behaviours import checked


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    with Minio(tmp_path_factory.mktemp("minio")) as server:
        server.create_bucket("lake")
        yield server


@pytest.fixture(autouse=True)
def no_credentials_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "STORAGE_EMULATOR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def s3(minio: Minio, keys: Keys | None = None, **more: str) -> AmazonS3Config:
    who = keys or minio.keys
    values: dict[str, Any] = {
        "aws_access_key_id": who.access_key,
        "aws_secret_access_key": who.secret_key,
    }
    if who.token:
        values["aws_session_token"] = who.token
    values |= {"bucket": "lake", "aws_endpoint": minio.endpoint, **more}
    return AmazonS3Config(**values)


def statuses(report: CheckReport) -> dict[str, str]:
    return {item.name: item.status for item in report.items}


def advice(report: CheckReport) -> str:
    assert not report.ok
    return " ".join(f"{i.detail} {i.hint}" for i in report.items if i.status == "failed")


def test_all_is_well_and_nothing_stays(minio: Minio) -> None:
    report = checked(s3(minio, object_key_path="check"))
    assert report.ok
    assert report.target == "s3://lake/check"
    wanted = {"credentials": "ok", "bucket": "ok", "clock": "ok", "write": "ok"}
    assert statuses(report).items() >= wanted.items()
    assert statuses(report)["conditional writes"] == "ok"
    assert "`aws_access_key_id`" in report.items[0].detail
    assert not minio.client().list_objects_v2(Bucket="lake", Prefix="check").get("Contents")
    assert minio.secret_key not in repr(report)


def test_spark_is_not_waited_for_when_there_is_no_time(
    minio: Minio, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting = Future[Engine]()
    monkeypatch.setattr("lakeport.loading.check._start_spark", lambda *_: starting)
    config = DeltaLakeS3Config(
        bucket="lake",
        aws_endpoint=minio.endpoint,
        aws_access_key_id=minio.keys.access_key,
        aws_secret_access_key=SecretStr(minio.keys.secret_key),
    )
    report = checked(config, spark_seconds=0.01)
    starting.set_exception(LakeportError("nobody waits for it any more"))
    (spark,) = [item for item in report.items if item.name.startswith("spark")]
    assert (spark.name, spark.status) == ("spark", "skipped")
    assert "0.01 s" in spark.detail
    assert report.ok


def test_threads_need_nothing_of_spark(minio: Minio) -> None:
    config = DeltaLakeS3Config(
        bucket="lake",
        aws_endpoint=minio.endpoint,
        aws_access_key_id=minio.keys.access_key,
        aws_secret_access_key=SecretStr(minio.keys.secret_key),
        engine="threads",
    )
    report = checked(config)
    assert statuses(report)["conditional writes"] == "ok"
    assert report.ok and not [item for item in report.items if item.name.startswith("spark")]


def test_put_object_alone_passes(minio: Minio) -> None:
    rule = {"Effect": "Allow", "Action": ["s3:PutObject"], "Resource": ["arn:aws:s3:::lake/p/*"]}
    keys = minio.restricted({"Version": "2012-10-17", "Statement": [rule]})
    report = checked(s3(minio, keys, object_key_path="p"))
    assert report.ok
    assert statuses(report)["bucket"] == "skipped"
    journal = checked(s3(minio, keys, object_key_path="p", run_id="r"))
    assert statuses(journal)["journal"] == "failed"
    assert "allow s3:GetObject on arn:aws:s3:::lake/p/_lakeport/journal/*" in advice(journal)


def test_a_missing_permission_is_named(minio: Minio) -> None:
    rule = {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": ["arn:aws:s3:::lake"]}
    keys = minio.restricted({"Version": "2012-10-17", "Statement": [rule]})
    assert "allow s3:PutObject on arn:aws:s3:::lake/" in advice(checked(s3(minio, keys)))


def test_wrong_keys_bucket_and_profile(minio: Minio) -> None:
    wrong = Keys(minio.access_key, "not-the-secret")
    assert "`aws_secret_access_key`" in advice(checked(s3(minio, wrong)))
    assert "no bucket 'lagoon'" in advice(checked(s3(minio, bucket="lagoon")))
    role = checked(s3(minio, wrong, role_arn="arn:aws:iam::123456789012:role/x"))
    assert "can't be assumed" in advice(role)
    nobody = AmazonS3Config(bucket="lake", aws_endpoint=minio.endpoint)
    assert "searched in this order" in advice(checked(nobody))
    profile = AmazonS3Config(bucket="lake", aws_endpoint=minio.endpoint, aws_profile="gone")
    assert "no profile 'gone'" in advice(checked(profile))


def test_nobody_listens_or_nobody_answers() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{silent.getsockname()[1]}"
        values: dict[str, Any] = {"aws_access_key_id": "a" * 9, "aws_secret_access_key": "b" * 9}
        config = AmazonS3Config(bucket="lake", aws_endpoint=closed, **values)
        assert "can't be reached" in advice(checked(config))
        silent.listen()
        assert "no answer within 0.5 s" in advice(checked(config, seconds=0.5))


def test_tls_trouble_is_told(minio: Minio) -> None:
    config = s3(minio, aws_endpoint=minio.endpoint.replace("http:", "https:"))
    assert "TLS" in advice(checked(config))


def test_the_real_region_is_named(minio: Minio, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = (200, {"x-amz-bucket-region": "eu-west-1"})
    monkeypatch.setattr(S3Connection, "probe_bucket", lambda _self, _bucket: seen)
    assert "`aws_region: eu-west-1`" in advice(checked(s3(minio)))


def test_a_store_that_ignores_conditions_passes_with_a_word() -> None:
    with BrokenS3() as liar:
        liar.create_bucket("lake")
        values: dict[str, Any] = {"aws_access_key_id": "stub", "aws_secret_access_key": "stub"}
        report = checked(AmazonS3Config(bucket="lake", aws_endpoint=liar.endpoint, **values))
        assert report.ok
        assert "unique suffix" in report.items[-1].detail


def test_a_clock_that_is_wrong() -> None:
    assert check_clock({"Date": formatdate(usegmt=True)}).status == "ok"
    late = check_clock({"date": formatdate(1_700_000_000, usegmt=True)})
    assert (late.status, "timedatectl" in late.hint) == ("failed", True)
    assert check_clock({"Date": "noon"}).status == "skipped"


def test_google_is_tested_too() -> None:
    with GcsStub() as stub, TokenServer() as tokens:
        values: dict[str, Any] = {"bucket": "lake", "google_endpoint": stub.endpoint}
        config = GoogleCloudStorageConfig(
            **values, google_application_credentials=SecretStr(json.dumps(tokens.key()))
        )
        report = checked(config)
        assert report.ok
        assert tokens.email in report.items[0].detail
        assert not stub.keys()
        stub.denied = {"storage.objects.get", "storage.objects.delete"}
        assert checked(config).ok
        stub.denied = {"storage.objects.create"}
        assert "grant storage.objects.create" in advice(checked(config))
        lost = GoogleCloudStorageConfig(**{**values, "bucket": "lagoon"})
        assert "no bucket 'lagoon'" in advice(checked(lost))
        assert "PRIVATE KEY" not in repr(config)


def test_a_google_key_that_is_not_accepted() -> None:
    with GcsStub() as stub, TokenServer() as tokens, TokenServer() as stranger:
        forged = tokens.key() | {"private_key": stranger.private_key}
        values: dict[str, Any] = {"bucket": "lake", "google_endpoint": stub.endpoint}
        config = GoogleCloudStorageConfig(
            **values, google_application_credentials=SecretStr(json.dumps(forged))
        )
        assert "invalid_grant" in advice(checked(config))


def test_a_folder_is_tested_too(tmp_path: Path) -> None:
    assert checked(LocalConfig(path=str(tmp_path / "lake"))).ok
    assert not [path for path in (tmp_path / "lake").rglob("*") if path.is_file()]


def test_items_stop_where_nothing_can_work(minio: Minio) -> None:
    storage = s3(minio, bucket="lagoon").storage()
    names = [item.name for item in dataclasses.replace(storage, prefix="x").checks()]
    assert names == ["credentials", "bucket", "region", "clock"]


def delta(minio: Minio, *actions: str, **more: str) -> DeltaLakeS3Config:
    """Tables below `lake/delta`, for keys that may do these things only."""
    place = ["arn:aws:s3:::lake", "arn:aws:s3:::lake/delta/*"]
    rule = {"Effect": "Allow", "Action": list(actions), "Resource": place}
    keys = minio.restricted({"Version": "2012-10-17", "Statement": [rule]})
    return DeltaLakeS3Config(
        bucket="lake",
        object_key_path="delta",
        aws_endpoint=minio.endpoint,
        aws_access_key_id=SecretStr(keys.access_key),
        aws_secret_access_key=SecretStr(keys.secret_key),
        aws_session_token=SecretStr(keys.token),
        **more,
    )


DELTA = ("s3:PutObject", "s3:GetObject", "s3:ListBucket")


def test_tables_are_tested_through_spark(minio: Minio) -> None:
    report = checked(delta(minio, *DELTA, "s3:DeleteObject"))
    assert report.ok, report
    assert list(statuses(report))[5:] == [
        "conditional writes",
        "read",
        "list",
        "spark",
        "spark write",
        "spark conditional write",
        "spark read",
        "spark list",
        "spark delete",
    ]
    assert set(list(statuses(report).values())[5:]) == {"ok"}
    left = minio.client().list_objects_v2(Bucket="lake", Prefix="delta").get("Contents", [])
    assert [row["Key"] for row in left] in ([], ["delta/_lakeport/"])  # stands for a folder
    undeletable = checked(delta(minio, *DELTA))
    assert undeletable.ok, undeletable
    assert statuses(undeletable)["spark delete"] == "skipped"


def test_tables_need_to_read_and_list(minio: Minio) -> None:
    found = checked(delta(minio, "s3:PutObject"))
    assert "allow s3:GetObject on arn:aws:s3:::lake/delta/" in advice(found)
    assert "spark" not in statuses(found)
    found = checked(delta(minio, "s3:PutObject", "s3:GetObject"))
    assert "allow s3:ListBucket on arn:aws:s3:::lake" in advice(found)


def test_tables_need_a_store_that_honours_conditions() -> None:
    with BrokenS3() as liar:
        liar.create_bucket("lake")
        values: dict[str, Any] = {"aws_access_key_id": "stub", "aws_secret_access_key": "stub"}
        report = checked(DeltaLakeS3Config(bucket="lake", aws_endpoint=liar.endpoint, **values))
        assert "ignores If-None-Match" in advice(report)
