"""Storages that travel to tasks take along what this machine's credentials came to."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakeport.errors import PermissionRefused
from lakeport.storage.azure import client as azure_client
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.azure.store import AzureStorage
from lakeport.storage.gcs.client import connect
from lakeport.storage.gcs.settings import GcpSettings
from lakeport.storage.gcs.store import GcsStorage
from lakeport.storage.retry import RetryPolicy
from lakeport.storage.s3.settings import AwsSettings
from lakeport.storage.s3.store import S3Storage
from tests.emulators import Minio, TokenServer

_CHAIN = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE")


def sent(storage: Any) -> Any:
    """The storage as a task gets it."""
    return pickle.loads(pickle.dumps(storage))


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine on which no credentials are found."""
    for name in _CHAIN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return monkeypatch


def test_keys_of_the_environment_and_of_profiles_travel(
    minio: Minio, nowhere: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bucket = minio.create_bucket("handed")
    quick = RetryPolicy(deadline=1)
    chain = AwsSettings(endpoint=minio.endpoint, retry_policy=quick)
    assert sent(S3Storage(bucket, "", chain)).settings == chain, "there is nothing to take along"
    profile = AwsSettings(endpoint=minio.endpoint, retry_policy=quick, profile="tests")
    keys = f"aws_access_key_id={minio.access_key}\naws_secret_access_key={minio.secret_key}\n"
    (tmp_path / "credentials").write_text(f"[tests]\n{keys}")
    there = sent(S3Storage(bucket, "by-profile", profile))
    (tmp_path / "credentials").unlink()
    there.put("a", b"1")
    assert there.get("a") == b"1"
    assert there.settings.profile == ""
    assert minio.secret_key not in repr(there)
    given = AwsSettings(minio.access_key, minio.secret_key, endpoint=minio.endpoint)
    assert sent(S3Storage(bucket, "", given)).settings == given


def test_sessions_of_a_role_travel_and_know_their_origin(
    minio: Minio, nowhere: pytest.MonkeyPatch
) -> None:
    bucket = minio.create_bucket("handed-role")
    role = AwsSettings(
        minio.access_key,
        minio.secret_key,
        endpoint=minio.endpoint,
        role_arn="arn:aws:iam::123456789012:role/loader",
    )
    there = sent(S3Storage(bucket, "", role))
    assert there.settings.session_token
    assert there.settings.access_key_id != minio.access_key
    assert (there.settings.role_arn, there.settings.renewal) == ("", role)
    there.put("a", b"1")
    assert sent(there).settings == there.settings


def test_tokens_of_google_travel(nowhere: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with TokenServer() as server:
        key = server.write_key(tmp_path / "key.json")
        nowhere.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
        there = sent(GcsStorage("lake", "", GcpSettings(project="test-1")))
        assert there.settings.token == server.tokens[-1]
        assert sent(there) == there
        nowhere.delenv("GOOGLE_APPLICATION_CREDENTIALS")
        assert connect(there.settings).access_token() == (
            there.settings.token,
            there.settings.token_end,
        )
        assert server.issued == 1
        assert there.settings.token not in repr(there)
        # A token that is about to end is not handed on.
        server.expires_in = 900
        nowhere.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
        here = GcsStorage("lake", "", GcpSettings(project="test-2"))
        first, second = (sent(here).settings.token for _ in range(2))
        assert first != second
    given = GcpSettings(credentials=key.read_text())
    assert sent(GcsStorage("lake", "", given)).settings == given
    anonymous = GcpSettings(endpoint="http://127.0.0.1:1")
    assert sent(GcsStorage("lake", "", anonymous)).settings == anonymous


def test_tokens_of_azure_travel(nowhere: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Identity:
        def get_token(self, *scopes: str, **_: Any) -> Any:
            asked.extend(scopes)
            return SimpleNamespace(token="t0ken", expires_on=int(time.time()) + 3600)

    nowhere.setattr(azure_client, "_identity", lambda settings: Identity())
    there = sent(AzureStorage("lake", "", AzureSettings("acme", managed_identity=True)))
    assert there.settings.token == "t0ken"
    assert "t0ken" not in repr(there)
    assert "t0ken" in there.settings.secrets
    asked.clear()
    assert azure_client.connect(there.settings).access_token()[0] == "t0ken"
    assert asked == [], "the token that came along is used"
    spent = AzureSettings("acme", managed_identity=True, token="old", token_end=1)
    assert azure_client.connect(spent).access_token()[0] == "t0ken"
    assert asked, "a spent one is not"

    def refuse(settings: AzureSettings) -> Any:
        raise PermissionRefused("no credentials")

    nowhere.setattr(azure_client, "_identity", refuse)
    lone = AzureSettings("nobody")
    assert sent(AzureStorage("lake", "", lone)).settings == lone
    key = AzureSettings("acme", access_key="a2V5")
    assert sent(AzureStorage("lake", "", key)).settings == key
    assert os.environ.get("AWS_ACCESS_KEY_ID") is None
