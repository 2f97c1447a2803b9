"""Answers that say no although the store said yes, or to what nobody asked: on every store."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from lakeport.errors import DestinationError, ObjectExists, PermissionRefused, Unreachable
from lakeport.model import Storage
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.azure.store import AzureStorage
from lakeport.storage.gcs.settings import GcpSettings
from lakeport.storage.gcs.store import GcsStorage
from lakeport.storage.retry import Connection, NotFound, Retrier, RetryPolicy
from lakeport.storage.s3 import client as s3_client
from lakeport.storage.s3.settings import AwsSettings
from lakeport.storage.s3.store import S3Storage
from tests.emulators import Azurite
from tests.faults.requests import proxy as proxy_module
from tests.faults.requests.faults import FAULTS, Fault
from tests.faults.requests.naming import namer
from tests.faults.requests.proxy import FaultProxy, Point
from tests.gcs_stub import GcsStub
from tests.s3_stub import BrokenS3
from tests.storage.behaviours import published, stage

QUICK = RetryPolicy(deadline=20, initial_delay=0.01, max_delay=0.05)
COMPLETE = {"s3": "COMPLETE a", "azure": "PUT blocklist a", "gcs": "LAST session /"}
PUT = {"s3": "PUT a", "azure": "PUT a", "gcs": "POST multipart /"}
GET = {"s3": "GET a", "azure": "GET a", "gcs": "GET media a"}
LIST = dict.fromkeys(("s3", "azure", "gcs"), "LIST a")
BEGIN = {"s3": "POST uploads a", "azure": "PUT block a"}
PAGES = {
    "page-before": Fault("page-before", status=200),
    "page-after": Fault("page-after", forwarded=True, status=200),
}


@dataclass
class Store:
    """A store behind a proxy."""

    proxy: FaultProxy
    container: str
    storage: Storage

    @contextmanager
    def failing(self, requests: Mapping[str, str], fault: Fault) -> Iterator[None]:
        """Have one request fail."""
        dialect = self.proxy.dialect
        place: Any = SimpleNamespace(namer=namer(dialect, self.container, "in"))
        with self.proxy.script(place, Point(requests[dialect], 1), fault) as script:
            yield
        assert script.hit, script.seen


@pytest.fixture
def s3() -> Iterator[Store]:
    with (
        BrokenS3(honours_conditions=True) as stub,
        FaultProxy(stub.endpoint, "s3") as proxy,
    ):
        stub.create_bucket("lake")
        settings = AwsSettings("stub", "stub", endpoint=proxy.endpoint, retry_policy=QUICK)
        yield Store(proxy, "lake", S3Storage("lake", "in", settings))


@pytest.fixture
def gcs() -> Iterator[Store]:
    with GcsStub() as stub, FaultProxy(stub.endpoint, "gcs") as proxy:
        settings = GcpSettings("", endpoint=proxy.endpoint, retry_policy=QUICK)
        yield Store(proxy, "lake", GcsStorage("lake", "in", settings))


@pytest.fixture
def azure(azurite: Azurite) -> Iterator[Store]:
    container = azurite.create_container(f"lake-{uuid.uuid4().hex}")
    with FaultProxy(azurite.endpoint, "azure") as proxy:
        keys = (azurite.account, azurite.account_key)
        settings = AzureSettings(*keys, endpoint=proxy.endpoint, retry_policy=QUICK)
        yield Store(proxy, container, AzureStorage(container, "in", settings))


@pytest.fixture(params=("s3", "azure", "gcs"))
def store(request: pytest.FixtureRequest) -> Store:
    found: Store = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("fault", ["412-after", "500-after", "lost-after", *PAGES])
def test_an_upload_that_was_completed_is_ours(store: Store, fault: str) -> None:
    staged = stage(store.storage, "a", b"mine")
    with store.failing(COMPLETE, PAGES.get(fault) or FAULTS[fault]):
        store.storage.publish(staged, "a")
    assert store.storage.get("a") == b"mine"


def test_an_upload_that_was_completed_is_ours_without_permission_to_read(s3: Store) -> None:
    mine, other = (stage(s3.storage, key, b"mine") for key in "ab")
    with s3.failing(COMPLETE, FAULTS["412-after"]), unreadable():
        s3.storage.publish(mine, "a")
    s3.storage.put("b", b"theirs")
    with unreadable(), pytest.raises(ObjectExists):
        s3.storage.publish(other, "b")
    assert (s3.storage.get("a"), s3.storage.get("b")) == (b"mine", b"theirs")


@contextmanager
def unreadable() -> Iterator[None]:
    """Have the marks of objects be no business of ours."""

    def refused(*_: object) -> bool:
        raise PermissionRefused("no")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(S3Storage, "_has_mark", refused)
        yield


@pytest.mark.parametrize("fault", ["409-after", "412-after", "500-after", "lost-after", *PAGES])
def test_an_object_that_was_put_is_ours(store: Store, fault: str) -> None:
    with store.failing(PUT, PAGES.get(fault) or FAULTS[fault]):
        store.storage.put("a", b"mine", create_only=True)
    with pytest.raises(ObjectExists):
        store.storage.put("a", b"other", create_only=True)
    assert store.storage.get("a") == b"mine"


@pytest.mark.parametrize("fault", PAGES)
def test_an_upload_begins_with_what_the_store_calls_it(store: Store, fault: str) -> None:
    with store.failing({**BEGIN, "gcs": "POST resumable /"}, PAGES[fault]):
        published(store.storage, "a", b"mine" * 100_000)
    assert store.storage.get("a") == b"mine" * 100_000


@pytest.mark.parametrize("fault", PAGES)
def test_a_page_is_no_object(store: Store, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store.storage.put("a", b"mine")
    with store.failing(GET, PAGES[fault]):
        assert store.storage.get("a") == b"mine"
    with store.failing(LIST, PAGES[fault]):
        assert [each.key for each in store.storage.list("a")] == ["a"]
    monkeypatch.setattr(Connection, "policy_for", lambda *_: RetryPolicy(0.3, 0.01, 0.05))
    always = Fault("page", status=200, times=1 << 30)
    asked: list[tuple[Mapping[str, str], Callable[[], object]]] = [
        (GET, lambda: store.storage.get("a")),
        (LIST, lambda: list(store.storage.list("a"))),
        (PUT, lambda: store.storage.put("a", b"2", create_only=True)),
    ]
    for requests, act in asked:
        Retrier.restore_deadlines()
        with (
            store.failing(requests, always),
            pytest.raises(Unreachable, match="is not the store's"),
        ):
            act()


def test_an_error_in_the_body_of_a_success_is_one(
    s3: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b"<Error><Code>InternalError</Code><Message>Try again.</Message></Error>"
    answer = 200, {"Content-Type": "application/xml", "ETag": '"1"'}, body
    monkeypatch.setattr(proxy_module, "refusal", lambda *_: answer)
    for requests, act in (
        (PUT, lambda: s3.storage.put("a", b"mine", create_only=True)),
        (COMPLETE, lambda: published(s3.storage, "a", b"mine")),
    ):
        with s3.failing(requests, PAGES["page-before"]):
            act()
        assert s3.storage.get("a") == b"mine"
        s3.storage.delete("a")


def test_what_is_said_to_exist_is_looked_for_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []

    def lagging(look: Callable[..., Any]) -> Callable[..., Any]:
        def lag(*about: Any) -> Any:
            looks.append(about)
            if len(looks) < 3:
                raise NotFound("a stale answer")
            return look(*about)

        return lag

    kind = type(store.storage)
    monkeypatch.setattr(kind, "_has_mark", lagging(kind._has_mark))
    with store.failing(PUT, FAULTS["412-after"]):
        store.storage.put("a", b"mine", create_only=True)
    assert len(looks) == 3
    if store.proxy.dialect == "gcs":  # whose sessions tell what became of them
        return
    store.storage.delete("a")
    staged = stage(store.storage, "a", b"mine")
    looks.clear()
    with store.failing(COMPLETE, FAULTS["412-after"]):
        store.storage.publish(staged, "a")
    assert len(looks) == 3


@pytest.mark.parametrize("status", [409, 412])
def test_what_asks_for_no_free_name_is_not_told_of_a_taken_one(
    store: Store, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_client, "_CONTENDED_RETRIES", RetryPolicy(0.1, 0.01, 0.05))
    storage = store.storage
    storage.put("a", b"1")
    monkeypatch.setattr(Connection, "policy_for", lambda *_: RetryPolicy(0.3, 0.01, 0.05))
    refusal = Fault("denied", status=status, times=1 << 30)
    asked: list[tuple[Mapping[str, str], Callable[[], object]]] = [
        (GET, lambda: storage.get("a")),
        (PUT, lambda: storage.put("a", b"2")),
    ]
    if store.proxy.dialect in BEGIN:
        asked.append((BEGIN, lambda: stage(storage, "a", b"2")))
    for requests, act in asked:
        Retrier.restore_deadlines()
        with (
            store.failing(requests, refusal),
            pytest.raises(DestinationError, match=str(status)) as caught,
        ):
            act()
        assert not isinstance(caught.value, ObjectExists)
        assert "exists" not in str(caught.value)


def test_a_conflict_that_passes_is_no_error(s3: Store) -> None:
    with s3.failing(BEGIN, Fault("fought", status=409, times=2)):
        published(s3.storage, "a", b"1")
    assert s3.storage.get("a") == b"1"
