"""Processes: bound to a parent, their waits, core dumps and context."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

import pytest

from lakeport.host.process import ProcessContext, forbid_core_dumps, is_running, start_bound_process

STARTER = """
import os, signal, subprocess, sys, threading, time
from lakeport.host.process import start_bound_process

def start():
    child = start_bound_process([sys.executable, "-c", "import time; time.sleep(600)"], **options)
    print(child.pid, flush=True)

options = {"stdin": subprocess.PIPE, "start_new_session": True}
thread = threading.Thread(target=start)
thread.start()
thread.join()
if sys.argv[1] == "fork":  # a child that has the pipe, too, and lives on
    if not (forked := os.fork()):
        time.sleep(600)
    print(forked, flush=True)
sys.stdin.readline()
os._exit(3)
"""


def _gone(process: int) -> bool:
    for _ in range(1200):
        if not is_running(process) or _is_dead(process):
            return True
        time.sleep(0.05)
    return False


def _is_dead(process: int) -> bool:
    """Whether it is over, and nobody has asked for its exit code: as in containers without init."""
    try:
        state = Path(f"/proc/{process}/stat").read_text("utf-8")
    except OSError:
        return True
    return state.rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("how", ["kill", "exit", "fork"])
def test_it_is_killed_with_the_process(how: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdin and starter.stdout
        bound = int(starter.stdout.readline())
        forked = int(starter.stdout.readline()) if how == "fork" else 0
        try:
            assert is_running(bound)  # although the thread is over that wanted it
            if how == "kill":
                starter.kill()
            else:
                starter.stdin.write("\n")
                starter.stdin.flush()
            assert starter.wait(60) == (-9 if how == "kill" else 3)
            assert _gone(bound)
        finally:
            if forked:
                os.kill(forked, signal.SIGKILL)


def test_it_has_what_any_process_has() -> None:
    """Its number, its exit code, and no trace of how it was started."""
    told: list[tuple[bytes, int, int]] = []

    def start() -> None:
        command = [sys.executable, "-c", "import os; print(os.getpid(), os.getsid(0))"]
        with start_bound_process(command, stdout=subprocess.PIPE, start_new_session=True) as bound:
            out, _ = bound.communicate()
            told.append((out, bound.pid, bound.returncode))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    [(out, number, code)] = told
    assert (out.split(), code) == ([str(number).encode()] * 2, 0)


def test_what_can_t_be_started_is_an_error() -> None:
    with pytest.raises(OSError, match="no-such-folder"):
        start_bound_process(["true"], cwd="/no-such-folder")


_INTERRUPTED: Final = """
import random, signal, sys
from lakeport.host import process

def stop(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, stop)
for _ in range(5000):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 30e-6))
        process.pause(0.001)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
process.request_end()
"""


def test_a_wait_that_a_signal_ends_at_any_point_leaves_no_lock_taken() -> None:
    """A lock left so kept the process from ever hearing that it was asked to end."""
    command = [sys.executable, "-c", _INTERRUPTED]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0


def _core_limit(pid: int | str) -> list[str]:
    """The soft and the hard limit of a process's core files."""
    (line,) = (
        line
        for line in Path(f"/proc/{pid}/limits").read_text().splitlines()
        if line.startswith("Max core file size")
    )
    return line.split()[4:6]


@pytest.mark.parametrize(
    ("module", "argument"), [("lakeport.cli.app", "version"), ("lakeport.cli.singer", "--version")]
)
def test_a_program_and_its_children_leave_none(module: str, argument: str) -> None:
    script = f"""
import contextlib, io, subprocess, sys
from {module} import app
from lakeport.cli.app import run
with contextlib.redirect_stdout(io.StringIO()):
    run(app, "program", ["{argument}"])
child = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
subprocess.run([sys.executable, "-c", child], check=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "(0, 0)\n"


def test_another_process_is_told_too() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        assert _core_limit(other.pid)[1] == _core_limit("self")[1]
        forbid_core_dumps(other.pid)
        assert _core_limit(other.pid) == ["0", "0"]
    forbid_core_dumps(other.pid)  # it has ended: nothing to forbid


def test_a_worker_has_those_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONLY_THERE", "1")
    monkeypatch.setenv("SPARK_OWN", "worker")
    given = ProcessContext({"PATH": "/bin", "NEW": "x", "SPARK_OWN": "run"}, "/")
    before = dict(os.environ)
    try:
        given.apply()
        assert os.environ["PATH"] == "/bin"
        assert os.environ["NEW"] == "x"
        assert "ONLY_THERE" not in os.environ
        assert os.environ["SPARK_OWN"] == "worker"
        assert Path.cwd() == Path("/")
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_a_folder_that_is_gone_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    here = ProcessContext.current()
    assert here.folder == ""
    assert here.environment == dict(os.environ)
    here.apply()
    ProcessContext(here.environment, str(gone)).apply()
    monkeypatch.chdir(tmp_path)
