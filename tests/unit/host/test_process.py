"""A program that is bound to a process ends with it, and not before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lakeport.host.process import is_running, start_bound_process

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
