"""S3 storage on a store that fails, loses answers and lies."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from lakeport.errors import DestinationError, ObjectExists, PermissionRefused, Unreachable
from lakeport.storage import retry
from lakeport.storage.checks import PROBE_KEY
from lakeport.storage.retry import RetryPolicy
from lakeport.storage.s3 import client as s3_client
from lakeport.storage.s3.client import connect
from lakeport.storage.s3.errors import NoSuchUpload
from lakeport.storage.s3.settings import AwsSettings
from lakeport.storage.s3.store import S3Storage
from tests.s3_stub import BrokenS3, Fault
from tests.storage.behaviours import published, stage

QUICK = RetryPolicy(deadline=30, initial_delay=0.01, max_delay=0.05)
COMPLETE = "CompleteMultipartUpload"


@pytest.fixture
def stub() -> Iterator[BrokenS3]:
    with BrokenS3(honours_conditions=True) as store:
        store.create_bucket("lake")
        yield store


def storage_of(store: BrokenS3, retry_policy: RetryPolicy = QUICK) -> S3Storage:
    settings = AwsSettings("stub", "stub", endpoint=store.endpoint, retry_policy=retry_policy)
    return S3Storage("lake", "in", settings)


def test_a_storm_of_failures_is_outlived(stub: BrokenS3) -> None:
    storage = storage_of(stub)
    chance = random.Random(3)
    storm = [
        Fault(kind, on=on, status=chance.choice([500, 503, 429]), skip=chance.randrange(2))
        for on in ("CreateMultipartUpload", "UploadPart", COMPLETE, "PutObject")
        for kind in ("status", "reset-before", "status")
    ]
    stub.inject(*storm)
    data = b"x" * (20 << 20)
    published(storage, "a.csv", data)
    storage.put("b", b"1", create_only=True)
    assert stub.body("lake", "in/a.csv") == data
    assert stub.body("lake", "in/b") == b"1"


@pytest.mark.parametrize("kind", ["reset-before", "status"])
def test_reading_and_listing_are_repeated(stub: BrokenS3, kind: str) -> None:
    storage = storage_of(stub)
    storage.put("a/1", b"12345")
    for operation in ("GetObject", "HeadObject", "ListObjects", "DeleteObject"):
        stub.inject(Fault(kind, on=operation))  # type: ignore[arg-type]
    assert storage.get("a/1") == b"12345"
    assert storage.open("a/1").read() == b"12345"
    assert [o.key for o in storage.list("a")] == ["a/1"]
    storage.delete("a/1")
    assert stub.keys("lake") == []


class Clock:
    """Stands for the module `time`: it moves when somebody sleeps, and only then."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_the_deadline_is_one_for_all(stub: BrokenS3, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(retry, "time", clock)
    monkeypatch.setattr(retry, "pause", clock.sleep)
    storage = storage_of(stub, RetryPolicy(deadline=0.5, initial_delay=0.05, max_delay=0.1))
    storage.put("a", b"1")
    stub.inject(Fault("status", times=10_000, status=503))
    with pytest.raises(Unreachable, match=r"kept answering 503 SlowDown for 0\.[45] s"):
        storage.put("b", b"1")
    assert 5 < stub.count("PutObject") < 60


def test_nobody_listens_there() -> None:
    with BrokenS3() as gone:
        endpoint = gone.endpoint
    settings = AwsSettings("k", "s", endpoint=endpoint, retry_policy=RetryPolicy(deadline=0.2))
    with pytest.raises(Unreachable, match="can't be reached") as caught:
        S3Storage("lake", "", settings).put("a", b"1")
    assert "aws_endpoint" in caught.value.hint


@pytest.mark.parametrize("kind", ["reset-after", "error-body"])
def test_a_lost_answer_to_the_completion_is_made_up_for(stub: BrokenS3, kind: str) -> None:
    storage = storage_of(stub)
    staged = stage(storage, "a.csv", b"1")
    stub.inject(Fault(kind, on=COMPLETE, status=500))  # type: ignore[arg-type]
    storage.publish(staged, "a.csv")
    assert stub.body("lake", "in/a.csv") == b"1"
    assert stub.count(COMPLETE) == 2


@pytest.mark.parametrize("won", [True, False])
def test_a_lost_answer_without_permission_to_read(stub: BrokenS3, won: bool) -> None:
    storage = storage_of(stub)
    staged = stage(storage, "a.csv", b"mine")
    if not won:
        published(storage, "a.csv", b"theirs")
    stub.inject(Fault("reset-after" if won else "status", on=COMPLETE, status=500))
    stub.inject(Fault("status", on="HeadObject", status=403, times=9))
    if won:
        storage.publish(staged, "a.csv")
    else:
        with pytest.raises(ObjectExists):
            storage.publish(staged, "a.csv")
    assert stub.body("lake", "in/a.csv") == (b"mine" if won else b"theirs")


def test_a_lost_answer_to_a_put_is_made_up_for(stub: BrokenS3) -> None:
    storage = storage_of(stub)
    stub.inject(Fault("reset-after", on="PutObject"))
    storage.put("a", b"1", create_only=True)
    stub.inject(Fault("reset-after", on="PutObject"))
    with pytest.raises(ObjectExists):
        storage.put("a", b"2", create_only=True)
    assert stub.body("lake", "in/a") == b"1"


def test_a_conflict_is_repeated_and_then_counts_as_taken(stub: BrokenS3) -> None:
    storage = storage_of(stub)
    stub.inject(Fault("status", on=COMPLETE, status=409, times=2))
    published(storage, "a.csv", b"1")
    assert stub.count(COMPLETE) == 3
    stub.inject(Fault("status", on=COMPLETE, status=409))
    stub.inject(Fault("status", on=COMPLETE, status=404, code="NoSuchUpload"))
    staged = stage(storage, "b.csv", b"1")
    with pytest.raises(ObjectExists):
        storage.publish(staged, "b.csv")


def test_an_upload_that_is_gone_is_no_success(stub: BrokenS3) -> None:
    storage = storage_of(stub)
    staged = stage(storage, "a.csv", b"1")
    storage.discard(staged)
    with pytest.raises(NoSuchUpload, match="staged is gone"):
        storage.publish(staged, "a.csv")
    assert stub.keys("lake") == []


def test_a_part_that_fails_for_good_comes_out_of_write_or_finish(stub: BrokenS3) -> None:
    storage = storage_of(stub)
    stub.inject(Fault("status", on="UploadPart", status=403, times=99))
    writer = storage.stage("a.csv", "text/csv")
    with pytest.raises(DestinationError, match="s3:PutObject was refused"):
        for _ in range(10):
            writer.write(b"x" * (16 << 20))
        writer.finish()
    writer.abort()
    assert not stub.uploads


def test_an_abort_that_is_refused_is_swallowed(stub: BrokenS3) -> None:
    storage = storage_of(stub)
    stub.inject(Fault("status", on="AbortMultipartUpload", status=403, times=9))
    storage.discard(stage(storage, "a.csv", b"1"))
    assert len(stub.uploads) == 1


def test_no_more_than_three_parts_are_in_memory(stub: BrokenS3) -> None:
    storage = storage_of(stub)
    stub.inject(Fault(delay=0.4, on="UploadPart", times=99))
    writer = storage.stage("a.bin", "text/csv")
    sent = []
    for _ in range(6):
        writer.write(bytes(16 << 20))
        sent.append(stub.count("UploadPart"))
    writer.finish()
    assert all(number + 1 - done <= 3 for number, done in enumerate(sent))


def test_an_object_replaced_while_it_is_read_is_an_error(stub: BrokenS3) -> None:
    storage = storage_of(stub)
    storage.put("a", b"1" * (3 << 20))
    file = storage.open("a")
    file.read(10)
    stub.inject(Fault("status", on="GetObject", status=412, code="PreconditionFailed"))
    with pytest.raises(DestinationError, match="was replaced while it was read"):
        file.read(3 << 20)


def test_a_store_that_ignores_the_condition_is_found_out() -> None:
    with BrokenS3() as liar:
        liar.create_bucket("lake")
        assert storage_of(liar).needs_unique_names()
        assert liar.keys("lake") == [f"in/{PROBE_KEY}"]


def test_a_store_that_ignores_it_on_completion_only_is_found_out(
    stub: BrokenS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = storage_of(stub)
    original = BrokenS3._refused

    def refused(store: BrokenS3, request: object) -> object:
        return None if getattr(request, "command", "") == "POST" else original(store, request)  # type: ignore[arg-type]

    monkeypatch.setattr(BrokenS3, "_refused", refused)
    assert storage.needs_unique_names()


def test_a_store_that_knows_no_condition_at_all_is_not_sent_one(stub: BrokenS3) -> None:
    stub.inject(Fault("status", on="PutObject", status=501, code="NotImplemented"))
    storage = storage_of(stub)
    assert storage.needs_unique_names()
    published(storage, "a.csv", b"1")
    last = next(seen for seen in reversed(stub.seen) if seen.operation == COMPLETE)
    assert "if-none-match" not in last.headers


def test_a_request_that_the_store_does_not_know_for_another_reason(stub: BrokenS3) -> None:
    stub.inject(Fault("status", on="PutObject", status=501, code="NotImplemented", times=2))
    with pytest.raises(DestinationError, match="does not know a part"):
        storage_of(stub).needs_unique_names()


def test_an_upload_that_can_not_begin_is_asked_for_once(stub: BrokenS3) -> None:
    stub.inject(Fault("status", on="CreateMultipartUpload", status=403, times=99))
    writer = storage_of(stub).stage("a.csv", "text/csv")
    with pytest.raises(PermissionRefused):
        for _ in range(5):
            writer.write(b"x" * (16 << 20))
        writer.finish()
    writer.abort()
    assert stub.count("CreateMultipartUpload") == 1


def test_the_probe_leaves_one_object_and_runs_once(stub: BrokenS3) -> None:
    storage = storage_of(stub)
    assert not storage.needs_unique_names()
    requests = len(stub.seen)
    assert not storage.needs_unique_names()
    assert (len(stub.seen), stub.keys("lake")) == (requests, [f"in/{PROBE_KEY}"])
    assert not stub.uploads


def test_aws_is_not_probed() -> None:
    assert not S3Storage("lake", "", AwsSettings()).needs_unique_names()


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "RequestTimeTooSkewed", "clock"),
        (400, "ExpiredToken", "has expired"),
        (301, "PermanentRedirect", "`aws_endpoint` for AWS"),
        (400, "BadDigest", "proxy"),
        (404, "NoSuchBucket", "never creates"),
    ],
)
def test_answers_that_no_retry_helps(stub: BrokenS3, status: int, code: str, words: str) -> None:
    storage = storage_of(stub)
    stub.inject(Fault("status", status=status, code=code, times=5))
    with pytest.raises(DestinationError) as caught:
        storage.put("a", b"1")
    assert words in str(caught.value)
    assert stub.count("PutObject") == 1


def test_credentials_of_the_chain_are_fetched_anew_once_when_expired(
    stub: BrokenS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "old")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "old")
    storage = S3Storage("lake", "in", AwsSettings(endpoint=stub.endpoint, retry_policy=QUICK))
    storage.put("a", b"1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "new")
    stub.inject(Fault("status", status=400, code="ExpiredToken"))
    storage.put("b", b"1")
    assert "Credential=new/" in stub.seen[-1].headers["authorization"]
    stub.inject(Fault("status", status=400, code="ExpiredToken", times=2))
    with pytest.raises(PermissionRefused, match="expired"):
        storage.put("c", b"1")


def test_a_forked_process_makes_its_own_connections(stub: BrokenS3) -> None:
    storage = storage_of(stub)
    storage.put("a", b"1")
    before = connect(storage.settings)
    s3_client.connect.reset()
    assert connect(storage.settings) is not before
    storage.put("b", b"1")
    assert stub.keys("lake") == ["in/a", "in/b"]
