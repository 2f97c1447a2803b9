"""A command line that goes through a warm session: this process lends it its streams, and waits.

```
arguments, environment, folder, streams ─▶ session ─▶ a process there does the work
signals ─▶                                ◀─ exit code
```
Nothing heavy is imported. A session has one run at a time.
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
from lakeport.warm.child import PASSED_ON, Command

_OPTION: Final = "--warm"
_WORDS: Final = ("auto", "off", "require")
_VARIABLE: Final = "LAKEPORT_WARM"
_COMMANDS: Final = frozenset(
    {"check", "land", "plan", "quarantine", "runs", "table", "tables", "target"}
)
LOADS: Final = frozenset({"land", "target"})
SELF_SUFFICIENT: Final = frozenset({"--help", "-h", "--about"})
_HANDLED: Final = (*PASSED_ON, signal.SIGTSTP, signal.SIGCONT)

_TURN_SECONDS: Final = 3.0  # behind another run: as long as the start of a Spark takes
_START_SECONDS: Final = 60.0  # for a session that starts: it is ahead of any Spark begun now
_INTERRUPTED: Final = 130

_Outcome = tuple[int | None, list[str], LakeportError | None]


class Lost(SparkFailure):
    """The session ended in the middle of the run."""

    def __init__(self) -> None:
        super().__init__(
            "the warm session ended in the middle of the run",
            "the same command with the same `--run-id` adds nothing twice.",
        )


def option_of(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The option `--warm` of a command line, and the others.

    Returns:
        `auto`, `off` or `require`; `start` where it stands alone; nothing where there is none.

    >>> option_of(["land", "--warm", "a.csv"]), option_of(["check", "--warm", "off"])
    (('start', ['land', 'a.csv']), ('off', ['check']))
    >>> option_of(["check", "--warm=require", "--", "--warm"])
    ('require', ['check', '--', '--warm'])
    """
    found = ""
    rest: list[str] = []
    waiting = iter(range(len(arguments)))
    for index in waiting:
        text = arguments[index]
        if text == "--":
            rest += arguments[index:]
            break
        if text == _OPTION:
            following = arguments[index + 1] if index + 1 < len(arguments) else ""
            found = following if following in _WORDS else "start"
            if found != "start":
                next(waiting)
        elif text.startswith(f"{_OPTION}="):
            found = text.partition("=")[2]
        else:
            rest.append(text)
    return found, rest


def run_in_session(program: str, arguments: Sequence[str]) -> _Outcome:
    """Run a command in a warm session, if one is to be used and runs.

    Args:
        program: `lakeport` or `target-lakeport`.
        arguments: what stands behind the program's name.

    Returns:
        The exit code, None where the command has to run in this process; its arguments; and why it
        can't go on, if so.
    """
    option, rest = option_of(arguments)
    if program == "lakeport" and command_name(rest) not in _COMMANDS:
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
        return (None if channel is None else _run(channel, program, rest, wanted)), rest, None
    except (Lost, WarmStartFailed) as problem:
        return None, rest, problem


def _run(channel: Channel, program: str, arguments: list[str], wanted: str) -> int | None:
    """Run a command once it is its turn; None where that does not come, or not soon enough."""
    try:
        channel.send({"do": "run"})
        answer, _ = channel.receive()
        if "wait" in answer:
            at_work = answer["wait"] == "for the run"
            patient = wanted == "require" or (wanted == "start" and not at_work)
            if (
                at_work
                and not patient
                and program == "lakeport"
                and command_name(arguments) not in LOADS
            ):
                return None  # others are quick without Spark, or need none
            limit = _TURN_SECONDS if at_work else _START_SECONDS
            answer, _ = channel.receive(None if patient else limit)
        if "turn" in answer:
            files = Command.here(program, arguments).sent()
            try:
                channel.send({}, files)
            finally:
                for file in files:
                    os.close(file)
            return _RunFollower(channel).wait()
    except TimeoutError:
        return None  # the run before takes longer than a Spark of one's own
    except OSError:
        pass
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        channel.close()
    if wanted == "start":
        raise start_failure()
    return None


class _RunFollower:
    """Waits for the run's end, and passes on what this process is told meanwhile."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def wait(self) -> int:
        """The exit code.

        Raises:
            Lost: the session was lost.
        """
        ours, pythons = os.pipe()
        os.set_blocking(pythons, False)
        os.set_blocking(ours, False)
        before = signal.set_wakeup_fd(pythons, warn_on_full_buffer=False)
        handlers = {number: signal.getsignal(number) for number in _HANDLED}
        for number, handler in handlers.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self._stop if number == signal.SIGTSTP else self._pass_on)
        try:
            return self._follow(ours)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before)
            os.close(ours)
            os.close(pythons)

    def _follow(self, woken: int) -> int:
        events = select.poll()
        events.register(self._channel, select.POLLIN)
        events.register(woken, select.POLLIN)
        while True:
            if any(descriptor == woken for descriptor, _ in events.poll()):
                with suppress(BlockingIOError):
                    os.read(woken, 1024)
                continue
            message, _ = self._channel.receive()
            if not message:
                raise Lost
            if "killed" in message:
                return self._die(message["killed"])
            return int(message["exit"])

    def _pass_on(self, number: int, frame: Any) -> None:
        with suppress(OSError):
            self._channel.send({"signal": number})

    def _stop(self, number: int, frame: Any) -> None:
        """Stop the run, then this process, as the terminal asks."""
        self._pass_on(signal.SIGSTOP, frame)
        os.kill(os.getpid(), signal.SIGSTOP)

    def _die(self, number: int) -> int:
        """End as the run's process did."""
        with suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return 128 + number
