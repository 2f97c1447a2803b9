"""S3 storage against MinIO: behaviour, permissions, credentials, what objects carry."""

from __future__ import annotations

import dataclasses
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeport.errors import DestinationError, LakeportError, ObjectExists, PermissionRefused
from lakeport.model import Storage
from lakeport.storage.s3 import client as s3_client
from lakeport.storage.s3 import store as s3
from lakeport.storage.s3.settings import AwsSettings
from lakeport.storage.s3.store import S3Storage
from tests.emulators import Keys, Minio
from tests.storage.behaviours import BEHAVIOURS, hides_its_secrets, keys, published, stage

_prefixes = (f"run/{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    with Minio(tmp_path_factory.mktemp("minio")) as server:
        server.create_bucket("lake")
        yield server


@pytest.fixture(autouse=True)
def no_credentials_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def storage_of(minio: Minio, keys: Keys | None = None, prefix: str = "", **more: Any) -> S3Storage:
    who = keys or minio.keys
    settings = AwsSettings(*who, endpoint=minio.endpoint, **more)
    return S3Storage("lake", prefix or next(_prefixes), settings)


def allowed(*actions: str) -> dict[str, object]:
    """A policy that allows these actions below `in/` and nothing else."""
    on = ["arn:aws:s3:::lake", "arn:aws:s3:::lake/in/*"]
    rule = {"Effect": "Allow", "Action": [f"s3:{name}" for name in actions], "Resource": on}
    return {"Version": "2012-10-17", "Statement": [rule]}


@pytest.mark.parametrize("checksum", ["", "crc32c"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda each: each.__name__)
def test_behaviour(
    minio: Minio,
    behaviour: Callable[[Storage], None],
    checksum: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if checksum:
        monkeypatch.setattr(AwsSettings, "content_checksum", checksum)
    behaviour(storage_of(minio))


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda each: each.__name__)
def test_behaviour_with_an_sdk_that_lacks_conditions(
    minio: Minio, behaviour: Callable[[Storage], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AwsSettings, "content_checksum", "crc32c")
    storage = storage_of(minio, role_session_name="old")  # with a client of its own
    service = storage.connection._client.meta.service_model
    for operation in ("PutObject", "CreateMultipartUpload", "CompleteMultipartUpload"):
        for name in s3_client._HEADERS:
            service.operation_model(operation).input_shape.members.pop(name, None)
    behaviour(storage)


def test_the_store_begins_a_listing_behind_a_key(minio: Minio) -> None:
    storage = storage_of(minio)
    for key in "abc":
        storage.put(key, b"1")
    assert [found.key for found in storage._page("", below=True, after="b").objects] == ["c"]


@pytest.mark.parametrize("checksum", ["md5", "crc32c", "signature"])
def test_the_store_verifies_what_it_gets(
    minio: Minio, checksum: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AwsSettings, "content_checksum", checksum)
    storage = storage_of(minio)
    published(storage, "a.csv", b"1")
    storage.put("b", b"1")
    wrong = {"md5": {"ContentMD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}}
    wrong["crc32c"] = {"ChecksumCRC32C": "AAAAAA=="}
    if checksum in wrong:
        monkeypatch.setattr(s3, "checksum_parameters", lambda *_: dict(wrong[checksum]))
        for attempt in (lambda: storage.put("c", b"1"), lambda: stage(storage, "d", b"1")):
            with pytest.raises(DestinationError, match="are not those that were sent"):
                attempt()
    assert keys(storage) == ["a.csv", "b"]


def test_root_may_be_the_whole_bucket(minio: Minio) -> None:
    minio.create_bucket("whole")
    storage = dataclasses.replace(storage_of(minio), bucket="whole", prefix="")
    published(storage, "a/b.csv", b"1")
    assert keys(storage) == ["a/b.csv"]
    assert (storage.uri(), storage.uri("a")) == ("s3://whole", "s3://whole/a")
    assert storage.hadoop_uri("a") == "s3a://whole/a"


def test_an_object_carries_type_metadata_tags_and_encryption(minio: Minio) -> None:
    storage = storage_of(minio)
    more = dataclasses.replace(
        storage.settings, metadata=(("team", "data"),), tags=(("cost", "a b"),)
    )
    storage = dataclasses.replace(storage, settings=more)
    staged = stage(storage, "a.csv", b"1")
    storage.publish(staged, "a.csv")
    at = {"Bucket": "lake", "Key": f"{storage.prefix}/a.csv"}
    head = minio.client().head_object(**at)
    assert head["ContentType"] == "text/csv"
    told = {"team": "data", "lakeport-id": staged.token["id"]}
    assert head["Metadata"] == told
    tags = minio.client().get_object_tagging(**at)["TagSet"]
    assert tags == [{"Key": "cost", "Value": "a b"}]


def test_encryption_is_asked_for() -> None:
    settings = AwsSettings(sse="aws:kms", sse_kms_key_id="key")
    asked = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "key"}
    assert settings.object_parameters() == asked
    assert AwsSettings(sse="AES256").object_parameters() == {"ServerSideEncryption": "AES256"}


def test_put_object_alone_is_enough_to_write(minio: Minio) -> None:
    writer = storage_of(minio, minio.restricted(allowed("PutObject")), "in/least")
    assert not writer.needs_unique_names()
    published(writer, "t/a.csv", b"x" * (17 << 20))
    writer.put("_lakeport/manifest.json", b"{}", create_only=True)
    loser = stage(writer, "t/a.csv", b"2")
    with pytest.raises(ObjectExists):
        writer.publish(loser, "t/a.csv")
    writer.discard(loser)
    reader = storage_of(minio, prefix="in/least")
    assert keys(reader) == ["t/a.csv"]


@pytest.mark.parametrize(
    ("action", "attempt"),
    [
        ("s3:PutObject", lambda s: s.put("a", b"")),
        ("s3:PutObject", lambda s: stage(s, "a", b"1")),
        ("s3:GetObject", lambda s: s.get("a")),
        ("s3:GetObject", lambda s: s.open("a")),
        ("s3:ListBucket", lambda s: list(s.list(""))),
        ("s3:DeleteObject", lambda s: s.delete("a")),
    ],
)
def test_a_refusal_names_action_and_resource(
    minio: Minio, action: str, attempt: Callable[[Storage], object]
) -> None:
    storage = storage_of(minio, minio.restricted(allowed("ListMultipartUploadParts")), "in/x")
    with pytest.raises(PermissionRefused) as caught:
        attempt(storage)
    assert f"allow {action} on arn:aws:s3:::lake" in caught.value.hint
    both = "on arn:aws:s3:::lake/in/x/* (the data, and the folder `_lakeport/` there)"
    assert (both in caught.value.hint) == (action == "s3:PutObject")


def test_a_failed_stage_leaves_no_upload(minio: Minio) -> None:
    storage = storage_of(minio)
    writer = storage.stage("t/a.csv", "text/csv")
    writer.write(b"x" * (40 << 20))
    key = f"{storage.prefix}/t/a.csv"
    uploads = minio.client().list_multipart_uploads
    assert uploads(Bucket="lake", Prefix=key).get("Uploads")
    writer.abort()
    assert not uploads(Bucket="lake", Prefix=key).get("Uploads")


def test_a_role_is_assumed_with_the_keys_and_at_the_endpoint(minio: Minio) -> None:
    role = "arn:aws:iam::123456789012:role/loader"
    storage = storage_of(minio, role_arn=role)
    published(storage, "a.csv", b"1")
    held = s3_client.connect(storage.settings).credentials
    assert held.method == "assume-role"
    assert held.get_frozen_credentials().access_key != minio.access_key


def test_a_role_is_assumed_again_before_it_ends(
    minio: Minio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_client, "ROLE_SECONDS", 900)
    storage = storage_of(minio, role_arn="arn:aws:iam::123456789012:role/short")
    storage.put("a", b"1")
    held = s3_client.connect(storage.settings).credentials
    first = held.get_frozen_credentials().access_key
    storage.put("b", b"1")
    # 900 s, the least a role lasts, lie within the SDK's advisory window: it renews at each use.
    assert held.get_frozen_credentials().access_key != first


def test_a_role_that_is_refused_says_so(minio: Minio) -> None:
    wrong = Keys(minio.access_key, "wrong-secret-of-the-key")
    storage = storage_of(minio, wrong, role_arn="arn:aws:iam::123456789012:role/x")
    with pytest.raises(PermissionRefused, match="can't be assumed") as caught:
        storage.put("a", b"1")
    assert "wrong-secret" not in str(caught.value)


def test_the_default_chain_is_searched(minio: Minio, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = AwsSettings(endpoint=minio.endpoint, region="us-east-2")
    storage = S3Storage("lake", next(_prefixes), settings)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", minio.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", minio.secret_key)
    storage.put("a", b"1")
    assert s3_client.connect(settings).credentials.method == "env"


def test_a_profile_is_used(minio: Minio, tmp_path: Path) -> None:
    lines = f"aws_access_key_id={minio.access_key}\naws_secret_access_key={minio.secret_key}\n"
    (tmp_path / "credentials").write_text(f"[lake]\n{lines}")
    settings = AwsSettings(endpoint=minio.endpoint, profile="lake")
    S3Storage("lake", next(_prefixes), settings).put("a", b"1")
    missing = S3Storage("lake", "", dataclasses.replace(settings, profile="sea"))
    with pytest.raises(LakeportError, match="no profile 'sea'"):
        missing.put("a", b"1")


def test_no_credentials_lists_the_places_searched(minio: Minio) -> None:
    storage = S3Storage("lake", "", AwsSettings(endpoint=minio.endpoint))
    with pytest.raises(PermissionRefused, match="no usable AWS credentials") as caught:
        storage.put("a", b"1")
    for place in ("aws_profile", "AWS_WEB_IDENTITY_TOKEN_FILE", "SSO", "~/.aws/credentials"):
        assert place in caught.value.hint


@pytest.mark.parametrize("wrong", ["unknown key", "wrong secret", "wrong token"])
def test_wrong_keys_are_named_and_never_shown(minio: Minio, wrong: str) -> None:
    token = minio.restricted(allowed("PutObject"))
    who, words = {
        "unknown key": (Keys("AKIDUNKNOWN00", minio.secret_key), "aws_access_key_id"),
        "wrong secret": (Keys(minio.access_key, "wrong-secret-of-the-key"), "secret_access_key"),
        "wrong token": (Keys(token[0], token[1], token[2][:-9] + "wrongtokn"), "session_token"),
    }[wrong]
    with pytest.raises(PermissionRefused) as caught:
        storage_of(minio, who).put("a", b"1")
    assert words in caught.value.hint
    assert not any(secret in str(caught.value) for secret in who if secret)


def test_there_is_no_such_bucket(minio: Minio) -> None:
    storage = dataclasses.replace(storage_of(minio), bucket="no-such-bucket")
    with pytest.raises(DestinationError, match="no bucket 'no-such-bucket'"):
        storage.put("a", b"1")
    with pytest.raises(DestinationError, match="no bucket 'no-such-bucket'"):
        stage(storage, "a", b"1")


def test_repr_and_tokens_hold_no_secret(minio: Minio) -> None:
    hides_its_secrets(storage_of(minio), minio.access_key, minio.secret_key)


_RACER = """
import os, sys, time
from lakeport.errors import ObjectExists
from lakeport.storage.s3.store import S3Storage
from lakeport.storage.s3.settings import AwsSettings
from lakeport.model import Staged
endpoint, prefix, moment = sys.argv[1:4]
settings = AwsSettings(os.environ["RACER_KEY"], os.environ["RACER_SECRET"], endpoint=endpoint)
storage = S3Storage("lake", prefix, settings)
writer = storage.stage("20240101-000000.csv", "text/csv")
writer.write(str(os.getpid()).encode())
done = writer.finish()
staged = Staged("20240101-000000.csv", done["token"], 1, done["bytes"])
time.sleep(max(0.0, float(moment) - time.time()))
try:
    storage.publish(staged, "20240101-000000.csv")
except ObjectExists:
    print("lost")
else:
    print("won", os.getpid())
"""


def test_one_of_several_processes_wins_a_name(minio: Minio) -> None:
    reader = storage_of(minio)
    variables = {**os.environ, "RACER_KEY": minio.access_key, "RACER_SECRET": minio.secret_key}
    variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    arguments = [minio.endpoint, reader.prefix, str(time.time() + 2.5)]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACER, *arguments], env=variables, stdout=subprocess.PIPE
        )
        for _ in range(3)
    ]
    said = [racer.communicate(timeout=60)[0].decode().split() for racer in racers]
    winners = [words[1] for words in said if words[:1] == ["won"]]
    assert len(winners) == 1
    assert sorted(words[0] for words in said) == ["lost", "lost", "won"]
    assert reader.get("20240101-000000.csv") == winners[0].encode()
