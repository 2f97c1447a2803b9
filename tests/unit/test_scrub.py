"""Secrets in text."""

from __future__ import annotations

import base64
from urllib.parse import quote, quote_plus

import pytest

from lakeport.scrub import MASK, is_secret_name, scrub

SECRET = "ca+na/ry=s3cr3t ü"


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET),
        quote_plus(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").replace("%2B", "%2b").replace("%2F", "%2f").replace("%3D", "%3d")
        .replace("%C3%BC", "%c3%bc"),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    ],
)  # fmt: skip
def test_named_secrets_in_every_form(form: str) -> None:
    assert scrub(f"a <{form}> b", [SECRET, "x"]) == "a <**********> b"


def test_scrub_takes_the_longest_first_and_leaves_tiny_ones() -> None:
    assert scrub("abcdef abcd x", ["abcd", "abcdef", "x"]) == f"{MASK} {MASK} x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key AKIAIOSFODNN7EXAMPLE refused", "key ********** refused"),
        ("https://h/c?sv=1&sig=a%2Fb%3D&se=2", "https://h/c?sv=1&sig=**********&se=2"),
        ("https://h/?X-Amz-Signature=0af&x=1", "https://h/?X-Amz-Signature=**********&x=1"),
        ("AccountName=n;AccountKey=abc==;x", "AccountName=n;AccountKey=**********;x"),
        ("Authorization: AWS4 Credential=x, y\nnext", "Authorization: **********\nnext"),
        ("got Bearer ya29.abc-def", "got Bearer **********"),
        ("postgresql://me:pw@host/db", "postgresql://me:**********@host/db"),
        ("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----!",
         "-----BEGIN PRIVATE KEY-----**********!"),
        ("nothing to hide at s3://bucket/key=1/x", "nothing to hide at s3://bucket/key=1/x"),
    ],
)  # fmt: skip
def test_what_looks_like_one(text: str, expected: str) -> None:
    assert scrub(text) == expected


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("fs.s3a.access.key", True),
        ("fs.s3a.session.token", True),
        ("fs.s3a.encryption.key", True),
        ("fs.azure.account.key.a.dfs.core.windows.net", True),
        ("fs.azure.sas.c.a.blob.core.windows.net", True),
        ("fs.azure.account.oauth2.client.secret", True),
        ("spark.some.password", True),
        ("fs.s3a.aws.credentials.provider", False),
        ("fs.s3a.security.credential.provider.path", False),
        ("spark.sql.shuffle.partitions", False),
        ("spark.redaction.regex", False),
        ("aws_secret_access_key", True),
        ("access_key", True),
        ("PASSWORD", True),
        ("fs.azure.sas.container", True),
        ("table", False),
        ("partition_keys", False),
        ("spark.cores.max", False),
        ("delta.appendOnly", False),
        ("fs.azure.account.auth.type.a.dfs.core.windows.net", False),
    ],
)
def test_names(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


@pytest.mark.parametrize("name", ["password=string", "'my password=json'", "signature=a_2"])
def test_options_that_hints_name_stay_whole(name: str) -> None:
    hint = f"password=hunter2; `--column {name}` lands it, `--rename {name}` too: password=hunter2"
    masked = scrub(hint)
    assert f"`--column {name}` lands it, `--rename {name}` too" in masked
    assert "hunter2" not in masked
