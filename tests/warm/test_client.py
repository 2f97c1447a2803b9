"""A command line through a warm session is the same command line to whoever runs it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.kit import BY_SPARK, Lake, await_end, users
from tests.faults.test_signals import BATCH, INPUT, SIZES, check_clean_stop
from tests.warm.kit import Warm, land

LAKE = "--to", "./lake"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the test's processes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("id,name\n1,Ada\n2,Bea\n")
    return tmp_path


def plain(words: str) -> str:
    """What a run says, without what no two runs have in common."""
    words = re.sub(r"(?m)^engine: Spark, .*$", "engine", words)  # whose session it is
    return re.sub(r"\d+\.\d s|\d{8}-\d{6}-[0-9a-f]{6}| +\d+\.\d  ", "…", words)


@pytest.mark.parametrize(
    "arguments",
    [
        ["land", "people.csv", *LAKE, "--table", "people", "--format", "delta"],
        ["land", "people.csv", *LAKE, "--table", "people", "--json", "--set", "bucket=b"],
        ["land", "absent.csv", *LAKE],
        ["land", "people.csv"],
        ["land", "--help"],
        ["land", "-h"],
        ["plan", "people.csv", *LAKE],
        ["table", "show", "./lake/none"],
        ["check", *LAKE],
        ["target", "local", "--show_templates"],
    ],
    ids=" ".join,
)
def test_says_the_same(shared: Warm, folder: Path, arguments: list[str]) -> None:
    here = shared.run(*arguments, env={"LAKEPORT_WARM": "off"})
    shutil.rmtree(folder / "lake", ignore_errors=True)
    there = shared.run(*arguments, env={"LAKEPORT_WARM": "require"})
    assert there.code == here.code
    assert plain(there.err) == plain(here.err)
    said = [plain(b"".join(each.out).decode()) for each in (here, there)]
    assert said[0] == said[1]


def test_has_spark_of_the_session(shared: Warm, folder: Path) -> None:
    before = shared.served()
    command = ("land", "people.csv", *LAKE, "--format", "delta", "--table", "people", *BY_SPARK)
    engines = []
    for _ in range(2):
        done = shared.run(*command, "--json", env={"LAKEPORT_WARM": "require"})
        assert done.code == 0, done.err
        engines.append(json.loads(b"".join(done.out))["engine"])
    assert shared.served() == before + 2
    assert engines[0]["application"] == engines[1]["application"] != ""
    assert [row["name"] for row in Lake(folder / "lake", "delta").rows("people")] == [
        *("Ada", "Bea") * 2
    ]


def test_has_the_clients_environment(shared: Warm, folder: Path) -> None:
    config = folder / "lake.yaml"
    config.write_text("destination: local\npath: ${PLACE}\ntable: ${TABLE}\n")
    for table in ("first", "second"):
        env = {"PLACE": str(folder / table), "TABLE": table}
        assert shared.run("land", "people.csv", "--to", config, env=env).code == 0
        assert len(Lake(folder / table, "parquet").objects(table)) == 1
    refused = shared.run("land", "people.csv", "--to", config, env={"TABLE": "third"})
    assert refused.code == 2
    assert "'PLACE', which is not set" in refused.err


@pytest.mark.soak
def test_files_are_as_the_umask_has_them(own: Warm, folder: Path) -> None:
    own.start()
    before = os.umask(0o077)
    try:
        done = own.run("land", "people.csv", *LAKE, "--warm", "--table", "people")
    finally:
        os.umask(before)
    assert done.code == 0, done.err
    for path in Lake(folder / "lake", "parquet").objects("people"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # A session of its own, as the JVM of the other has another umask.
    stopped = own.run("warm", "stop", "--json")
    assert json.loads(b"".join(stopped.out))["ended"] == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_is_asked_to_end(shared: Warm, delta_lake: Lake, number: signal.Signals) -> None:
    with shared.started(*land(delta_lake, *SIZES)) as process:
        process.feed(INPUT, close=False)
        assert process.wait_for(lambda: len(process.out) > 2)
        process.send(number)
        assert process.end() == (143 if number == signal.SIGTERM else 130), process.words
    check_clean_stop(delta_lake, process)
    assert shared.run("table", "show", delta_lake.root / "users").code == 0


def state_of(process: int) -> str:
    """One letter, as in `ps`."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_stopped_by_the_terminal_and_continued(shared: Warm, delta_lake: Lake) -> None:
    before = set(shared.family())
    with shared.started(*land(delta_lake, *SIZES)) as process:
        process.feed(users(20, BATCH), close=False)
        assert process.wait_for(lambda: bool(process.out))
        family = shared.family().items()
        (run,) = {n for n, words in family if "lakeport.warm" in words} - before
        process.send(signal.SIGTSTP)
        assert process.wait_for(lambda: state_of(run) + state_of(process.popen.pid) == "TT")
        process.send(signal.SIGCONT)
        process.feed(users(20, BATCH, start=20))
        assert process.end() == 0, process.words
    assert delta_lake.ids() == list(range(40))


@pytest.mark.soak  # `test_kill.py` kills it where it matters most
def test_killed_and_repeated(shared: Warm, delta_lake: Lake) -> None:
    command = land(delta_lake, *SIZES, "--run-id", "night")
    given = users(40 * BATCH, BATCH)
    with shared.started(*command) as process:
        process.feed(given, close=False)
        assert process.wait_for(lambda: len(process.out) > 2)
        before = set(shared.family())
        process.send(signal.SIGKILL)
        process.end()
        await_end(number for number, words in shared.family().items() if number not in before)
    done = shared.run(*command, given=given)
    assert done.code == 0, done.err
    assert delta_lake.ids() == list(range(40 * BATCH))


def test_one_after_the_other(shared: Warm, tmp_path: Path) -> None:
    lakes = [Lake(tmp_path / f"lake-{number}", "delta") for number in range(3)]
    broken = Lake(tmp_path / "broken", "delta")

    def load(lake: Lake) -> int:
        given = users(20, 10) if lake is not broken else users(20, 10) + b'{"type": "RECORD"'
        return shared.run(*land(lake, *SIZES, "--warm=require"), given=given).code

    before = shared.served()
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(load, [*lakes, broken]))
    assert codes == [0] * 3 + [3]
    assert [lake.ids() for lake in lakes] == [list(range(20))] * 3
    assert shared.served() == before + 4


@pytest.mark.soak
def test_who_would_wait_for_long_goes_alone(shared: Warm, folder: Path, delta_lake: Lake) -> None:
    with shared.started(*land(delta_lake, *SIZES)) as process:
        process.feed(INPUT, close=False)
        assert process.wait_for(lambda: len(process.out) > 2)
        before = shared.served()
        done = shared.run("land", "people.csv", *LAKE)
        assert done.code == 0, done.err
        assert shared.served() == before
        assert shared.answer()["running"] == "lakeport land"


def test_a_terminal_is_the_clients(shared: Warm, folder: Path) -> None:
    import pty
    import subprocess
    import sys

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "lakeport", "land", "people.csv", *LAKE, "--table", "people"]
    from tests.faults.kit import environment

    env = environment(shared.environment({"TERM": "xterm", "COLUMNS": "70"}))
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        said = b""
        with pytest.raises(OSError, match="Input/output"):
            while True:
                said += os.read(ours, 4096)
        assert process.wait() == 0
    os.close(ours)
    assert b"\n-----" in said  # a rule below the table's head, as terminals have it
    assert max(map(len, said.decode().splitlines())) <= 70
    assert b"2 rows landed" in said
