"""The log store for S3, alone, through the real S3A, against a store that fails on demand."""

from __future__ import annotations

import itertools
import re
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import UnsupportedOperationException

from lakeport.engine.spark.jvm.jars import LOG_STORE
from lakeport.engine.spark.settings import session_settings
from tests.s3_stub import BrokenS3, Fault, Kind, Stored

ROOT = Path(__file__).parent.parent.parent
KEY = "lake/t/_delta_log/00000000000000000007.json"
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
STOCK = "io.delta.storage.S3SingleDriverLogStore"
_buckets = (f"bucket{number}" for number in itertools.count())


class Store:
    """A log store on a bucket of a stub."""

    def __init__(self, driver: Any, stub: BrokenS3, name: str = "", **settings: str) -> None:
        self.stub, self.bucket = stub, stub.create_bucket(next(_buckets))
        self.jvm = driver.spark._jvm
        given = {
            "endpoint": stub.endpoint,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "access.key": "stub",
            "secret.key": "stub",
            "attempts.maximum": "2",
            "retry.limit": "2",
            "retry.interval": "10ms",
            "retry.throttle.limit": "2",
            "retry.throttle.interval": "10ms",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        driver.set_hadoop_settings(
            {f"fs.s3a.bucket.{self.bucket}.{k}": v for k, v in given.items()}
        )
        self.conf = driver.spark._jsc.hadoopConfiguration()
        kind = self.jvm.io.lakeport.delta.ConditionalS3LogStore
        self.java = self.jvm.io.delta.storage.S3SingleDriverLogStore if name else kind
        self.java = self.java(self.conf)
        self.path = self.jvm.org.apache.hadoop.fs.Path(f"s3a://{self.bucket}/{KEY}")

    def write(self, *lines: str, overwrite: bool = False) -> None:
        actions = self.jvm.java.util.ArrayList()
        for line in lines:
            actions.add(line)
        self.java.write(self.path, actions.iterator(), overwrite, self.conf)

    def others(self) -> None:
        """Somebody else writes the same version."""
        self.stub.objects[self.bucket, KEY] = Stored(b"theirs", '"etag"', {}, time.time())

    def beaten(self, kind: Kind | None = None, status: int = 503) -> Fault:
        """Have somebody else write the version when our own request for it is on its way."""
        fault = Fault(kind, on="PutObject", key=KEY, status=status, meanwhile=self.others)
        self.stub.inject(fault)
        return fault

    @property
    def last_request(self) -> str:
        """The request that makes a large commit visible: S3A without the option puts it whole."""
        option = "fs.option.create.conditional.overwrite"
        in_parts = self.path.getFileSystem(self.conf).hasPathCapability(self.path, option)
        return "CompleteMultipartUpload" if in_parts else "PutObject"

    @property
    def body(self) -> bytes:
        return self.stub.body(self.bucket, KEY)

    def puts(self) -> list[Any]:
        return [s for s in self.stub.seen if s.operation == "PutObject" and s.key == KEY]


@pytest.fixture
def stub() -> Iterator[BrokenS3]:
    with BrokenS3(honours_conditions=True) as server:
        yield server


@pytest.fixture
def store(driver: Any, stub: BrokenS3) -> Store:
    return Store(driver, stub)


def failure(store: Store, *lines: str) -> tuple[str, str]:
    """Class and message of the Java exception of a write."""
    with pytest.raises(Py4JJavaError) as caught:
        store.write(*(lines or ("mine",)))
    java = caught.value.java_exception
    return str(java.getClass().getName()), str(java.getMessage())


TAKEN = "java.nio.file.FileAlreadyExistsException"


def test_a_commit_is_one_conditional_put_that_carries_its_token(store: Store) -> None:
    store.write('{"a":1}', '{"b":"é"}')
    assert store.body == '{"a":1}\n{"b":"é"}\n'.encode()
    (put,) = store.puts()
    assert put.headers["if-none-match"] == "*"
    assert re.fullmatch(r"[0-9a-f-]{36}", put.headers["x-amz-meta-lakeport-commit"])
    assert store.java.isPartialWriteVisible(store.path, store.conf) is False


def test_a_version_that_exists_is_a_conflict(store: Store) -> None:
    store.write("first")
    assert failure(store)[0] == TAKEN
    assert store.body == b"first\n"


def test_so_is_one_that_another_writer_puts_meanwhile(store: Store) -> None:
    store.beaten()
    assert failure(store)[0] == TAKEN
    assert [put.status for put in store.puts()] == [412]
    assert store.body == b"theirs"


def test_control_the_stock_store_loses_that_commit(driver: Any, stub: BrokenS3) -> None:
    store = Store(driver, stub, STOCK)
    theirs = store.beaten()
    store.write("mine")
    assert (theirs.times, store.body) == (0, b"mine\n")


def test_control_a_store_that_ignores_conditions_loses_it_too(driver: Any) -> None:
    with BrokenS3() as liar:
        store = Store(driver, liar)
        theirs = store.beaten()
        store.write("mine")
        assert (theirs.times, store.body) == (0, b"mine\n")


def test_a_lost_answer_is_found_to_be_a_success(store: Store) -> None:
    store.stub.inject(Fault("reset-after", on="PutObject", key=KEY))
    store.write("mine")
    assert store.body == b"mine\n"
    assert [put.status for put in store.puts()] == [0, 412]


def test_so_is_one_that_is_lost_again_and_again(store: Store) -> None:
    store.stub.inject(Fault("reset-after", on="PutObject", key=KEY, times=99))
    store.write("mine")
    assert store.body == b"mine\n"


def test_a_put_that_never_arrived_is_sent_again(store: Store) -> None:
    store.stub.inject(Fault("reset-before", on="PutObject", key=KEY))
    store.write("mine")
    assert store.body == b"mine\n"


def test_a_conflict_between_two_puts_is_tried_again(store: Store) -> None:
    store.stub.inject(Fault("status", on="PutObject", key=KEY, status=409, times=3))
    store.write("mine")
    assert store.body == b"mine\n"
    assert [put.status for put in store.puts()] == [409, 409, 409, 200]
    assert len({put.headers["x-amz-meta-lakeport-commit"] for put in store.puts()}) == 1


def test_a_conflict_that_another_writer_has_won(store: Store) -> None:
    store.beaten("status", 409)
    assert failure(store)[0] == TAKEN
    assert next(put.status for put in store.puts()) == 409
    assert store.body == b"theirs"


def test_conflicts_without_an_end_are_an_error(store: Store) -> None:
    store.stub.inject(Fault("status", on="PutObject", key=KEY, status=409, times=99))
    kind, words = failure(store)
    assert (kind == TAKEN, "409" in words) == (False, True)
    assert store.stub.keys(store.bucket) == []


@pytest.mark.parametrize("status", [403, 500])
def test_a_refusal_is_an_error_and_no_conflict(store: Store, status: int) -> None:
    store.stub.inject(Fault("status", on="PutObject", key=KEY, status=status, times=99))
    assert failure(store)[0] != TAKEN
    assert store.stub.keys(store.bucket) == []


def test_a_failure_after_which_another_commit_is_there_is_a_conflict(store: Store) -> None:
    store.stub.inject(Fault("status", on="PutObject", key=KEY, status=500, times=99))
    store.others()
    assert failure(store)[0] == TAKEN


def test_an_outcome_that_can_not_be_read_is_said_to_be_unknown(store: Store) -> None:
    store.stub.inject(
        Fault("reset-after", on="PutObject", key=KEY, times=99),
        Fault("status", on="HeadObject", key=KEY, status=403, times=99),
    )
    kind, words = failure(store)
    assert kind == "java.io.IOException"
    assert "outcome of the commit is unknown" in words


def test_overwriting_is_the_stock_stores(store: Store) -> None:
    store.write("first")
    store.write("second", overwrite=True)
    assert store.body == b"second\n"


LARGE = "x" * (6 << 20)


def test_a_large_commit_is_conditional_too(driver: Any, stub: BrokenS3) -> None:
    store = Store(driver, stub, multipart_size="5M")
    store.write(LARGE, LARGE)
    assert len(store.body) == 2 * (len(LARGE) + 1)
    assert failure(store, LARGE, LARGE)[0] == TAKEN
    completed = [s for s in stub.seen if s.operation == store.last_request]
    assert {seen.headers["if-none-match"] for seen in completed} == {"*"}


@pytest.mark.parametrize("kind", ["reset-after", "reset-before", "error-body"])
def test_a_large_commit_survives_what_a_small_one_does(
    driver: Any, stub: BrokenS3, kind: Any
) -> None:
    store = Store(driver, stub, multipart_size="5M")
    if (kind, store.last_request) == ("error-body", "PutObject"):
        pytest.skip("S3 answers no single put so")
    stub.inject(Fault(kind, on=store.last_request, key=KEY))
    store.write(LARGE, LARGE)
    assert len(store.body) == 2 * (len(LARGE) + 1)


@pytest.mark.parametrize(
    "setting",
    [
        {"performance_flags": "create"},
        {"performance_flags": "mkdir, Create"},
        {"performance_flags": "*"},
        {"create_performance": "true"},
    ],
    ids=str,
)
def test_settings_that_overwrite_silently_are_refused(
    driver: Any, stub: BrokenS3, setting: dict[str, str]
) -> None:
    store = Store(driver, stub, **setting)
    kind, words = failure(store)
    assert kind == "java.lang.IllegalStateException"
    assert "lets a commit overwrite another one" in words
    assert stub.keys(store.bucket) == []


def test_other_performance_flags_are_fine(driver: Any, stub: BrokenS3) -> None:
    store = Store(driver, stub, performance_flags="mkdir,delete")
    store.write("mine")
    assert store.body == b"mine\n"


def test_a_file_system_without_conditions_is_refused(store: Store, tmp_path: Path) -> None:
    store.path = store.jvm.org.apache.hadoop.fs.Path((tmp_path / "0.json").as_uri())
    words = r"can't create conditionally .* is of io\.lakeport\.local\.LocalFiles"
    with pytest.raises(UnsupportedOperationException, match=words):
        store.write("mine")


def test_a_store_that_is_said_to_lack_conditions_is_refused(driver: Any, stub: BrokenS3) -> None:
    store = Store(driver, stub, create_conditional_enabled="false")
    with pytest.raises(UnsupportedOperationException, match="can't create conditionally"):
        store.write("mine")
    assert stub.keys(store.bucket) == []


def test_a_commit_is_sealed_and_owned_as_other_objects_are(driver: Any, stub: BrokenS3) -> None:
    settings = {"encryption_algorithm": "AES256", "acl_default": "BucketOwnerFullControl"}
    store = Store(driver, stub, **settings)
    store.write("mine")
    (put,) = store.puts()
    assert put.headers["x-amz-server-side-encryption"] == "AES256"
    assert put.headers["x-amz-acl"] == "bucket-owner-full-control"
    assert put.headers["if-none-match"] == "*"


def test_a_checkpoint_file_is_put_at_once_and_only_if_absent(store: Store) -> None:
    name = session_settings(frozenset({"s3a"}), {}, ROOT)[CHECKPOINT_FILES]
    files = getattr(store.jvm, name)(store.path.getParent(), store.conf)

    def create(text: str, end: str, *, overwrite: bool = False) -> None:
        output = files.createAtomic(store.path, overwrite)
        output.writeBytes(text)
        getattr(output, end)()

    create("none", "cancel")
    create("first", "close")
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        create("second", "close")
    assert store.body == b"first"
    assert {put.headers["if-none-match"] for put in store.puts()} == {"*"}
    create("third", "cancel", overwrite=True)
    assert store.body == b"first"
    create("third", "close", overwrite=True)
    assert store.body == b"third"


def test_commits_are_listed(store: Store) -> None:
    store.write("mine")
    found = store.java.listFrom(store.path, store.conf)
    assert found.hasNext()
    assert found.next().getPath().toString() == f"s3a://{store.bucket}/{KEY}"
    assert not found.hasNext()


def test_the_jar_is_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    import build_jar

    with zipfile.ZipFile(LOG_STORE) as jar:
        assert jar.read(build_jar.FINGERPRINT).decode() == build_jar.fingerprint(), "make jvm"
        assert "io/lakeport/delta/ConditionalS3LogStore.class" in jar.namelist()
