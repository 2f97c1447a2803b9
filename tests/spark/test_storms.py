"""Stores that fail for ever: Spark's connectors give up in time, and the error says what it was."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport.errors import (
    DestinationError,
    LakeportError,
    OutcomeUnknown,
    PermissionRefused,
    Unreachable,
)
from tests.emulators import Azurite, s3_config
from tests.faults.requests.faults import Fault as RequestFault
from tests.faults.requests.naming import namer
from tests.faults.requests.proxy import FaultProxy, Point
from tests.s3_stub import BrokenS3, Fault

BY_DELTA_SPARK = {"table_properties": {"delta.enableChangeDataFeed": "true"}}
FOR_EVER = 1_000_000
COMMIT = {"on": "PutObject", "key": "_delta_log/"}


@pytest.fixture(autouse=True)
def with_spark(driver: Any) -> Iterator[None]:
    """One session for the module; `land` takes it up, and commits by it."""
    yield


@pytest.fixture
def store() -> Iterator[BrokenS3]:
    with BrokenS3(honours_conditions=True) as stub:
        stub.create_bucket("lake")
        yield stub


def land(store: BrokenS3, **more: Any) -> None:
    config = {
        "destination": "delta_lake_s3",
        "bucket": "lake",
        **s3_config(store),
        "give_up_after": 1,
        "table": "t",
        **BY_DELTA_SPARK,
        **more,
    }
    lakeport.land(pa.table({"id": [1, 2]}), config)


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        (Fault("status", FOR_EVER, **COMMIT), "kept answering 503"),
        pytest.param(
            Fault("status", FOR_EVER, status=500, **COMMIT),
            "kept answering 500",
            marks=pytest.mark.soak,
        ),
        (Fault("reset-before", FOR_EVER, **COMMIT), "was cut"),
    ],
)
def test_a_commit_that_never_passes(store: BrokenS3, fault: Fault, answer: str) -> None:
    land(store)
    store.inject(fault)
    began = time.monotonic()
    with pytest.raises(LakeportError, match=answer) as caught:
        land(store)
    assert time.monotonic() - began < 30
    assert caught.value.exit_code == 5
    assert "s3://lake/t" in caught.value.message
    assert "software.amazon" not in str(caught.value)


def test_a_storm_that_passes_in_time_is_no_error(store: BrokenS3) -> None:
    store.inject(Fault("status", 3, **COMMIT))
    land(store)
    assert store.count("PutObject") > 3


@pytest.mark.parametrize(
    ("status", "code", "kind", "words"),
    [
        (400, "ExpiredToken", PermissionRefused, "the session of the credentials has expired"),
        (403, "RequestTimeTooSkewed", DestinationError, "this machine's clock differs"),
        pytest.param(
            *(301, "PermanentRedirect", DestinationError, "the bucket is in another region"),
            marks=pytest.mark.soak,
        ),
        pytest.param(
            *(404, "NoSuchBucket", DestinationError, "the bucket or container does not exist"),
            marks=pytest.mark.soak,
        ),
    ],
)
def test_what_no_retry_helps_is_said_in_our_words(
    store: BrokenS3, status: int, code: str, kind: type, words: str
) -> None:
    land(store)
    store.inject(Fault("status", FOR_EVER, status=status, code=code, **COMMIT))
    with pytest.raises(DestinationError) as caught:
        land(store, give_up_after=60)  # not one that a loaded machine makes
    assert type(caught.value) is kind
    assert caught.value.message.startswith(f"s3://lake/t: {words}")
    assert "software.amazon" not in str(caught.value)


@pytest.fixture(scope="module")
def azure(azurite: Azurite) -> Iterator[FaultProxy]:
    """In front of a store with a table `t`."""
    azurite.create_container("storms")
    with FaultProxy(azurite.endpoint, "azure") as proxy:
        azure_land(azurite, proxy, give_up_after=60)
        yield proxy


def storm(**how: Any) -> RequestFault:
    """A way to fail that does not end."""
    return RequestFault("storm", times=FOR_EVER, **how)


AZURE_COMMIT = Point("COPY _delta_log/N.json", 1)
AZURE_FIRST = Point("LIST _delta_log", 1)


def azure_land(azurite: Azurite, proxy: FaultProxy, **more: Any) -> None:
    config = {
        "destination": "delta_lake_azure",
        "table_uri": azurite.uri("storms", "t"),
        "access_key": azurite.account_key,
        "azure_endpoint": proxy.endpoint,
        "give_up_after": 1,
        **BY_DELTA_SPARK,
        **more,
    }
    lakeport.land(pa.table({"id": [1, 2]}), config)


@contextmanager
def storming(proxy: FaultProxy, at: Point, fault: RequestFault) -> Iterator[None]:
    """Have a request of the table `t` fail."""
    place: Any = SimpleNamespace(namer=namer("azure", "storms", "t"))
    with proxy.script(place, at, fault) as script:
        yield
    assert script.hit, script.seen


@pytest.mark.parametrize(
    ("at", "fault", "kind", "words"),
    [
        pytest.param(
            AZURE_COMMIT,
            storm(status=503),
            OutcomeUnknown,
            "kept answering 503",
            marks=pytest.mark.soak,
        ),
        (AZURE_COMMIT, storm(hangs=True), OutcomeUnknown, "stayed silent"),
        (AZURE_FIRST, storm(status=503, everywhere=True), Unreachable, "kept answering 503"),
    ],
)
def test_azure_that_never_passes(
    azurite: Azurite, azure: FaultProxy, at: Point, fault: RequestFault, kind: type, words: str
) -> None:
    began = time.monotonic()
    with storming(azure, at, fault), pytest.raises(kind, match=words) as caught:
        azure_land(azurite, azure)
    assert time.monotonic() - began < 30
    assert caught.value.exit_code == 5
    assert "devstoreaccount1" in caught.value.message
    assert "azurebfs" not in str(caught.value)


def test_a_copy_on_azure_whose_answer_is_cut_is_found_made(
    azurite: Azurite, azure: FaultProxy
) -> None:
    began = time.monotonic()
    with storming(azure, AZURE_COMMIT, RequestFault("cut", forwarded=True, cut=True)):
        azure_land(azurite, azure, give_up_after=8)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("shared", [pytest.param(False, marks=pytest.mark.soak), True])
def test_azure_credentials_that_end_during_a_commit(
    azurite: Azurite, azure: FaultProxy, shared: bool
) -> None:
    keys = {"access_key": None, "sas_token": azurite.sas("storms")} if shared else {}
    fault = storm(status=401, everywhere=True)
    with storming(azure, AZURE_COMMIT, fault), pytest.raises(OutcomeUnknown) as caught:
        azure_land(azurite, azure, **keys)
    told = caught.value.message
    assert "/t was made is unknown: the store does not accept the credentials" in told
    assert ("`sas_token`" if shared else "`access_key`") in told
    assert "a SAS or a token may have expired" in caught.value.hint
    assert "sig=" not in str(caught.value) and "http" not in caught.value.hint
