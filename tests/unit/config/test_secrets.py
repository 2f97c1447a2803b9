from __future__ import annotations

import base64
import copy
import pickle
from urllib.parse import quote, quote_plus

import pytest

from lakeport.config.secrets import Secret
from lakeport.scrub import MASK, is_secret_name, scrub


def test_only_reveal_gives_it_away() -> None:
    secret = Secret("open sesame")
    assert secret.reveal() == "open sesame"
    for text in (str(secret), repr(secret), f"{secret}", f"{secret!r}"):
        assert "sesame" not in text


def test_equal_by_value() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
    assert Secret("a") and not Secret("")


def test_copies_and_pickles() -> None:
    secret = Secret("é\ud800")
    assert pickle.loads(pickle.dumps(secret)) == copy.deepcopy(secret) == secret


@pytest.mark.parametrize(
    "name",
    [
        "aws_secret_access_key",
        "access_key",
        "spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net",
        "fs.s3a.session.token",
        "PASSWORD",
        "fs.azure.sas.container",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["table", "partition_keys", "spark.cores.max", "delta.appendOnly"])
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


def test_scrub_finds_every_form() -> None:
    secret = "p@ss/w+rd=1 é"
    raw = secret.encode()
    forms = [
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
    ]
    assert scrub("|".join(forms), [secret]) == "|".join([MASK] * len(forms))


def test_scrub_takes_the_longest_first_and_leaves_tiny_ones() -> None:
    assert scrub("abcdef abcd x", ["abcd", "abcdef", "x"]) == f"{MASK} {MASK} x"
