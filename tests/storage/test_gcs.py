"""Google Cloud Storage against fake-gcs-server, and against a stub that fails and denies."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakeport.errors import DestinationError, ObjectExists, PermissionRefused, Unreachable
from lakeport.model import Storage
from lakeport.storage.checks import PROBE_KEY
from lakeport.storage.gcs.client import connect
from lakeport.storage.gcs.settings import GcpSettings
from lakeport.storage.gcs.store import GcsStorage
from lakeport.storage.retry import RetryPolicy
from tests.emulators import FakeGcs, TokenServer
from tests.gcs_stub import GcsStub
from tests.s3_stub import Fault
from tests.storage.behaviours import BEHAVIOURS, hides_its_secrets, keys, published, stage

QUICK = RetryPolicy(deadline=30, initial_delay=0.01, max_delay=0.05)
_prefixes = (f"run/{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGcs]:
    with FakeGcs(tmp_path_factory.mktemp("gcs")) as running:
        running.create_bucket("lake")
        yield running


@pytest.fixture
def stub() -> Iterator[GcsStub]:
    with GcsStub() as running:
        yield running


@pytest.fixture(autouse=True)
def no_credentials_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("GOOGLE_", "GCE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))


def storage_of(endpoint: str, credentials: str = "", prefix: str = "") -> GcsStorage:
    settings = GcpSettings(credentials, endpoint=endpoint, retry_policy=QUICK)
    return GcsStorage("lake", prefix or next(_prefixes), settings)


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda each: each.__name__)
def test_behaviour(server: FakeGcs, behaviour: Callable[[Storage], None]) -> None:
    behaviour(storage_of(server.endpoint))


def test_the_store_begins_a_listing_at_a_key(server: FakeGcs) -> None:
    storage = storage_of(server.endpoint)
    for key in "abc":
        storage.put(key, b"1")
    assert [found.key for found in storage._page("", below=True, after="b").objects] == ["b", "c"]


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda each: each.__name__)
def test_behaviour_on_the_stub(stub: GcsStub, behaviour: Callable[[Storage], None]) -> None:
    behaviour(storage_of(stub.endpoint))


def test_a_service_account_gets_one_token(server: FakeGcs) -> None:
    with TokenServer() as tokens:
        storage = storage_of(server.endpoint, json.dumps(tokens.key()))
        published(storage, "a.csv", b"1")
        assert keys(storage) == ["a.csv"]
        assert tokens.issued == 1
        assert connect(storage.settings).account == tokens.email
        hides_its_secrets(storage, tokens.private_key, tokens.tokens[0])


def test_a_token_is_renewed_before_it_ends(stub: GcsStub) -> None:
    with TokenServer(expires_in=60) as tokens:  # within google-auth's margin of 225 s
        storage = storage_of(stub.endpoint, json.dumps(tokens.key()))
        storage.put("a", b"1")
        storage.put("b", b"1")
        assert tokens.issued == 2
        assert stub.tokens == [f"Bearer {token}" for token in tokens.tokens]


def test_a_refused_key_is_named_and_never_shown(server: FakeGcs) -> None:
    with TokenServer() as tokens, TokenServer() as stranger:
        forged = json.dumps(tokens.key() | {"private_key": stranger.private_key})
        with pytest.raises(PermissionRefused, match="invalid_grant") as caught:
            storage_of(server.endpoint, forged).put("a", b"1")
        assert "PRIVATE KEY" not in str(caught.value)


def test_a_broken_key_is_refused() -> None:
    broken = json.dumps({"type": "service_account", "private_key": "s3cr3t-canary"})
    with pytest.raises(PermissionRefused, match="not a usable key") as caught:
        storage_of("https://127.0.0.1:1", broken).put("a", b"1")
    assert "canary" not in str(caught.value)


def test_a_token_server_that_is_gone_is_not_taken_for_the_store(stub: GcsStub) -> None:
    with TokenServer() as tokens:
        key = tokens.key()
    settings = GcpSettings(
        json.dumps(key), endpoint=stub.endpoint, retry_policy=RetryPolicy(deadline=0.2)
    )
    with pytest.raises(Unreachable, match="the token server http://127") as caught:
        GcsStorage("lake", "", settings).put("a", b"1")
    assert "gs://lake/a" in caught.value.message
    assert "token_uri" in caught.value.hint
    assert stub.endpoint not in str(caught.value)


def test_no_credentials_lists_the_places_searched() -> None:
    with pytest.raises(PermissionRefused, match="no usable Google credentials") as caught:
        storage_of("").put("a", b"1")
    assert "gcloud auth application-default login" in caught.value.hint


def test_creating_objects_is_the_only_permission_needed(stub: GcsStub) -> None:
    stub.denied = {"storage.objects.get", "storage.objects.list", "storage.objects.delete"}
    storage = storage_of(stub.endpoint, prefix="in")
    assert not storage.needs_unique_names()
    published(storage, "t/a.csv", b"x" * (9 << 20))
    storage.put("m.json", b"{}", create_only=True)
    loser = stage(storage, "t/a.csv", b"2")
    with pytest.raises(ObjectExists):
        storage.publish(loser, "t/a.csv")
    storage.discard(loser)
    assert stub.keys() == [f"in/{PROBE_KEY}", "in/m.json", "in/t/a.csv"]
    assert {"get", "list", "delete"}.isdisjoint(set(stub.seen) - {"get"})


@pytest.mark.parametrize(
    ("action", "attempt"),
    [
        ("storage.objects.create", lambda s: s.put("a", b"")),
        ("storage.objects.create", lambda s: stage(s, "a", b"1")),
        ("storage.objects.get", lambda s: s.get("a")),
        ("storage.objects.list", lambda s: list(s.list(""))),
        ("storage.objects.delete", lambda s: s.delete("a")),
    ],
)
def test_a_refusal_names_permission_and_role(
    stub: GcsStub, action: str, attempt: Callable[[Storage], object]
) -> None:
    stub.denied = {action}
    with pytest.raises(PermissionRefused) as caught:
        attempt(storage_of(stub.endpoint))
    assert f"grant {action}" in caught.value.hint
    assert "roles/storage." in caught.value.hint


def test_there_is_no_such_bucket(stub: GcsStub) -> None:
    storage = dataclasses.replace(storage_of(stub.endpoint), bucket="sea")
    with pytest.raises(DestinationError, match="no such bucket: gs://sea"):
        storage.put("a", b"")
    with pytest.raises(DestinationError, match="no such bucket: gs://sea"):
        storage.get("a")


def test_a_storm_of_failures_is_outlived(stub: GcsStub) -> None:
    for on in ("start", "chunk", "finalise", "simple", "get"):
        stub.inject(Fault("status", on=on, status=503), Fault("reset-before", on=on))
        stub.inject(Fault("status", on=on, status=429))
    storage = storage_of(stub.endpoint, prefix="in")
    data = os.urandom(1 << 20) * 18 + b"tail"
    published(storage, "a.bin", data)
    storage.put("b", b"1", create_only=True)
    assert (stub.body("in/a.bin"), stub.body("in/b")) == (data, b"1")
    assert storage.get("b") == b"1"


def test_chunks_that_are_kept_in_part_or_answered_in_vain(stub: GcsStub) -> None:
    stub.keeps = 3 << 20
    stub.inject(Fault("reset-after", on="chunk", times=2), Fault("reset-after", on="chunk", skip=2))
    storage = storage_of(stub.endpoint, prefix="in")
    data = os.urandom(1 << 20) * 17 + b"tail"
    published(storage, "a.bin", data)
    assert stub.body("in/a.bin") == data


def test_a_store_that_keeps_nothing_fails_clean(stub: GcsStub) -> None:
    stub.keeps = 0
    storage = storage_of(stub.endpoint)
    with pytest.raises(DestinationError, match="keeps 0 of"):
        stage(storage, "a.bin", bytes(9 << 20))


def test_a_lost_answer_to_the_last_bytes_is_made_up_for(stub: GcsStub) -> None:
    stub.denied = {"storage.objects.get"}
    storage = storage_of(stub.endpoint, prefix="in")
    staged = stage(storage, "a.csv", b"1")
    stub.inject(Fault("reset-after", on="finalise"))
    storage.publish(staged, "a.csv")
    assert stub.body("in/a.csv") == b"1"


def test_an_outcome_that_can_not_be_told_is_said_to_be(stub: GcsStub) -> None:
    stub.denied = {"storage.objects.get"}
    storage = storage_of(stub.endpoint, prefix="in")
    staged = stage(storage, "a.csv", b"1")
    stub.inject(Fault("reset-after", on="finalise"))
    stub.inject(Fault("status", status=404, on="finalise"), Fault("status", status=404, on="query"))
    with pytest.raises(DestinationError, match="can't be told"):
        storage.publish(staged, "a.csv")


def test_a_lost_answer_to_a_put_is_made_up_for(stub: GcsStub) -> None:
    storage = storage_of(stub.endpoint, prefix="in")
    stub.inject(Fault("reset-after", on="simple"))
    storage.put("a", b"1", create_only=True)
    stub.inject(Fault("reset-after", on="simple"))
    with pytest.raises(ObjectExists):
        storage.put("a", b"2", create_only=True)
    assert stub.body("in/a") == b"1"


def test_a_name_that_is_taken_early_is_told_when_published(stub: GcsStub) -> None:
    stub.eager = True
    storage = storage_of(stub.endpoint, prefix="in")
    published(storage, "a.csv", b"1")
    staged = stage(storage, "a.csv", b"2" * (20 << 20))
    with pytest.raises(ObjectExists):
        storage.publish(staged, "a.csv")
    storage.discard(staged)
    assert stub.body("in/a.csv") == b"1"


def test_a_wrong_checksum_is_an_error(stub: GcsStub) -> None:
    storage = storage_of(stub.endpoint)
    staged = stage(storage, "a.csv", b"1")
    stub.corrupts = True
    with pytest.raises(DestinationError, match="CRC32C"):
        storage.publish(staged, "a.csv")
    changed = dataclasses.replace(staged, token={**staged.token, "crc32c": "AAAAAA=="})
    fresh = stage(storage, "b.csv", b"1")
    changed = dataclasses.replace(fresh, token={**fresh.token, "crc32c": "AAAAAA=="})
    with pytest.raises(DestinationError, match="checksum"):
        storage.publish(changed, "b.csv")


def test_a_session_that_ended_without_the_last_bytes_is_no_success(stub: GcsStub) -> None:
    storage = storage_of(stub.endpoint)
    staged = stage(storage, "a.csv", b"1")
    stub.corrupts = True
    stub.inject(Fault("reset-after", on="finalise"))
    stub.inject(Fault("status", status=412, on="finalise"))
    with pytest.raises(DestinationError, match="CRC32C"):
        storage.publish(staged, "a.csv")


def test_a_store_that_ignores_the_condition_is_found_out(stub: GcsStub) -> None:
    stub.lies = True
    assert storage_of(stub.endpoint).needs_unique_names()
    assert not GcsStorage("lake").needs_unique_names()


def test_nobody_listens_there() -> None:
    with GcsStub() as gone:
        endpoint = gone.endpoint
    settings = GcpSettings("", endpoint=endpoint, retry_policy=RetryPolicy(deadline=0.2))
    with pytest.raises(Unreachable, match="can't be reached") as caught:
        GcsStorage("lake", "", settings).put("a", b"1")
    assert "google_endpoint" in caught.value.hint


def test_the_deadline_ends_a_storm(stub: GcsStub) -> None:
    stub.inject(Fault("status", times=10_000, status=503))
    storage = storage_of(stub.endpoint)
    impatient = dataclasses.replace(storage.settings, retry_policy=RetryPolicy(0.3, 0.05, 0.1))
    with pytest.raises(Unreachable, match="503"):
        dataclasses.replace(storage, settings=impatient).put("a", b"1")


def test_the_project_is_named_where_the_requester_pays(stub: GcsStub) -> None:
    stub.requester_pays = True
    settings = GcpSettings("", endpoint=stub.endpoint, project="payer")
    published(GcsStorage("lake", "in", settings), "a.csv", b"1")
    assert stub.keys() == ["in/a.csv"]
    with pytest.raises(DestinationError, match="requester pays"):
        storage_of(stub.endpoint).put("a", b"1")


def test_the_encryption_key_is_sent(stub: GcsStub) -> None:
    key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
    storage = GcsStorage("lake", "in", GcpSettings("", endpoint=stub.endpoint, kms_key_name=key))
    published(storage, "a.csv", b"1")
    storage.put("b", b"1")
    assert stub.kms == [key, key]
    assert storage.uri("a.csv") == storage.hadoop_uri("a.csv") == "gs://lake/in/a.csv"
