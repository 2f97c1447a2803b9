"""What one run through a warm session has is its own: keys, Spark, and the right to be there."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from lakeport.host.warm.channel import Channel, connect
from tests.emulators import Keys, Minio
from tests.faults.kit import BY_SPARK, PATIENCE, Lake, Outcome, environment, users
from tests.warm.kit import Warm, land

ROWS = 20


def given_keys(keys: Keys) -> dict[str, str]:
    """Keys as the AWS SDKs find them in the environment."""
    return {
        "AWS_ACCESS_KEY_ID": keys.access_key,
        "AWS_SECRET_ACCESS_KEY": keys.secret_key,
        "AWS_SESSION_TOKEN": keys.token,
    }


@pytest.fixture(scope="module")
def bucket(minio: Minio) -> str:
    """A bucket with two folders that have keys each."""
    return minio.create_bucket("shared-by-two")


def load(warm: Warm, minio: Minio, bucket: str, folder: str, keys: Keys, *more: str) -> Outcome:
    """A load into a table of a folder, by keys in the environment."""
    target = {
        "destination": "delta_lake_s3",
        "bucket": bucket,
        "object_key_path": folder,
        "aws_endpoint": minio.endpoint,
        "aws_region": minio.region,
    }
    config = warm.cache / f"{folder}.json"
    config.write_text(json.dumps(target))
    env = given_keys(keys)
    return warm.run("land", "-", "--to", config, *BY_SPARK, *more, given=users(ROWS), env=env)


def rows(minio: Minio, bucket: str, folder: str) -> int:
    from deltalake import DeltaTable

    table = DeltaTable(f"s3://{bucket}/{folder}/users", storage_options=minio.delta_options)
    return len(table.to_pyarrow_table())


def test_two_keys_for_one_bucket(shared: Warm, minio: Minio, bucket: str) -> None:
    keys = {folder: minio.of_folder(bucket, folder) for folder in ("left", "right")}
    for folder in keys:  # one after the other, in one JVM
        done = load(shared, minio, bucket, folder, keys[folder], "--warm=require")
        assert done.code == 0, done.err
    refused = load(shared, minio, bucket, "left", keys["right"], "--warm=require")
    assert refused.code == 5, refused.err
    with ThreadPoolExecutor(2) as pool:  # at once
        both = list(pool.map(lambda name: load(shared, minio, bucket, name, keys[name]), keys))
    assert [done.code for done in both] == [0, 0], [done.err for done in both]
    assert [rows(minio, bucket, folder) for folder in keys] == [2 * ROWS, 2 * ROWS]


def test_no_secret_is_kept(shared: Warm, minio: Minio, bucket: str) -> None:
    keys = minio.of_folder(bucket, "kept")
    assert load(shared, minio, bucket, "kept", keys).code == 0
    for process in shared.family():
        environ = Path(f"/proc/{process}/environ").read_bytes()
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        for secret in (keys.secret_key, keys.token):
            assert secret.encode() not in environ + command
    for path in shared.cache.joinpath("warm").rglob("*"):
        if path.is_file():
            assert keys.secret_key.encode() not in path.read_bytes()
    # Nor does Spark go on to use them.
    nobody = Keys("nobody", "x" * 40, "")
    assert load(shared, minio, bucket, "kept", nobody, "--warm=require").code == 5


def test_only_who_has_the_token(shared: Warm) -> None:
    state = json.loads(next(shared.cache.glob("warm/*/session.json")).read_text())
    folder = Path(state["folder"])
    assert folder.stat().st_mode & 0o077 == 0
    for name in ("runs", "spark"):
        assert folder.joinpath(name).stat().st_mode & 0o077 == 0
        for message in ({"token": "x", "do": "stop", "claims": {}}, {"do": "stop"}, [], "x"):
            channel = connect(folder / name)
            channel.send(message)
            assert channel.receive(10) == (None, [])
            channel.close()
    assert shared.answer()["suits"] == "yes"


def test_noise_does_not_end_it(shared: Warm) -> None:
    folder = next(shared.cache.glob("warm/*/session.json")).parent
    for name in ("runs", "spark"):
        for noise in (b"", b"\xff" * 100, b"\0\0\0\5hello", b"\0\0\0\2"):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(folder / name))
                connection.sendall(noise)
    assert shared.answer()["suits"] == "yes"


def test_a_peer_is_known(shared: Warm) -> None:
    ours, theirs = socket.socketpair()
    assert Channel(ours).peer == (os.getpid(), os.getuid())
    ours.close()
    theirs.close()


PROGRAM = """
import json, sys
import pyarrow as pa
import lakeport

report = lakeport.land(pa.table({"id": [1, 2]}), sys.argv[1], table="t", file_type="delta",
                       table_properties={"delta.logRetentionDuration": "interval 30 days"},
                       warm="require")
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print(spark.read.format("delta").load(sys.argv[1] + "/t").count())
spark.stop()
"""


def test_a_program_of_the_users(shared: Warm, tmp_path: Path) -> None:
    """Its Spark is the session's, and what it does to it harms nobody."""
    before = shared.served()
    for number in (1, 2):
        done = subprocess.run(
            [sys.executable, "-W", "error::UserWarning", "-c", PROGRAM, str(tmp_path / "lake")],
            env=environment(shared.environment()),
            capture_output=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.split()[-1] == str(2 * number).encode()
    assert shared.served() == before + 2
    assert re.match(r"\d+", str(shared.answer()["process"]))


LOOK = """
import json, sys
from lakeport.engine.spark.session import DriverSession

driver = DriverSession.start(set(), {}, small=True, warm="require")
context = driver.context
active = context._jvm.org.apache.spark.sql.SparkSession.active()
print(json.dumps({
    "tags": [str(tag) for tag in context.getJobTags()],
    "pool": context.getLocalProperty("spark.scheduler.pool"),
    "session": active.hashCode(),
}), flush=True)
print(sys.stdin.readline())
driver.stop()
"""


def test_each_has_its_own_session_pool_and_tag(shared: Warm) -> None:
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", LOOK],
            env=environment(shared.environment()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    found = []
    for run in runs:
        assert run.stdout is not None
        found.append(json.loads(run.stdout.readline()))
    for run in runs:
        run.communicate(b"\n", timeout=100)
        assert run.returncode == 0
    assert all(len(each["tags"]) == 1 and each["pool"] for each in found)
    for name in ("tags", "pool", "session"):
        assert found[0][name] != found[1][name]


ASKS = """
import os, sys
from lakeport.engine.spark.session import DriverSession

os.getppid = lambda: int(sys.argv[1])  # as the session's own runs have it
driver = DriverSession.start(set(), {}, small=True, warm="require")
driver.spark.conf.set("spark.sql.shuffle.partitions", "3")
jvm = driver.context._jvm
sessions = jvm.org.apache.spark.sql.SparkSession
print(driver.spark.range(5).count(), sessions.active().conf().get("spark.sql.shuffle.partitions"))
driver.stop()
"""


def test_a_run_without_sql_has_a_session_if_it_asks(shared: Warm) -> None:
    (first,) = shared.processes()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", ASKS, str(first)],
            env=environment(shared.environment()),
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.stdout.split() == ["5", "3"], done.stderr


SOON_ANOTHER = """
import threading, time
from lakeport.engine.spark import adopt
from lakeport.engine.spark.session import DriverSession

joining, detach = threading.Event(), adopt.detach

def slow():
    if not joining.is_set():
        joining.set()
        time.sleep(1)
    detach()

adopt.detach = slow
first = DriverSession.start(set(), {}, small=True, warm="require")
first.begin()
assert joining.wait(120)
second = DriverSession.start(set(), {}, small=True, warm="require")
found = second.context.parallelize([1], 1).map(str).collect()
first._builder.join()
from pyspark import SparkContext
print(first is second, found, SparkContext._active_spark_context is second.context)
second.stop()
"""


def test_a_run_whose_predecessor_is_still_joining_waits_for_its_end(shared: Warm) -> None:
    """pyspark knows of one JVM in a process: whoever comes late would take the next one's."""
    done = subprocess.run(
        [sys.executable, "-c", SOON_ANOTHER],
        env=environment(shared.environment()),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout.strip() == "False ['1'] True", done.stderr


def half_open(process: int) -> list[str]:
    """A process's connections whose other end has hung up."""
    files = set()
    for file in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            files.add(str(file.readlink()))
    lines = Path(f"/proc/{process}/net/tcp6").read_text().splitlines()
    lines += Path(f"/proc/{process}/net/tcp").read_text().splitlines()
    ended = [line for line in lines if line.split()[3] == "08"]
    return [line for line in ended if f"socket:[{line.split()[9]}]" in files]


def test_no_connection_outlives_its_run(shared: Warm, tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text("a\n1\n")
    before = shared.served()
    for format_ in ("delta", "parquet") * 2:  # a load of files may end before it has Spark
        done = shared.run(*land(Lake(tmp_path / format_, format_), "--warm=require", source=source))
        assert done.code == 0, done.err
    assert shared.served() >= before + 2
    end = time.monotonic() + PATIENCE
    while left := half_open(shared.java()):
        assert time.monotonic() < end, left
        time.sleep(0.05)
