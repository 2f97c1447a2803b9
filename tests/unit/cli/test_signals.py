"""A signal that comes at a bad moment still ends the command."""

from __future__ import annotations

import _imp
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from lakeport.cli.signals import Terminated, raise_on_signals

ASKED = (
    ("signum", "raised"),
    [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)],
)


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """SIGINT as in a program of its own, whatever the tests were started from."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Finalized:
    """Sends this process a signal from where an exception goes nowhere."""

    def __init__(self, signum: signal.Signals, dropped: list[type[BaseException]]) -> None:
        self._signum, self._dropped = signum, dropped

    def __del__(self) -> None:
        try:
            os.kill(os.getpid(), self._signum)
            time.sleep(30)
        except BaseException as error:
            self._dropped.append(type(error))
            raise


@pytest.mark.parametrize(*ASKED)
def test_what_a_finalizer_drops_is_raised_again(
    signum: signal.Signals, raised: type[KeyboardInterrupt]
) -> None:
    dropped: list[type[BaseException]] = []
    with pytest.raises(raised), raise_on_signals():
        Finalized(signum, dropped)
        time.sleep(30)
    assert dropped == [raised]


class BusyImports:
    """The import system's lock, held by another thread, which sends a signal meanwhile.

    The main thread gets the lock, and with it the signal, in the import system's own code.
    """

    def __init__(self, signum: signal.Signals) -> None:
        self._signum = signum
        self._held = threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._held.wait(30)

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _hold(self) -> None:
        _imp.acquire_lock()
        try:
            self._held.set()
            time.sleep(0.3)  # for the main thread to wait for the lock
            os.kill(os.getpid(), self._signum)
            time.sleep(0.3)
        finally:
            _imp.release_lock()


@pytest.mark.parametrize(*ASKED)
def test_an_import_under_way_does_not_keep_its_lock(
    signum: signal.Signals, raised: type[KeyboardInterrupt]
) -> None:
    try:
        with pytest.raises(raised), raise_on_signals(), BusyImports(signum):
            with suppress(ImportError):
                import_module("lakeport_has_no_such_module")
            time.sleep(30)
        assert not _imp.lock_held()
    finally:
        while _imp.lock_held():
            _imp.release_lock()


@pytest.mark.parametrize(*ASKED)
def test_a_signal_that_interrupts_no_system_call(
    signum: signal.Signals, raised: type[KeyboardInterrupt]
) -> None:
    """As one that comes just before the call begins: here another thread gets it."""
    reading, writing = os.pipe()

    def ask() -> None:
        time.sleep(0.3)
        os.kill(os.getpid(), signum)
        if not ended.wait(20):
            late.append(os.write(writing, b"late"))

    late: list[int] = []
    ended = threading.Event()
    thread = threading.Thread(target=ask)
    thread.start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signum})
    try:
        with pytest.raises(raised), raise_on_signals():
            os.read(reading, 4)
        assert late == []
    finally:
        ended.set()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})
        thread.join()
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(*ASKED)
def test_a_module_that_drops_what_is_raised_in_it_does_not_keep_the_signal(
    signum: signal.Signals,
    raised: type[KeyboardInterrupt],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"drops_{signum.name.lower()}"
    (tmp_path / f"{name}.py").write_text(
        "import os, time\n"
        "try:\n"
        f"    os.kill(os.getpid(), {int(signum)})\n"
        "    time.sleep(0.2)\n"
        "except BaseException:\n"
        "    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(raised), raise_on_signals():
        import_module(name)
        time.sleep(30)


def test_a_program_that_is_itself_imported_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_program.py").write_text(
        "import os, signal, time\n"
        "from lakeport.cli.signals import raise_on_signals\n"
        "with raise_on_signals():\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(30)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    begin = time.monotonic()
    with pytest.raises(Terminated):
        import_module("imported_program")
    assert time.monotonic() - begin < 25


def test_handlers_are_put_back() -> None:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGURG)
    before = [signal.getsignal(number) for number in numbers]
    with raise_on_signals():
        assert signal.getsignal(signal.SIGTERM) is not before[0]
    assert [signal.getsignal(number) for number in numbers] == before
    assert signal.set_wakeup_fd(-1) == -1
    assert "lakeport-signals" not in {thread.name for thread in threading.enumerate()}


def test_a_signal_that_is_ignored_stays_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with raise_on_signals():
        os.kill(os.getpid(), signal.SIGINT)


DEAF = """
import os, signal, sys, time
from lakeport.cli import signals

def go_on(numbers):
    if numbers:
        try:
            os.kill(os.getpid(), getattr(signal, numbers[0]))
            time.sleep(600)
        except KeyboardInterrupt:
            go_on(numbers[1:])
    time.sleep(600)

signals._END_SECONDS, signals._SECOND_SECONDS = map(float, sys.argv[1].split())
tell = signals.on_forced_end(lambda kind: print(kind.__name__, flush=True))
with signals.raise_on_signals(), tell:
    go_on(sys.argv[2].split())
"""


@pytest.mark.parametrize(
    ("seconds", "numbers", "word", "code"),
    [
        ("0.2 600", "SIGTERM", "Terminated", 143),
        ("0.2 600", "SIGINT", "KeyboardInterrupt", 130),
        ("600 0.2", "SIGINT SIGINT", "KeyboardInterrupt", 130),
    ],
    ids=["terminated", "interrupted", "twice"],
)
def test_a_command_that_does_not_end_is_ended(
    seconds: str, numbers: str, word: str, code: int
) -> None:
    """It says what it knows before; whoever asks twice is not kept waiting."""
    command = [sys.executable, "-c", DEAF, seconds, numbers]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, f"{word}\n", "")


ENDING = """
import sys
from lakeport.cli.signals import exit_process

class Loud:
    def __del__(self):
        print("found")

circle = Loud()
circle.itself = circle
del circle
exit_process(3)
"""


@pytest.mark.parametrize(
    ("before", "said"), [("", ""), ("import lakeport.loading.transform.function", "found\n")]
)
def test_what_code_of_the_user_s_left_is_looked_through_at_the_end(before: str, said: str) -> None:
    """Without such code nobody needs it, and a tenth of a small load goes by."""
    command = [sys.executable, "-c", f"{before}\n{ENDING}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, said, "")


PLAIN = """
import sys
from lakeport.cli import app

assert app.start("lakeport", ["land", "people.csv", "--to", "lake"]) == 0
assert "lakeport.loading.transform.function" not in sys.modules
"""


def test_without_a_function_of_the_user_s_nothing_that_runs_one_is_loaded(
    tmp_path: Path,
) -> None:
    """That it is loaded is what tells the end of the process that one was run."""
    (tmp_path / "people.csv").write_text("id\n1\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PLAIN], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
