"""The client of a warm session: lend a run this process's streams, and wait for its end.

```
arguments, environment, folder, streams ─▶ session ─▶ a process there does the work
signals ─▶                                ◀─ exit code
```
This module imports nothing heavy. A session has one run at a time.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from lakeport.errors import LakeportError, SparkFailure
from lakeport.host.process import command_name
from lakeport.host.warm import Channel, WarmStartFailed, find_session, start_failure, start_session
from lakeport.warm.child import PASSED_ON, CommandLine

_OPTION: Final = "--warm"
_WORDS: Final = ("auto", "off", "require")
_VARIABLE: Final = "LAKEPORT_WARM"
_SESSION_VERBS: Final = frozenset(
    {"check", "land", "plan", "quarantine", "runs", "table", "tables", "target"}
)
LOADS: Final = frozenset({"land", "target"})
SELF_SUFFICIENT: Final = frozenset({"--help", "-h", "--about"})
_HANDLED_SIGNALS: Final = (*PASSED_ON, signal.SIGTSTP, signal.SIGCONT)

_TURN_SECONDS: Final = 3.0  # to wait behind another run: the start of a Spark takes as long
_START_SECONDS: Final = 60.0  # to wait for a session that starts, ahead of any Spark begun now
_INTERRUPTED_CODE: Final = 130

_Outcome = tuple[int | None, list[str], LakeportError | None]


class SessionLost(SparkFailure):
    """Error: the warm session ended while it ran this command."""

    def __init__(self) -> None:
        super().__init__(
            "the warm session ended in the middle of the run",
            "the same command with the same `--run-id` adds nothing twice.",
        )


def split_warm_option(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Split a command line into the value of its `--warm` option and all other arguments.

    The option is `auto`, `off` or `require`; `start` where it has no value; empty for none.

    >>> split_warm_option(["land", "--warm", "a.csv"])
    ('start', ['land', 'a.csv'])
    >>> split_warm_option(["check", "--warm", "off"])
    ('off', ['check'])
    >>> split_warm_option(["check", "--warm=require", "--", "--warm"])
    ('require', ['check', '--', '--warm'])
    """
    option = ""
    rest: list[str] = []
    waiting = iter(range(len(arguments)))
    for index in waiting:
        text = arguments[index]
        if text == "--":
            rest += arguments[index:]
            break
        if text == _OPTION:
            following = arguments[index + 1] if index + 1 < len(arguments) else ""
            option = following if following in _WORDS else "start"
            if option != "start":
                next(waiting)
        elif text.startswith(f"{_OPTION}="):
            option = text.partition("=")[2]
        else:
            rest.append(text)
    return option, rest


def run_in_session(program: str, arguments: Sequence[str]) -> _Outcome:
    """Try to run a command in a warm session; return its exit code or None, arguments, error.

    Returns:
        The exit code, or None where the command has to run in this process; the arguments for that;
        and the error that ends the command, if any.
    """
    option, rest = split_warm_option(arguments)
    if program == "lakeport" and command_name(rest) not in _SESSION_VERBS:
        return None, list(arguments), None
    if option and program == "lakeport":
        split = rest.index("--") if "--" in rest else len(rest)
        rest[split:split] = ["--set", f"warm={'auto' if option == 'start' else option}"]
    wanted = option or os.environ.get(_VARIABLE, "auto")
    alone = rest[:1] == ["--version"] or not SELF_SUFFICIENT.isdisjoint(rest)
    if wanted in ("off", "false") or alone:
        return None, rest, None
    try:
        channel = start_session() if wanted == "start" else find_session()
        code = None if channel is None else _run_in_turn(channel, program, rest, wanted)
        return code, rest, None
    except (SessionLost, WarmStartFailed) as problem:
        return None, rest, problem


def _run_in_turn(
    channel: Channel, program: str, arguments: list[str], warm_option: str
) -> int | None:
    """Wait in the session's queue and run the command; None if it must run in this process."""
    try:
        channel.send({"do": "run"})
        answer, _ = channel.receive()
        if "wait" in answer:
            is_busy = answer["wait"] == "for the run"
            waits = warm_option == "require" or (warm_option == "start" and not is_busy)
            if (
                is_busy
                and not waits
                and program == "lakeport"
                and command_name(arguments) not in LOADS
            ):
                return None  # other commands are quick without Spark, or need none
            limit = _TURN_SECONDS if is_busy else _START_SECONDS
            answer, _ = channel.receive(None if waits else limit)
        if "turn" in answer:
            files = CommandLine.of_this_process(program, arguments).serialise()
            try:
                channel.send({}, files)
            finally:
                for file in files:
                    os.close(file)
            return _RunFollower(channel).wait()
    except TimeoutError:
        return None  # the run before takes longer than to start a Spark
    except OSError:
        pass
    except KeyboardInterrupt:
        return _INTERRUPTED_CODE
    finally:
        channel.close()
    if warm_option == "start":
        raise start_failure()
    return None


class _RunFollower:
    """Waits for a run in a warm session, and forwards this process's signals to it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def wait(self) -> int:
        """Wait for the run and return its exit code; raise SessionLost if the session ends.

        Raises:
            SessionLost: the session has ended.
        """
        ours, pythons = os.pipe()
        os.set_blocking(pythons, False)
        os.set_blocking(ours, False)
        before = signal.set_wakeup_fd(pythons, warn_on_full_buffer=False)
        handlers = {number: signal.getsignal(number) for number in _HANDLED_SIGNALS}
        for number, handler in handlers.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self._suspend if number == signal.SIGTSTP else self._pass_on)
        try:
            return self._await_result(ours)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before)
            os.close(ours)
            os.close(pythons)

    def _await_result(self, signal_pipe: int) -> int:
        """Wait for the run's exit code, waking up when a signal writes to `signal_pipe`."""
        events = select.poll()
        events.register(self._channel, select.POLLIN)
        events.register(signal_pipe, select.POLLIN)
        while True:
            if any(descriptor == signal_pipe for descriptor, _ in events.poll()):
                with suppress(BlockingIOError):
                    os.read(signal_pipe, 1024)
                continue
            message, _ = self._channel.receive()
            if not message:
                raise SessionLost
            if "killed" in message:
                return self._exit_by_signal(message["killed"])
            return int(message["exit"])

    def _pass_on(self, number: int, frame: Any) -> None:
        """Send a signal's number to the session, unless that has ended."""
        with suppress(OSError):
            self._channel.send({"signal": number})

    def _suspend(self, number: int, frame: Any) -> None:
        """Stop the run, then this process, until SIGCONT."""
        self._pass_on(signal.SIGSTOP, frame)
        os.kill(os.getpid(), signal.SIGSTOP)

    def _exit_by_signal(self, number: int) -> int:
        """Kill this process by the run's fatal signal; return 128 + its number if that fails."""
        with suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return 128 + number
