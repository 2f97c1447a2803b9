"""An answer that comes a few bytes at a time does not keep a load for longer than it may take."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from lakeport.errors import LakeportError
from lakeport.storage import retry
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.azure.store import AzureStorage
from lakeport.storage.base import CloudStorage
from lakeport.storage.gcs.settings import GcpSettings
from lakeport.storage.gcs.store import GcsStorage
from lakeport.storage.retry import RetryPolicy
from lakeport.storage.s3.settings import AwsSettings
from lakeport.storage.s3.store import S3Storage
from tests.emulators import Azurite, TokenServer
from tests.half_dead import Way, half_dead

BRIEF = RetryPolicy(deadline=1)


def on_s3(endpoint: str, **keys: Any) -> CloudStorage:
    given = {"access_key_id": "stub", "secret_access_key": "stub", "region": "us-east-1", **keys}
    return S3Storage("lake", "", AwsSettings(endpoint=endpoint, retry_policy=BRIEF, **given))


def by_a_role(endpoint: str) -> CloudStorage:
    return on_s3(endpoint, role_arn="arn:aws:iam::123456789012:role/lands")


def on_gcs(endpoint: str, **keys: Any) -> CloudStorage:
    return GcsStorage("lake", "", GcpSettings(endpoint=endpoint, retry_policy=BRIEF, **keys))


def by_a_token(endpoint: str) -> CloudStorage:
    with TokenServer() as tokens:
        key = tokens.key() | {"token_uri": f"{endpoint}/token"}
    return on_gcs(endpoint, credentials=json.dumps(key))


def on_azure(endpoint: str) -> CloudStorage:
    settings = AzureSettings(
        account=Azurite.account,
        access_key=Azurite.account_key,
        endpoint=f"{endpoint}/{Azurite.account}",
        retry_policy=BRIEF,
    )
    return AzureStorage("lake", "", settings)


@pytest.mark.parametrize("way", ["slow body", "slow headers"])
@pytest.mark.parametrize("storage", [on_s3, by_a_role, on_gcs, by_a_token, on_azure])
def test_a_slow_answer_is_given_up(storage: Callable[[str], CloudStorage], way: Way) -> None:
    """It would take hours, and never be silent for as long as a read may be."""
    with half_dead(way) as server:
        store = storage(server.endpoint)
        for request in (lambda: store.get("t/_delta_log/0.json"), lambda: [*store.list("t")]):
            began = time.monotonic()
            with pytest.raises(LakeportError):
                request()
            assert time.monotonic() - began < 60  # three, where nothing else runs


class Clock:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Trickle(io.RawIOBase):
    """So many bytes at each read, which takes a second."""

    def __init__(self, clock: Clock, size: int) -> None:
        super().__init__()
        self._clock, self._size = clock, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        self._clock.now += 1
        return min(self._size, len(buffer))


@pytest.mark.parametrize(("rate", "whole"), [(2, False), (8 << 10, False), (17 << 10, True)])
def test_a_large_answer_may_take_long_if_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, rate: int, whole: bool
) -> None:
    clock = Clock()
    monkeypatch.setattr(retry, "time", clock)
    answer = retry._LimitedAnswer(Trickle(clock, rate), seconds=10)
    buffer = bytearray(1 << 20)
    if whole:
        assert sum(answer.readinto(buffer) or 0 for _ in range(10_000)) == 10_000 * rate
    else:
        with pytest.raises(TimeoutError, match="bytes of an answer came in"):
            for _ in range(10_000):
                answer.readinto(buffer)
        assert clock.now - 1000 < 60


def test_the_first_byte_may_take_as_long_as_a_read() -> None:
    """Its time is the socket's; the answer's own time begins with it."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retry, "time", clock)
        answer = retry._LimitedAnswer(io.FileIO("/dev/zero"), seconds=1)
        clock.now += 3600
        assert answer.readinto(bytearray(10)) == 10
        assert answer.readinto(bytearray(10)) == 10
        answer.close()
