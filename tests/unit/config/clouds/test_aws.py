"""Keys of the destinations on S3."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from lakeport.config.destinations.s3 import AmazonS3Config
from lakeport.errors import ConfigError
from lakeport.storage.s3.hadoop import hadoop_settings
from lakeport.storage.s3.settings import AwsSettings

KEYS = {"aws_access_key_id": "AKCANARY", "aws_secret_access_key": "s3cr3t-canary"}


def config(**values: Any) -> AmazonS3Config:
    return AmazonS3Config(**{"bucket": "lake", **values})


def test_defaults_are_those_users_have() -> None:
    made = config()
    assert made.file_type == "parquet"
    assert made.object_key_path == ""
    wanted = AwsSettings(region="us-west-2", role_session_name="mage-data-integration")
    assert made.aws_settings() == wanted
    assert made.storage().uri() == "s3://lake"


def test_null_and_blank_keys_are_absent() -> None:
    names = ("aws_access_key_id", "aws_secret_access_key", "role_arn", "aws_endpoint", "sse")
    assert config(**dict.fromkeys(names)).aws_settings() == AwsSettings()
    blank = dict.fromkeys((*names[:4], "aws_profile", "aws_session_token"), "")
    assert config(**blank).aws_settings() == AwsSettings()
    assert config(aws_region=None).aws_region == "us-west-2"


def test_every_key_reaches_the_client() -> None:
    made = config(
        **KEYS,
        aws_session_token="tok",
        aws_region="eu-west-1",
        aws_endpoint="http://127.0.0.1:9000/",
        aws_addressing_style="virtual",
        role_arn="arn:aws:iam::1:role/x",
        role_session_name="night",
        external_id="ext",
        sse="aws:kms",
        sse_kms_key_id="key",
        object_tags={"a": 1},
        object_metadata={"b": "c"},
    )
    assert made.aws_settings() == AwsSettings(
        access_key_id="AKCANARY",
        secret_access_key="s3cr3t-canary",
        session_token="tok",
        region="eu-west-1",
        endpoint="http://127.0.0.1:9000",
        addressing_style="virtual",
        role_arn="arn:aws:iam::1:role/x",
        role_session_name="night",
        external_id="ext",
        sse="aws:kms",
        sse_kms_key_id="key",
        tags=(("a", "1"),),
        metadata=(("b", "c"),),
    )


@pytest.mark.parametrize("path", ["/raw//events/", "raw/events", "raw/events///"])
def test_slashes_of_the_prefix_do_no_harm(path: str) -> None:
    assert config(object_key_path=path).storage().uri("t/x.csv") == "s3://lake/raw/events/t/x.csv"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"bucket": "s3://lake"}, "bare name"),
        ({"bucket": "lake/raw"}, "bare name"),
        ({"bucket": "b"}, "of 2 to 255 letters"),
        ({"object_key_path": "a/../b"}, "object_key_path"),
        ({"object_key_path": "a/%2e%2e/b"}, "object_key_path"),
        ({"object_key_path": "a\nb"}, "object_key_path"),
        ({"file_type": "delta"}, "file_type"),
        ({"aws_access_key_id": "a"}, "go together"),
        ({"aws_session_token": "a"}, "keys of its session"),
        ({**KEYS, "aws_profile": "p"}, "exclude each other"),
        ({"sse_kms_key_id": "k"}, "needs `sse: aws:kms`"),
        ({"sse": "rot13"}, "sse"),
        ({"aws_endpoint": "127.0.0.1:9000"}, "https://host"),
        ({"aws_endpoint": "http://u:canary@h"}, "can't hold credentials"),
        ({"aws_region": "eu west"}, "aws_region"),
        ({"object_tags": dict.fromkeys("abcdefghijk", "1")}, "10 tags"),
        ({"object_tags": {"": "x"}}, "`object_tags`: '': a name has 1"),
        ({"object_tags": {"a": "x" * 257}}, "`object_tags`: 'a': a name has 1"),
        ({"object_tags": {"a": "x&b=y"}}, "'a': letters, digits"),
        ({"object_tags": {"aws:a": "x"}}, "Amazon's own"),
        ({"object_metadata": {"a": "é"}}, "ASCII"),
        ({"object_metadata": {"a b": "x"}}, "'a b' is no name"),
        ({"object_metadata": {"Lakeport-Id": "x"}}, "'Lakeport-Id' is no name"),
        ({"object_metadata": {"a": "x", "A": "y"}}, "differ only in case"),
        ({"object_metadata": {"a": "x" * 2001}}, "2000 characters"),
        ({"role_arn": "loader"}, "arn:aws:iam::123456789012:role/name"),
        ({"aws_regoin": "x"}, "aws_region"),
    ],
)
def test_what_is_wrong_is_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**values)
    assert words in str(caught.value)
    assert "canary" not in str(caught.value)


def test_other_stores_take_any_role() -> None:
    assert config(role_arn="arn:xxx:xxx:xxx:xxxx").role_arn == "arn:xxx:xxx:xxx:xxxx"


def test_secrets_show_nowhere_but_travel() -> None:
    made = config(**KEYS, aws_session_token="tok-canary", external_id="ext-canary")
    assert "canary" not in (repr(made) + repr(made.storage())).lower()
    assert set(made.secrets()) >= {"AKCANARY", "s3cr3t-canary", "tok-canary", "ext-canary"}
    assert pickle.loads(pickle.dumps(made.storage())) == made.storage()


def test_a_uri_gives_bucket_and_prefix() -> None:
    keys: dict[str, Any] = dict(AmazonS3Config.uri_keys("s3://lake/raw/events/"))
    assert AmazonS3Config(**keys).storage().uri() == "s3://lake/raw/events"


@pytest.mark.parametrize(
    ("settings", "provider", "more"),
    [
        (AwsSettings(), "DefaultCredentialsProvider", {"path.style.access": "false"}),
        (AwsSettings("k", "s"), "SimpleAWSCredentialsProvider", {"secret.key": "s"}),
        (AwsSettings("k", "s", "t"), "TemporaryAWSCredentialsProvider", {"session.token": "t"}),
        (AwsSettings(profile="p"), "ProfileAWSCredentialsProvider", {"auth.profile.name": "p"}),
        (
            AwsSettings("k", "s", endpoint="http://h:9"),
            "SimpleAWSCredentialsProvider",
            {"endpoint": "http://h:9", "path.style.access": "true"},
        ),
        (
            AwsSettings("k", "s", role_arn="r", external_id="e", endpoint="http://h:9"),
            "AssumedRole",
            {"assumed.role.external.id": "e", "assumed.role.sts.endpoint": "http://h:9"},
        ),
        (
            AwsSettings(sse="aws:kms", sse_kms_key_id="key"),
            "DefaultCredentialsProvider",
            {"encryption.algorithm": "SSE-KMS", "encryption.key": "key"},
        ),
    ],
)
def test_hadoop_gets_the_same(settings: AwsSettings, provider: str, more: dict[str, str]) -> None:
    found = hadoop_settings("lake", settings)
    prefix = "fs.s3a.bucket.lake."
    assert all(name.startswith(prefix) for name in found)
    plain = {name.removeprefix(prefix): value for name, value in found.items()}
    assert plain["aws.credentials.provider"].endswith(f".{provider}")
    assert plain.items() >= more.items()


@pytest.mark.parametrize("value", [12345, 0.5, True, b"s3cr3t-canary", ["s3cr3t-canary"]])
def test_a_secret_is_text_and_not_shown(value: Any) -> None:
    with pytest.raises(ConfigError, match="`aws_secret_access_key`: has to be text") as e:
        config(**KEYS | {"aws_secret_access_key": value})
    assert str(value) not in str(e.value) and "canary" not in f"{e.value}{e.value.hint}"
