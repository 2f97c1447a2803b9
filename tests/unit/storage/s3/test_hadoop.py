"""What Hadoop's S3A connector is told of the way to a store."""

from __future__ import annotations

import pytest

from lakeport.storage.retry import RetryPolicy
from lakeport.storage.s3.hadoop import hadoop_settings
from lakeport.storage.s3.settings import AwsSettings

PROXY = "http://ada:p%40ss@proxy.test:3128"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", "inside.test,127.0.0.1")


def proxy(endpoint: str = "") -> dict[str, str]:
    start = "fs.s3a.bucket.lake.proxy."
    found = hadoop_settings("lake", AwsSettings(region="eu-west-1", endpoint=endpoint))
    return {key.removeprefix(start): found[key] for key in found if key.startswith(start)}


def test_the_proxy_of_the_environment_is_taken() -> None:
    through = {"host": "proxy.test", "port": "3128", "username": "ada", "password": "p@ss"}
    assert proxy() == proxy(endpoint="https://store.test:9000") == through


@pytest.mark.parametrize(
    "endpoint", ["http://store.test", "https://store.inside.test", "https://127.0.0.1:9000"]
)
def test_where_none_is_named_for_the_endpoint_there_is_none(endpoint: str) -> None:
    assert proxy(endpoint=endpoint) == {}


def test_a_proxy_may_speak_tls_and_lack_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "https://proxy.test")
    assert proxy() == {"host": "proxy.test", "port": "443", "ssl.enabled": "true"}
    monkeypatch.setenv("HTTPS_PROXY", "proxy.test")
    assert proxy() == {"host": "proxy.test", "port": "80"}


@pytest.mark.parametrize("deadline", [1, 30, 60, 120, 600])
def test_a_commit_and_the_look_for_it_share_the_deadline(deadline: float) -> None:
    start = "fs.s3a.bucket.lake."
    settings = AwsSettings(region="eu-west-1", retry_policy=RetryPolicy(deadline))
    found = hadoop_settings("lake", settings)
    call = float(found[f"{start}connection.request.timeout"].removesuffix("ms")) / 1000
    calls = 1 + int(found[f"{start}retry.limit"])
    assert found[f"{start}retry.throttle.limit"] == found[f"{start}retry.limit"]
    assert calls * call <= max(deadline / 2, 15)
