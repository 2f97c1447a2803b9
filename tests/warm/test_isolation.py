"""What one run through a warm session has is its own: keys, Spark, and the right to be there."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

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


def test_nobody_else_can_open_the_folder(shared: Warm) -> None:
    folder = shared.cache / "warm"
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o750)
    try:
        assert shared.status() == []
    finally:
        folder.chmod(0o700)
    assert shared.answer()["suits"] == "yes"


def test_noise_does_not_end_it(shared: Warm) -> None:
    (place,) = (each for each in (shared.cache / "warm").iterdir() if each.is_socket())
    for noise in (b"", b"\xff" * 100, b"[]", b"null", b"{}", b'{"do": "run"}'):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(str(place))
            connection.sendall(noise)
    assert shared.answer()["suits"] == "yes"


def test_a_program_of_the_users_has_a_spark_of_its_own(shared: Warm, tmp_path: Path) -> None:
    program = "import sys, lakeport; lakeport.land('a.csv', sys.argv[1], warm='require')"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "lake")],
        env=environment(shared.environment()),
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert b"no warm session can be used" in done.stderr


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
    for format_ in ("delta", "parquet"):
        done = shared.run(*land(Lake(tmp_path / format_, format_), "--warm=require", source=source))
        assert done.code == 0, done.err
    end = time.monotonic() + PATIENCE
    while left := half_open(shared.java()):
        assert time.monotonic() < end, left
        time.sleep(0.05)
