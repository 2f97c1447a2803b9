"""Delta tables on S3: landing, two writers, other writers, and stores that can't hold tables."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeport
from lakeport.config.destinations.s3 import DeltaLakeS3Config
from lakeport.config.load import load_target
from lakeport.engine.failures import translate_errors
from lakeport.engine.spark.filesystems import configure_store
from lakeport.errors import ConfigError, DestinationError, PermissionRefused, SourceError
from tests.echo_store import EchoStore
from tests.emulators import Minio, s3_config
from tests.s3_stub import BrokenS3, Fault
from tests.spark import canary
from tests.spark.race_worker import SELDOM

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    with Minio(tmp_path_factory.mktemp("minio")) as server:
        server.create_bucket("lake")
        yield server


def keys(store: Any, bucket: str = "lake", **more: Any) -> dict[str, Any]:
    return {
        "destination": "delta_lake_s3",
        "bucket": bucket,
        "object_key_path": "lake",
        **s3_config(store),
        "aws_region": "us-east-1",
        **more,
    }


def options(store: Any) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": store.access_key,
        "AWS_SECRET_ACCESS_KEY": store.secret_key,
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


def opened(store: Any, table: str, bucket: str = "lake") -> DeltaTable:
    return DeltaTable(f"s3://{bucket}/lake/{table}", storage_options=options(store))


def ids(store: Any, table: str, bucket: str = "lake") -> list[int]:
    return sorted(opened(store, table, bucket).to_pyarrow_table().column("id").to_pylist())


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": list(numbers), "day": [f"d{number % 3}" for number in numbers]})


def commits(store: Any, table: str, bucket: str = "lake") -> list[int]:
    """The versions that have a commit file."""
    found = store.client().list_objects_v2(Bucket=bucket, Prefix=f"lake/{table}/_delta_log/0")
    names = [row["Key"].rsplit("/", 1)[1] for row in found["Contents"]]
    return [int(name[:20]) for name in names if name.endswith(".json") and len(name) == 25]


@pytest.fixture(autouse=True)
def with_spark(driver: Any) -> None:
    """One session for the module; `land` takes it up."""


def test_a_query_joins_a_bucket_s_tables(minio: Minio) -> None:
    lakeport.land(rows(1, 2), keys(minio, table="few"), internal_columns=False)
    lakeport.land(rows(2, 3), keys(minio, table="gold/more"), internal_columns=False)
    of_files = {**keys(minio), "destination": "amazon_s3", "file_type": "parquet"}
    lakeport.land(rows(2, 4), {**of_files, "table": "files"}, internal_columns=False)
    sql = "SELECT id FROM few JOIN `gold/more` USING (id) JOIN files USING (id)"
    address = {**s3_config(minio), "aws_region": "us-east-1"}
    for to, more in ((keys(minio), {}), (of_files, {}), ("s3://lake/lake", address)):
        assert lakeport.sql(to, sql, **more).to_pylist() == [{"id": 2}]
    with pytest.raises(SourceError, match=r"in s3://lake/lake.*; did you mean `gold/more`") as told:
        lakeport.sql(keys(minio), "TABLE more")
    assert "few" in told.value.hint


def test_append_and_overwrite_are_one_commit_each(minio: Minio) -> None:
    config = keys(minio, table="t")
    first = lakeport.land(rows(1, 2), config, partition_keys=["day"])
    assert (first.rows, ids(minio, "t")) == (2, [1, 2])
    lakeport.land(rows(3), config, partition_keys=["day"])
    assert ids(minio, "t") == [1, 2, 3]
    lakeport.land(rows(4), config, partition_keys=["day"], mode="overwrite")
    assert ids(minio, "t") == [2, 3, 4]
    assert commits(minio, "t") == [0, 1, 2]
    lakeport.land(rows(9), keys(minio, table="t_events"))
    assert ids(minio, "t") == [2, 3, 4]


@pytest.mark.soak
def test_a_repeated_run_adds_nothing_twice(minio: Minio) -> None:
    config = keys(minio, table="repeated", run_id="r1")
    lakeport.land(rows(1, 2), config)
    again = lakeport.land(rows(1, 2), config)
    assert again.rows == 0
    assert ids(minio, "repeated") == [1, 2]
    assert commits(minio, "repeated") == [0]


@pytest.mark.soak
def test_what_is_ours_lies_beside_the_tables(minio: Minio) -> None:
    lakeport.land(rows(1), keys(minio, table="clean"))
    found = minio.client().list_objects_v2(Bucket="lake", Prefix="lake/clean/")["Contents"]
    names = [row["Key"] for row in found]
    assert all("/_delta_log/" in name or name.endswith(".parquet") for name in names)


@pytest.mark.soak
def test_committed_versions_never_change(minio: Minio) -> None:
    config = keys(minio, table="fixed")
    lakeport.land(rows(1), config)
    name = {"Bucket": "lake", "Key": "lake/fixed/_delta_log/00000000000000000000.json"}
    before = minio.client().get_object(**name)["Body"].read()
    lakeport.land(rows(2), config, mode="overwrite")
    assert minio.client().get_object(**name)["Body"].read() == before
    old = DeltaTable("s3://lake/lake/fixed", version=0, storage_options=options(minio))
    assert old.to_pyarrow_table().column("id").to_pylist() == [1]


def test_other_credentials_for_the_same_bucket_are_used_at_once(minio: Minio) -> None:
    lakeport.land(rows(1), keys(minio, table="whose"))
    allowed = ["s3:PutObject", "s3:GetObject", "s3:ListBucket"]  # the page's smallest policy
    place = ["arn:aws:s3:::lake", "arn:aws:s3:::lake/lake/whose/*", "arn:aws:s3:::lake/lake/_*"]
    rule = {"Effect": "Allow", "Action": allowed, "Resource": place}
    other = minio.restricted({"Version": "2012-10-17", "Statement": [rule]})
    config = keys(
        minio,
        aws_access_key_id=other.access_key,
        aws_secret_access_key=other.secret_key,
        aws_session_token=other.token,
    )
    lakeport.land(rows(2), config, table="whose")
    assert ids(minio, "whose") == [1, 2]
    lakeport.land(rows(2), config, table="whose", mode="overwrite")
    lakeport.land(rows(1), config, table="whose")
    with pytest.raises(PermissionRefused):
        lakeport.land(rows(2), config, table="forbidden")
    lakeport.land(rows(3), keys(minio, table="whose"))
    assert ids(minio, "whose") == [1, 2, 3]


@pytest.mark.soak
def test_keys_of_a_profile_reach_spark_and_are_renewed(
    minio: Minio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place for keys that Spark's own client does not look at, as it does not at SSO."""
    given = tmp_path / "keys.json"
    (tmp_path / "config").write_text(f"[profile driver]\ncredential_process = cat {given}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "absent"))
    own = ("aws_access_key_id", "aws_secret_access_key")
    config = {name: value for name, value in keys(minio).items() if name not in own}
    config |= {"table": "handed", "aws_profile": "driver"}
    rule = {"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]}
    for number in (1, 2):  # other keys each time: those before were about to expire
        session = minio.restricted({"Version": "2012-10-17", "Statement": [rule]})
        give(given, session.access_key, session.secret_key, session.token)
        lakeport.land(rows(number), config)
    give(given, minio.access_key, minio.secret_key)
    lakeport.land(rows(3), config, role_arn="arn:aws:iam::123456789012:role/loader")
    assert ids(minio, "handed") == [1, 2, 3]
    table = lakeport.Table("handed", config)
    assert table.query("select max(id) m from t").to_pylist() == [{"m": 3}]


def give(file: Path, access: str, secret: str, token: str | None = None) -> None:
    """Write keys as a `credential_process` prints them, for less than botocore's ten minutes.

    It renews such keys before each use, and has nothing to use when they are over.
    """
    end = (datetime.now(UTC) + timedelta(minutes=9)).isoformat()
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
    told = dict(zip(names, (access, secret, token, end), strict=True))
    file.write_text(json.dumps({"Version": 1, **{k: v for k, v in told.items() if v}}))


def test_a_role_and_encryption_hold_for_every_object(minio: Minio) -> None:
    role = "arn:aws:iam::123456789012:role/loader"
    sealed = {"role_arn": role, "sse": "aws:kms", "sse_kms_key_id": minio.kms_key}
    lakeport.land(rows(1), keys(minio, table="sealed", **sealed))
    lakeport.land(rows(2), keys(minio, table="sealed", **sealed))
    assert ids(minio, "sealed") == [1, 2]
    found = minio.client().list_objects_v2(Bucket="lake", Prefix="lake/sealed/")["Contents"]
    heads = [minio.client().head_object(Bucket="lake", Key=row["Key"]) for row in found]
    assert len(heads) >= 4
    assert {head["ServerSideEncryption"] for head in heads} == {"aws:kms"}
    assert {head["SSEKMSKeyId"].rpartition(":")[2] for head in heads} == {minio.kms_key}
    wrong = keys(minio, table="sealed", role_arn=role, aws_secret_access_key="not-the-secret")
    with pytest.raises(PermissionRefused, match="can't be assumed"):
        lakeport.land(rows(3), wrong)


def test_wrong_credentials_are_named_and_never_shown(minio: Minio) -> None:
    wrong = "wrong-secret-canary-of-the-key"
    with pytest.raises(DestinationError) as caught:
        lakeport.land(rows(1), keys(minio, table="wrong", aws_secret_access_key=wrong))
    assert wrong not in str(caught.value) + repr(caught.value.__cause__)


@pytest.mark.soak
def test_there_is_no_such_bucket(minio: Minio) -> None:
    with pytest.raises(DestinationError, match="lagoon"):
        lakeport.land(rows(1), keys(minio, "lagoon", table="t"))


def test_a_store_that_ignores_conditions_can_not_hold_tables() -> None:
    with BrokenS3() as liar:
        liar.create_bucket("liar")
        with pytest.raises(DestinationError, match="ignores If-None-Match") as caught:
            lakeport.land(rows(1), keys(liar, "liar", table="t"))
        assert "amazon_s3" in caught.value.hint
        assert not any("_delta_log" in key for key in liar.keys("liar"))


def test_a_lost_answer_to_the_commit_lands_once() -> None:
    with BrokenS3(honours_conditions=True) as stub:
        stub.create_bucket("lossy")
        config = keys(stub, "lossy", table="t")
        lakeport.land(rows(1), config)
        stub.inject(Fault("reset-after", on="PutObject", key="00000000000000000001.json"))
        assert lakeport.land(rows(2), config).rows == 1
        assert ids(stub, "t", "lossy") == [1, 2]
        assert commits(stub, "t", "lossy") == [0, 1]


def test_settings_that_overwrite_silently_are_refused_before_anything_is_written(
    minio: Minio, driver: Any
) -> None:
    bucket = minio.create_bucket("fast")
    driver.set_hadoop_settings({f"fs.s3a.bucket.{bucket}.performance.flags": "mkdir, create"})
    with pytest.raises(ConfigError, match="lets a commit overwrite another"):
        properties = {"delta.appendOnly": "true"}  # so that delta-spark commits
        lakeport.land(rows(1), keys(minio, bucket, table="t", table_properties=properties))
    found = minio.client().list_objects_v2(Bucket=bucket).get("Contents", [])
    assert not [row for row in found if not row["Key"].startswith("lake/_lakeport/")]


class Writers:
    """Two processes with a JVM each."""

    def __init__(self) -> None:
        variables = {**os.environ, "LAKEPORT_CDS": "use"}
        variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.spark.race_worker"],
                cwd=ROOT,
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for process in self.processes:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline()) == "ready"
        self.busy: set[int] = set()

    def begin(self, number: int, **task: Any) -> None:
        pipe = self.processes[number].stdin
        assert pipe is not None
        print(json.dumps(task), file=pipe, flush=True)
        self.busy.add(number)

    def end(self, number: int) -> dict[str, Any]:
        pipe = self.processes[number].stdout
        assert pipe is not None
        told = dict(json.loads(pipe.readline()))
        self.busy.remove(number)
        return told

    def race(self, store: Any, scheme: str, bucket: str, count: int, folder: str) -> Any:
        common = {
            "endpoint": store.endpoint,
            "keys": [store.access_key, store.secret_key],
            "bucket": bucket,
            "table": f"race_{scheme}",
            "scheme": scheme,
            "meet": folder,
        }
        for number in range(2):
            self.begin(number, **common, first=number * 1000, count=count)
        return [self.end(number) for number in range(2)]


@pytest.fixture(scope="module")
def two_processes() -> Iterator[Writers]:
    pair = Writers()
    yield pair
    for process in pair.processes:
        process.communicate(timeout=60)


@pytest.fixture
def writers(two_processes: Writers) -> Iterator[Writers]:
    """The processes; a test that fails leaves no answer of theirs to the next one."""
    yield two_processes
    for number in list(two_processes.busy):
        two_processes.end(number)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_two_processes_lose_nothing(minio: Minio, writers: Writers) -> None:
    count = 100
    first, second = writers.race(minio, "s3a", "lake", count, "")
    assert first["errors"] + second["errors"] == []
    assert ids(minio, "race_s3a") == sorted(first["done"] + second["done"])
    assert len(first["done"] + second["done"]) == 2 * count
    assert commits(minio, "race_s3a") == list(range(2 * count))


@pytest.mark.soak
def test_overwrites_and_schema_changes_that_meet_come_one_after_the_other(
    minio: Minio, writers: Writers, tmp_path: Path
) -> None:
    lakeport.land(pa.table({"id": [5000]}), keys(minio, table="met", internal_columns=False))
    store = {"endpoint": minio.endpoint, "keys": [minio.access_key, minio.secret_key]}
    task = {**store, "bucket": "lake", "table": "met", "scheme": "s3a", "count": 2}
    for what in ({"mode": "overwrite"}, {}):
        folder = tmp_path / str(len(what))
        for number, column in enumerate("ab"):
            more = what or {"column": column}
            writers.begin(number, **task, **more, meet=str(folder), first=number * 10)
        told = [writers.end(number) for number in range(2)]
        assert told[0]["errors"] + told[1]["errors"] == []
        assert sorted(told[0]["done"] + told[1]["done"]) == [0, 1, 10, 11]
    assert commits(minio, "met") == list(range(9))
    for version in range(1, 5):  # each overwrite has replaced everything before it
        place, access = "s3://lake/lake/met", options(minio)
        old = DeltaTable(place, version=version, storage_options=access).to_pyarrow_table()
        assert old.num_rows == 1
    last = opened(minio, "met").to_pyarrow_table().to_pylist()
    assert len(last) == 5
    assert {(row["id"] // 10, row["a"], row["b"]) for row in last[-5:] if row["a"] or row["b"]} == {
        (0, "x", None),
        (1, None, "x"),
    }


MERGE = {"mode": "merge", "ids": [0, 1, 6, 7]}
RACES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "append": ({**MERGE, "first": 100, "count": 3}, {"first": 1000, "count": 3}),
    "same keys": (
        {**MERGE, "first": 200, "count": 2, "fresh": 2000},
        {**MERGE, "first": 300, "count": 2, "fresh": 2000},
    ),
    "new keys": (
        {"mode": "merge", "first": 400, "count": 2, "fresh": 3000},
        {"mode": "merge", "first": 500, "count": 2, "fresh": 3000},
    ),
    "optimize inside": (
        {**MERGE, "first": 600, "count": 1, "inside": True},
        {"mode": "optimize", "first": 0, "count": 1, "inside": True},
    ),
    "optimize": ({**MERGE, "first": 700, "count": 4}, {"mode": "optimize", "first": 0, "count": 2}),
}
BY_CHANCE = "optimize"
"""The race whose two do not wait for each other."""
SHARE = ("same keys",)
"""The races of `make test`."""


def effects(task: dict[str, Any]) -> Iterator[dict[int, int | None]]:
    """Each commit's rows, value by id."""
    for ordinal in range(task["count"]):
        number = task["first"] + ordinal
        if task.get("mode") == "merge":
            fresh = [task["fresh"] + ordinal] if "fresh" in task else []
            yield dict.fromkeys([*task.get("ids", []), *fresh], number)
        elif "mode" not in task:
            yield {number: None}


def test_merges_that_meet_other_changes_come_one_after_the_other(
    minio: Minio, writers: Writers, tmp_path: Path, soak: bool
) -> None:
    races = {name: RACES[name] for name in (RACES if soak else SHARE)}
    seed = pa.table({"id": range(8), "value": [-1] * 8})
    for start in (0, 4):  # two files, so that there is something to optimize
        lakeport.land(seed.slice(start, 4), keys(minio, table="merged", internal_columns=False))
    store = {"endpoint": minio.endpoint, "keys": [minio.access_key, minio.secret_key]}
    common = {**store, "bucket": "lake", "table": "merged", "scheme": "s3a"}
    for name, tasks in races.items():
        meet = "" if name == BY_CHANCE else str(tmp_path / name)
        for number, task in enumerate(tasks):
            writers.begin(number, **common, **task, meet=meet)
        told = [writers.end(number) for number in range(2)]
        for task, one in zip(tasks, told, strict=True):
            lost = [text for text in one["errors"] if not text.startswith("CommitConflict: ")]
            assert lost == [], name
            assert len(one["done"]) == task["count"] or task["mode"] == "optimize", name
    versions = commits(minio, "merged")
    assert versions == list(range(len(versions)))
    wanted = [effect for tasks in races.values() for task in tasks for effect in effects(task)]
    seen: dict[int, int | None] = dict.fromkeys(range(8), -1)
    for version in versions[1:]:
        place, access = "s3://lake/lake/merged", options(minio)
        table = DeltaTable(place, version=version, storage_options=access).to_pyarrow_table()
        rows = {row["id"]: row["value"] for row in table.to_pylist()}
        assert len(table) == len(rows)
        assert rows.keys() >= seen.keys()
        made = {id_: value for id_, value in rows.items() if seen.get(id_, 0) != value}
        if version > 1 and made:  # nothing is made by OPTIMIZE
            wanted.remove(made)
        seen = rows
    assert wanted == []


@pytest.mark.parametrize(
    ("scheme", "loses"), [("s3a", False), pytest.param("s3", True, marks=pytest.mark.soak)]
)
def test_commits_of_one_version_at_once(writers: Writers, scheme: str, loses: bool) -> None:
    """The control: where both writers put the same version, the stock store (`s3`) loses one."""
    with BrokenS3(honours_conditions=True) as stub, tempfile.TemporaryDirectory() as folder:
        bucket = stub.create_bucket(f"control-{scheme}")
        first = keys(stub, bucket, table=f"race_{scheme}", internal_columns=False)
        lakeport.land(pa.table({"id": [5000]}), first)
        stub.inject(Fault(on="PutObject", key=".json", meet=30, times=2))
        told = writers.race(stub, scheme, bucket, 1, folder)
        done = sorted([5000, *told[0]["done"], *told[1]["done"]])
        assert len(done) == 3
        assert (ids(stub, f"race_{scheme}", bucket) != done) is loses
        versions = commits(stub, f"race_{scheme}", bucket)
        assert versions == list(range(len(versions)))
        assert (len(versions) < 3) is loses


@pytest.mark.soak
def test_beside_delta_rs_nothing_is_lost(minio: Minio, writers: Writers) -> None:
    table = "beside"
    # The writer below sets this property. If it did so on a table that is there, that would be a
    # change of metadata, before which an append of delta-rs that has begun gives up.
    config = keys(minio, table=table, internal_columns=False, table_properties=SELDOM)
    lakeport.land(pa.table({"id": [5000]}), config)
    writers.begin(
        0,
        endpoint=minio.endpoint,
        keys=[minio.access_key, minio.secret_key],
        bucket="lake",
        table=table,
        scheme="s3a",
        meet="",
        first=0,
        count=10,
    )
    for number in range(100, 120):
        write_deltalake(
            f"s3://lake/lake/{table}",
            pa.table({"id": [number]}),
            mode="append",
            storage_options=options(minio),
        )
    told = writers.end(0)
    assert told["errors"] == []
    assert ids(minio, table) == sorted([5000, *told["done"], *range(100, 120)])
    assert commits(minio, table) == list(range(31))


def test_what_a_store_quotes_of_a_request_is_in_no_traceback(driver: Any) -> None:
    token = "canary/of-the-" + "session+token=="
    with EchoStore() as store:
        config = {
            "destination": "delta_lake_s3",
            "bucket": "echo",
            "aws_endpoint": store.endpoint,
            "aws_access_key_id": "AKIA" + "CANARY0123456789",
            "aws_secret_access_key": "secret",
            "aws_session_token": token,
        }
        target = load_target(config)
        assert isinstance(target, DeltaLakeS3Config)
        configure_store(driver, "s3a://echo", target.storage().hadoop_settings())
        hadoop = driver.context._jvm.org.apache.hadoop.fs
        folder = hadoop.Path("s3a://echo/a")
        with pytest.raises(PermissionRefused) as caught, translate_errors(driver.secrets):
            folder.getFileSystem(driver.context._jsc.hadoopConfiguration()).listStatus(folder)
    told = "".join(traceback.format_exception(caught.value))
    assert "X-Amz-Security-Token" in told
    assert canary.leaks(told, [token, config["aws_access_key_id"]]) == []


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("this machine", marks=pytest.mark.soak),
        pytest.param("another bucket", marks=pytest.mark.soak),
        "another table",
    ],
)
def test_a_log_leads_to_no_other_place(place: str, minio: Minio, tmp_path: Path) -> None:
    """Whatever a table's log names elsewhere: Spark reads none of it."""
    client, name = minio.client(), place.replace(" ", "_")
    bucket = minio.create_bucket(name.replace("_", "-"))
    secret = tmp_path / "secret.parquet"
    pq.write_table(pa.table({"id": [666]}), secret)
    for where, key in ((bucket, "secret.parquet"), ("lake", "attacked/other/secret.parquet")):
        client.put_object(Bucket=where, Key=key, Body=secret.read_bytes())
    paths = {
        "this machine": secret.as_uri(),
        "another bucket": f"s3a://{bucket}/secret.parquet",
        "another table": "..%2Fother/secret.parquet",
    }
    home = keys(minio, object_key_path="attacked", internal_columns=False)
    lakeport.land([{"id": 1}], home, table=name)
    add = {"path": paths[place], "partitionValues": {}, "size": secret.stat().st_size}
    action = {"add": {**add, "modificationTime": 1, "dataChange": True}}
    log = f"attacked/{name}/_delta_log/{1:020d}.json"
    client.put_object(Bucket="lake", Key=log, Body=json.dumps(action).encode())
    uri, shop = f"s3://lake/attacked/{name}", tmp_path / "shop.db"
    with closing(sqlite3.connect(shop)) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    gone = lakeport.DatabaseSource(database=f"sqlite:///{shop}", table="t", deletes="compare")
    table = lakeport.Table(name, home)
    for road in (
        lambda: lakeport.land(lakeport.TablesSource(tables=uri), home, table="copy"),
        lambda: lakeport.land(gone, home, table=name, mode="merge"),
        lambda: table.query("SELECT * FROM t"),
        table.vacuum,
    ):
        with pytest.raises(SourceError, match="not in the table's folder"):
            road()
