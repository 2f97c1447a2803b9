"""The emulators do what the other tests take for granted; lakeport itself is not used here."""

from __future__ import annotations

import io
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ResourceExistsError
from botocore.exceptions import (  # type: ignore[import-untyped,unused-ignore]
    ClientError,
    ConnectionClosedError,
)
from google.api_core.exceptions import PreconditionFailed, from_http_response
from google.auth.exceptions import RefreshError
from google.oauth2.service_account import Credentials

from tests.emulators import (
    PACKAGES,
    Azurite,
    EmulatorError,
    FakeGcs,
    Keys,
    Minio,
    TokenServer,
    cache_folder,
)
from tests.s3_stub import BrokenS3, Fault

Write = Callable[[str, bytes], object]
WRITERS = 8
MULTIPART = "CompleteMultipartUpload"


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    with Minio(tmp_path_factory.mktemp("minio")) as server:
        server.create_bucket("lake")
        yield server


@pytest.fixture(scope="module")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGcs]:
    with FakeGcs(tmp_path_factory.mktemp("gcs")) as server:
        server.create_bucket("lake")
        yield server


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with Azurite(tmp_path_factory.mktemp("azurite")) as server:
        server.create_container("lake")
        yield server


@pytest.fixture
def stub() -> Iterator[BrokenS3]:
    with BrokenS3(honours_conditions=True) as store:
        store.create_bucket("lake")
        yield store


def complete(client: Any, key: str, body: bytes, **condition: str) -> None:
    """Write a one-part multipart upload."""
    at = {"Bucket": "lake", "Key": key}
    at["UploadId"] = client.create_multipart_upload(**at)["UploadId"]
    etag = client.upload_part(**at, PartNumber=1, Body=body)["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    client.complete_multipart_upload(**at, MultipartUpload=parts, **condition)


def s3_writers(client: Any) -> list[Write]:
    def put(key: str, body: bytes) -> object:
        return client.put_object(Bucket="lake", Key=key, Body=body, IfNoneMatch="*")

    return [put, lambda key, body: complete(client, key, body, IfNoneMatch="*")]


def gcs_writers(server: FakeGcs) -> list[Write]:
    bucket = server.client().bucket("lake")
    url = f"{server.endpoint}/upload/storage/v1/b/lake/o?uploadType=media&ifGenerationMatch=0"

    def simple(key: str, body: bytes) -> None:
        answer = bucket.client._http.request("POST", f"{url}&name={key}", data=body)
        if answer.status_code != 200:
            raise from_http_response(answer)  # type: ignore[no-untyped-call,unused-ignore]

    def multipart(key: str, body: bytes) -> None:
        bucket.blob(key).upload_from_string(body, if_generation_match=0)

    def resumable(key: str, body: bytes) -> None:
        blob = bucket.blob(key, chunk_size=256 * 1024)
        blob.upload_from_file(io.BytesIO(body * 600_000), if_generation_match=0)

    return [simple, multipart, resumable]


def winners(write: Write, key: str) -> int:
    """Let several threads create one key at once; count those told that they did."""

    def attempt(number: int) -> bool:
        try:
            write(key, b"%d" % number)
        except (PreconditionFailed, ResourceExistsError):
            return False
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 412:
                raise
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        return sum(pool.map(attempt, range(WRITERS)))


def denied(call: Callable[[], object]) -> bool:
    with pytest.raises(ClientError) as caught:
        call()
    return bool(caught.value.response["Error"]["Code"] == "AccessDenied")


def test_minio_creates_an_object_once(minio: Minio) -> None:
    for number, write in enumerate(s3_writers(minio.client())):
        assert winners(write, f"once/{number}") == 1


def test_minio_restricted_keys_may_do_what_the_policy_allows_only(minio: Minio) -> None:
    allow = {"Effect": "Allow", "Action": ["s3:PutObject"], "Resource": ["arn:aws:s3:::lake/in/*"]}
    keys = minio.restricted({"Version": "2012-10-17", "Statement": [allow]})
    client = minio.client(keys)
    client.put_object(Bucket="lake", Key="in/a", Body=b"1")
    assert denied(lambda: client.put_object(Bucket="lake", Key="out/a", Body=b"1"))
    assert denied(lambda: client.get_object(Bucket="lake", Key="in/a"))
    assert denied(lambda: client.delete_object(Bucket="lake", Key="in/a"))
    assert denied(lambda: client.list_objects_v2(Bucket="lake"))
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        minio.client(Keys(minio.access_key, "wrong-secret")).list_buckets()


def test_minio_keeps_its_data_and_port_over_a_crash(tmp_path: Path) -> None:
    with Minio(tmp_path) as server:
        client = server.client()
        server.create_bucket("lake")
        client.put_object(Bucket="lake", Key="a", Body=b"1")
        server.kill()
        server.start()
        assert client.get_object(Bucket="lake", Key="a")["Body"].read() == b"1"


def test_minio_paused_answers_when_resumed(minio: Minio) -> None:
    client, began = minio.client(), time.monotonic()
    minio.pause()
    threading.Timer(0.5, minio.resume).start()
    client.list_buckets()
    assert time.monotonic() - began > 0.4


@pytest.mark.parametrize("on_disk", [False, True])
def test_fake_gcs_creates_an_object_once(tmp_path: Path, on_disk: bool) -> None:
    with FakeGcs(tmp_path, on_disk=on_disk) as server:
        server.create_bucket("lake")
        for number, write in enumerate(gcs_writers(server)):
            assert winners(write, f"once-{number}") == 1


def test_token_server_gives_tokens_to_its_own_key_only(
    gcs: FakeGcs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both start threads at the first request: one asks for the bucket (and a second token),
    # the other sends the token to iamcredentials.googleapis.com.
    monkeypatch.setenv("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    lookup = "_is_regional_access_boundary_lookup_required"
    monkeypatch.setattr(Credentials, lookup, lambda _self: False, raising=False)
    with TokenServer() as tokens, TokenServer() as stranger:
        path = tokens.write_key(tmp_path / "key.json")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        bucket = gcs.client(tokens.credentials()).bucket("lake")
        bucket.blob("a").upload_from_string(b"1")
        assert bucket.blob("a").download_as_bytes() == b"1"
        assert tokens.issued == 1
        forged = tokens.key() | {"private_key": stranger.private_key}
        with pytest.raises(RefreshError, match="invalid_grant"):
            list(gcs.client(tokens.credentials(forged)).list_blobs("lake"))
        assert (tokens.issued, tokens.refused) == (1, 1)


def test_azurite_creates_a_blob_once(azurite: Azurite) -> None:
    container = azurite.client().get_container_client("lake")
    container.upload_blob("a", b"1")
    assert container.download_blob("a").readall() == b"1"
    # overwrite=False, the default, is what sends `If-None-Match: *`.
    assert winners(container.upload_blob, "once") == 1
    staged = azurite.client(max_single_put_size=4, max_block_size=4).get_container_client("lake")
    assert winners(lambda key, body: staged.upload_blob(key, body * 20), "blocks") == 1


def test_stub_behaves_rightly_or_lies(stub: BrokenS3) -> None:
    for number, write in enumerate(s3_writers(stub.client())):
        assert winners(write, f"once/{number}") == 1
    with BrokenS3() as liar:
        liar.create_bucket("lake")
        for number, write in enumerate(s3_writers(liar.client())):
            assert winners(write, f"once/{number}") == WRITERS


def test_stub_reads_lists_copies_and_deletes(stub: BrokenS3) -> None:
    client = stub.client()
    for key in ("a/1", "a/2", "a/b/3", "a&b<c> d+é"):
        client.put_object(Bucket="lake", Key=key, Body=key.encode(), Metadata={"k": "v"})
    assert client.head_object(Bucket="lake", Key="a/1")["Metadata"] == {"k": "v"}
    part = client.get_object(Bucket="lake", Key="a/b/3", Range="bytes=2-3")
    assert (part["Body"].read(), part["ContentRange"]) == (b"b/", "bytes 2-3/5")
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket="lake", PaginationConfig={"PageSize": 1}
    )
    listed = [row["Key"] for page in pages for row in page["Contents"]]
    assert listed == stub.keys("lake") == ["a&b<c> d+é", "a/1", "a/2", "a/b/3"]
    folder = client.list_objects_v2(Bucket="lake", Prefix="a/", Delimiter="/")
    assert [row["Prefix"] for row in folder["CommonPrefixes"]] == ["a/b/"]
    assert [row["Key"] for row in folder["Contents"]] == ["a/1", "a/2"]
    client.copy_object(Bucket="lake", Key="copy", CopySource="lake/a/2")
    assert stub.body("lake", "copy") == b"a/2"
    client.delete_object(Bucket="lake", Key="copy")
    client.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": "a/1"}, {"Key": "a/2"}]})
    assert stub.keys("lake") == ["a&b<c> d+é", "a/b/3"]
    upload = client.create_multipart_upload(Bucket="lake", Key="m")["UploadId"]
    assert client.list_multipart_uploads(Bucket="lake")["Uploads"][0]["UploadId"] == upload
    client.abort_multipart_upload(Bucket="lake", Key="m", UploadId=upload)
    assert not stub.uploads


def test_stub_fails_by_its_script(stub: BrokenS3) -> None:
    client = stub.client(retries={"total_max_attempts": 4, "mode": "standard"})
    failures = [Fault("status", status=status, on="PutObject") for status in (500, 503, 429)]
    stub.inject(*failures, Fault("reset-before", on="GetObject", times=2), Fault(delay=0.3))
    began = time.monotonic()
    client.put_object(Bucket="lake", Key="a", Body=b"1")
    assert client.get_object(Bucket="lake", Key="a")["Body"].read() == b"1"
    assert time.monotonic() - began > 0.3
    assert [s.status for s in stub.seen if s.operation == "PutObject"] == [500, 503, 429, 200]
    assert [s.status for s in stub.seen if s.operation == "GetObject"] == [0, 0, 200]


@pytest.mark.parametrize("number", [0, 1])
def test_stub_loses_an_acknowledgement(stub: BrokenS3, number: int) -> None:
    write = s3_writers(stub.client(retries={"total_max_attempts": 1}))[number]
    stub.inject(Fault("reset-after", on=("PutObject", MULTIPART)[number]))
    with pytest.raises(ConnectionClosedError):
        write("a", b"1")
    assert stub.body("lake", "a") == b"1"
    with pytest.raises(ClientError, match="PreconditionFailed"):
        write("a", b"1")


def test_stub_answers_200_with_an_error_inside(stub: BrokenS3) -> None:
    client = stub.client(retries={"total_max_attempts": 1})
    stub.inject(Fault("error-body", on=MULTIPART, status=500))
    with pytest.raises(ClientError, match="InternalError"):
        complete(client, "a", b"1")
    assert (stub.keys("lake"), len(stub.uploads)) == ([], 1)


def test_missing_tool_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAKEPORT_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cache_folder() == tmp_path / "emulators"
    for package, install in ("minio", "Install Go"), ("azurite", "Install Node.js"):
        with pytest.raises(EmulatorError, match=install):
            PACKAGES[package].path()
