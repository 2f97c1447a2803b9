"""Stores that fail for ever: Spark's connectors give up in time, and the error says what it was."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport.errors import LakeportError, PermissionRefused
from tests.s3_stub import BrokenS3, Fault

FOR_EVER = 1_000_000
COMMIT = {"on": "PutObject", "key": "_delta_log/"}


@pytest.fixture(autouse=True)
def with_spark(runtime: Any) -> None:
    """One session for the module; `land` takes it up."""


@pytest.fixture
def store() -> Iterator[BrokenS3]:
    with BrokenS3(honours_conditions=True) as stub:
        stub.create_bucket("lake")
        yield stub


def land(store: BrokenS3, **more: Any) -> None:
    config = {
        "destination": "delta_lake_s3",
        "bucket": "lake",
        "aws_endpoint": store.endpoint,
        "aws_access_key_id": store.access_key,
        "aws_secret_access_key": store.secret_key,
        "give_up_after": 1,
        "table": "t",
        **more,
    }
    lakeport.land(pa.table({"id": [1, 2]}), config)


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        (Fault("status", FOR_EVER, **COMMIT), "kept answering 503"),
        (Fault("status", FOR_EVER, status=500, **COMMIT), "kept answering 500"),
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


def test_a_session_that_ends_during_a_commit(store: BrokenS3) -> None:
    land(store)
    store.inject(Fault("status", FOR_EVER, status=400, code="ExpiredToken", **COMMIT))
    with pytest.raises(PermissionRefused, match="s3://lake/t: the session of the cred"):
        land(store)
