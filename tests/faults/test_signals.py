"""Asked to end: a load stops at a whole batch, says what is durable, and leaves nothing behind."""

from __future__ import annotations

import json
import secrets
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.emulators import Azurite, TokenServer
from tests.faults.kit import Lake, Process, await_end, land, started, users
from tests.faults.requests.faults import Fault as RequestFault
from tests.faults.requests.naming import namer
from tests.faults.requests.proxy import FaultProxy, Point
from tests.faults.worlds import Tables, Tap, World, lines
from tests.half_dead import Way, half_dead
from tests.postgres import Postgres
from tests.s3_stub import BrokenS3, Fault

BATCH = 10
ROWS = 4000  # more than lands before a signal that comes late
INPUT = users(ROWS, BATCH // 2)
SIZES = ("--set", f"maximum_batch_rows={BATCH}")


def check_clean_stop(lake: Lake, process: Process) -> None:
    ids = lake.ids()
    assert ids == list(range(len(ids)))
    assert len(ids) % BATCH == 0
    claimed = [value["bookmarks"]["users"] for value in process.states()]
    # The last batch that landed has its last STATE in front of its end, or behind it.
    assert (claimed[-1] if claimed else 0) in (len(ids), len(ids) - BATCH // 2)
    assert lake.staged() == []
    assert "Traceback" not in process.words
    batches = len(ids) // BATCH
    told = {0: "nothing was landed", 1: "1 batch is durable"}
    assert told.get(batches, f"{batches} batches are durable") in process.words
    assert "--run-id" in process.words


def test_terminated_while_it_waits_for_input(delta_lake: Lake, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    with started(*land(delta_lake, *SIZES, "--set", f"spool_dir={spool}")) as process:
        process.feed(users(BATCH + 5, BATCH // 2), close=False)
        assert process.wait_for(lambda: bool(process.out))
        family = process.family()
        process.send(signal.SIGTERM)
        assert process.end() == 143, process.words
        await_end(family)
    check_clean_stop(delta_lake, process)
    assert delta_lake.ids() == list(range(BATCH))
    assert list(spool.iterdir()) == []


def test_terminated_before_anything_has_landed(delta_lake: Lake) -> None:
    with started(*land(delta_lake, *SIZES, "--spark", "spark.ui.enabled=false")) as process:
        process.feed(users(BATCH - 1), close=False)
        assert process.wait_for(lambda: bool(process.family()))  # Spark starts
        process.send(signal.SIGTERM)
        assert process.end() == 143, process.words
    check_clean_stop(delta_lake, process)
    assert not delta_lake.exists()


def test_interrupted_in_the_middle(parquet_lake: Lake) -> None:
    with started(*land(parquet_lake, *SIZES)) as process:
        process.feed(INPUT)
        assert process.wait_for(lambda: len(process.out) >= 2)
        process.send(signal.SIGINT)
        assert process.end() == 130, process.words
    check_clean_stop(parquet_lake, process)
    assert 2 * BATCH <= len(parquet_lake.ids()) < ROWS


@pytest.mark.by_threads  # Spark's load is interrupted above; to tidy up is the driver's
def test_interrupted_twice(parquet_lake: Lake) -> None:
    with started(*land(parquet_lake, *SIZES)) as process:
        process.feed(INPUT)
        assert process.wait_for(lambda: bool(parquet_lake.staged()))
        process.send(signal.SIGINT)
        process.send(signal.SIGINT)
        assert process.end() == 130, process.words
    ids = parquet_lake.ids()
    assert ids == list(range(len(ids)))
    assert len(ids) % BATCH == 0
    claimed = [value["bookmarks"]["users"] for value in process.states()]
    assert not claimed or claimed[-1] <= len(ids)
    # What was staged may stay, invisible, when even the clean-up is interrupted: it is swept later.


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak)]
)
def test_a_run_ends_with_all_that_it_has_started(
    tmp_path: Path, postgres: Postgres, number: signal.Signals
) -> None:
    """Its tap, which is silent and deaf, its Java, and its readers of a database."""
    shop, tap = Tables(postgres, f"s{secrets.token_hex(6)}"), Tap(tmp_path)
    tap.hang()
    loads = {
        "taken": f"{{from: {tap.load('users')}, maximum_batch_rows: 10}}",
        "slow": f"{{from: {shop.load('slow', cursor='id')}, spark: {{}}}}",
    }
    by_spark = {"counted": '{from: {files: "*.jsonl"}, sql: "SELECT count(*) AS id FROM source"}'}
    world = World(tmp_path, loads | (by_spark if number == signal.SIGTERM else {}), [shop, tap])
    tmp_path.joinpath("one.jsonl").write_text(lines(range(1)))
    world.grow(20_000)
    code, word = (143, "terminated") if number == signal.SIGTERM else (130, "interrupted")
    with started(*world.run("--parallel", "3")) as process:
        awaited = ["users", *(["counted"] if number == signal.SIGTERM else [])]
        assert process.wait_for(lambda: all(map(world.lake.exists, awaited))), process.words
        assert process.wait_for(lambda: shop.reading(process)), process.words
        family = process.family()
        process.send(number)
        assert process.end() == code, process.words
        await_end(family)
    told = {1: "1 batch is durable", 2: "2 batches are durable"}[len(awaited)]
    assert f"{word}; {told}, and nothing is visible of the one in progress" in process.words
    assert "--resume" in process.words
    assert "Traceback" not in process.words
    assert not world.lake.exists("slow")
    assert world.lake.ids("users") == list(range(10))


SECRETS = {"AWS_ACCESS_KEY_ID": "stub", "AWS_SECRET_ACCESS_KEY": "stub"}


def ended_during(
    store: BrokenS3, fault: Fault, kind: str, *more: str
) -> tuple[int, float, Process]:
    """Load until a request meets the fault, then ask for an end: exit code, and seconds to it."""
    met, hold = threading.Event(), fault.meanwhile

    def meet() -> None:
        met.set()
        if hold is not None:
            hold()

    fault.meanwhile = meet
    store.create_bucket("lake")
    store.inject(fault)
    config = {"destination": kind, "bucket": "lake", "aws_endpoint": store.endpoint}
    keys = [part for name, value in config.items() for part in ("--set", f"{name}={value}")]
    with started("land", "-", "--to", "s3://lake", *keys, *more, env=SECRETS) as process:
        process.feed(users(BATCH, BATCH))
        assert process.wait_for(met.is_set), process.words
        began = time.monotonic()
        process.send(signal.SIGTERM)
        return process.end(), time.monotonic() - began, process


def hold(released: threading.Event) -> None:
    """Keep a request waiting."""
    released.wait(120)


@pytest.mark.parametrize(
    ("kind", "operation", "key"),
    [
        ("delta_lake_s3", "PutObject", "_delta_log/"),
        pytest.param(
            "amazon_s3",
            "CompleteMultipartUpload",
            ".parquet",
            marks=pytest.mark.by_threads,  # the driver publishes in the same way
        ),
    ],
)
def test_terminated_while_a_commit_hangs(kind: str, operation: str, key: str) -> None:
    released = threading.Event()
    fault = Fault(times=1000, on=operation, key=key, meanwhile=lambda: hold(released))
    with BrokenS3(honours_conditions=True) as store:
        code, seconds, process = ended_during(store, fault, kind)
        released.set()
        assert code == 143, process.words
        assert seconds < 40, process.words  # ten, on a machine that has nothing else to do
        assert "whether the batch in progress has landed in s3://lake/users" in process.words
        assert "nothing is visible" not in process.words
        assert process.out == []
        assert store.count("DeleteObject") == 0


@pytest.mark.by_threads
def test_terminated_while_a_commit_on_azure_hangs(azurite: Azurite, tmp_path: Path) -> None:
    met = threading.Event()
    hangs = RequestFault("hanging", hangs=True, times=1000).striking(lambda _: met.set())
    place: Any = SimpleNamespace(namer=namer("azure", "signals", "t"))
    azurite.create_container("signals")
    config = tmp_path / "azure.json"
    with FaultProxy(azurite.endpoint, "azure") as proxy:
        keys = {
            "destination": "delta_lake_azure",
            "table_uri": azurite.uri("signals", "t"),
            "access_key": azurite.account_key,
            "azure_endpoint": proxy.endpoint,
        }
        config.write_text(json.dumps(keys))
        config.chmod(0o600)
        with (
            proxy.script(place, Point("PUT _delta_log/N.json", 1), hangs) as script,
            started("land", "-", "--to", config) as process,
        ):
            process.feed(users(BATCH, BATCH))
            assert process.wait_for(met.is_set), process.words
            began = time.monotonic()
            process.send(signal.SIGTERM)
            assert process.end() == 143, process.words
            assert time.monotonic() - began < 40, process.words
    assert "whether the batch in progress has landed in abfs://signals@" in process.words
    assert "nothing is visible" not in process.words
    assert process.out == []
    assert not [point for point in script.seen if point.name.startswith("DELETE part-")]


@pytest.mark.by_threads
def test_terminated_while_a_commit_is_slow() -> None:
    commit = f"_delta_log/{0:020}.json"
    fault = Fault(on="PutObject", key=commit, meanwhile=lambda: time.sleep(1.5))
    with BrokenS3(honours_conditions=True) as store:
        code, _, process = ended_during(store, fault, "delta_lake_s3")
        assert code == 143, process.words
        assert "1 batch is durable" in process.words
        assert [state["bookmarks"]["users"] for state in process.states()] == [BATCH]


def _target(store: str, endpoint: str) -> dict[str, Any]:
    """The keys of a target on a store at that address."""
    match store:
        case "s3":
            return {"destination": "amazon_s3", "bucket": "lake", "aws_endpoint": endpoint}
        case "delta on s3":
            return {"destination": "delta_lake_s3", "bucket": "lake", "aws_endpoint": endpoint}
        case "a role on s3":
            role = {"role_arn": "arn:aws:iam::123456789012:role/lands"}
            return {**_target("s3", endpoint), **role}
        case "google":
            google = {"destination": "google_cloud_storage", "bucket": "lake"}
            return google | {"google_endpoint": endpoint}
        case "google's tokens":
            with TokenServer() as tokens:
                key = tokens.key() | {"token_uri": f"{endpoint}/token"}
            return {**_target("google", endpoint), "google_application_credentials": key}
    return {
        "destination": "delta_lake_azure",
        "table_uri": f"abfs://lake@{Azurite.account}.dfs.core.windows.net/t",
        "access_key": Azurite.account_key,
        "azure_endpoint": f"{endpoint}/{Azurite.account}",
    }


STORES = ("s3", "delta on s3", "a role on s3", "google", "google's tokens", "azure")


@pytest.mark.parametrize(
    ("store", "way"),
    [
        *((store, "busy") for store in STORES),
        *((store, "silent") for store in ("delta on s3", "google")),
        *(
            pytest.param(store, "silent", marks=pytest.mark.soak)
            for store in STORES
            if store not in ("delta on s3", "google")
        ),
    ],
)
def test_terminated_before_the_first_batch(tmp_path: Path, store: str, way: Way) -> None:
    """Nothing has answered yet; to wait for it takes two minutes, unless somebody says stop."""
    with half_dead(way, enough=2 if way == "busy" and "tokens" not in store else 1) as server:
        config = tmp_path / "target.json"
        config.write_text(json.dumps(_target(store, server.endpoint)))
        config.chmod(0o600)
        # Each store's own client waits, whatever the engine: a session is started for one of them.
        engine = "spark" if (store, way) == ("delta on s3", "silent") else "threads"
        env = {**SECRETS, "LAKEPORT_ENGINE": engine}
        with started("land", "-", "--to", config, env=env) as process:
            process.feed(users(BATCH, BATCH))
            assert process.wait_for(server.asked.is_set), process.words
            began = time.monotonic()
            process.send(signal.SIGTERM)
            assert process.end() == 143, process.words
            assert time.monotonic() - began < 60, process.words  # ten; the store's time is 120
    assert "terminated; nothing was landed" in process.words
    assert process.out == []


@pytest.mark.parametrize(
    "command",
    [
        ("tables", "s3://lake"),
        ("page", "s3://lake", "--output", "lake.html"),
        pytest.param(("runs", "s3://lake"), marks=pytest.mark.soak),
        ("check", "--to", "s3://lake"),
        ("plan", "people.csv", "--to", "s3://lake", "--set", "destination=delta_lake_s3"),
        ("land", "--from-table", "s3://lake/t", "--to", "copied"),
        pytest.param(("table", "show", "s3://lake/t"), marks=pytest.mark.soak),
        ("table", "query", "s3://lake/t", "SELECT * FROM t"),
        ("table", "optimize", "s3://lake/t"),
        pytest.param(("table", "vacuum", "s3://lake/t"), marks=pytest.mark.soak),
    ],
    ids=lambda command: "-".join(command[:2]) if isinstance(command, tuple) else None,
)
def test_every_command_ends_while_a_store_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("people.csv").write_text("id\n1\n")
    with half_dead("silent") as server:
        env = {**SECRETS, "AWS_ENDPOINT_URL": server.endpoint, "AWS_REGION": "us-east-1"}
        with started(*command, env=env) as process:
            assert process.wait_for(server.asked.is_set), process.words
            began = time.monotonic()
            process.send(signal.SIGTERM)
            assert process.end() == 143, process.words
            assert time.monotonic() - began < 60, process.words
    assert "terminated" in process.words
