"""The process of a run in a warm session: made the client's likeness, then the program as ever."""

from __future__ import annotations

import atexit
import io
import os
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, Final, NoReturn

from lakeport.host import first_effect
from lakeport.host.process import die_with
from lakeport.host.warm.channel import Channel

_FAILED: Final = 1
_INTERRUPTED: Final = 130
_REPEATABLE: Final = frozenset({"land", "target", "plan"})
"""Commands that say themselves when they have an effect."""
_PROGRAMS: Final = ("lakeport", "target-lakeport")


@dataclass(frozen=True)
class Command:
    """A command line with all that its process has.

    Attributes:
        program: `lakeport` or `target-lakeport`.
        arguments: what stands behind the program's name.
        environment: all variables.
        streams: of standard input, output and error: the encoding, the handler of its errors, and
            whether it is written line by line; None for one that is closed.
        ignored: signals that are ignored.
        folder: descriptor of the working folder.
        files: descriptors of the streams that are open.
    """

    program: str
    arguments: list[str]
    environment: dict[str, str]
    streams: list[tuple[str, str] | None]
    ignored: list[int]
    folder: int
    files: list[int]

    @classmethod
    def of(cls, message: dict[str, Any], files: list[int]) -> Command:
        """The command of a client's message.

        Raises:
            ValueError: it is none.
        """
        streams = [tuple(each) if each else None for each in message["streams"]]
        if message["program"] not in _PROGRAMS or len(files) != 1 + sum(map(bool, streams)):
            raise ValueError("no command")
        return cls(
            message["program"],
            list(message["arguments"]),
            dict(message["environment"]),
            streams,
            list(message["ignored"]),
            files[0],
            files[1:],
        )

    @property
    def shown(self) -> str:
        """The command, without what may be secret in it."""
        verb = next((each for each in self.arguments if not each.startswith("-")), "")
        return f"{self.program} {verb}".strip()


def become(command: Command, channel: Channel, parent: int) -> NoReturn:
    """Run the command in this process, and end it.

    Args:
        command: what is to run.
        channel: to the client.
        parent: the process that forked this one, with the forwarded signals blocked.
    """
    code = _FAILED
    try:
        die_with(parent)
        _take_signals(command.ignored)
        _take_streams(command)
        _take_place(command)
    except Exception:
        _decline(channel)
    try:
        first_effect.before(lambda: _begin(channel))
        code = _run(command)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    finally:
        _leave(code)


def _run(command: Command) -> int:
    from lakeport.cli import programs

    verb = command.arguments[0] if command.program == "lakeport" and command.arguments else "land"
    if verb not in _REPEATABLE:
        first_effect.about_to_happen()
    return programs.run(command.program, command.arguments)


def _begin(channel: Channel) -> None:
    """Tell the client that the run has an effect from now on; leave it to him if Spark is lost."""
    from lakeport.engine.spark.session import (
        DriverSession,  # as late as a run: a session starts without it
    )

    if DriverSession.lost():
        _decline(channel)
    channel.send({"begun": True})


def _decline(channel: Channel) -> NoReturn:
    """Leave the command to the client; nothing of it has been done."""
    channel.send({"declined": True})
    os._exit(_FAILED)


def _take_signals(ignored: list[int]) -> None:
    os.setpgid(0, 0)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for other in ignored:
        signal.signal(other, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())


def _take_streams(command: Command) -> None:
    files = iter(command.files)
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        told = command.streams[descriptor]
        if told is None:
            with suppress(OSError):
                os.close(descriptor)
            opened: IO[str] | None = None
        else:
            os.dup2(next(files), descriptor)
            opened = _text(descriptor, *told)
        setattr(sys, name, opened)
        setattr(sys, f"__{name}__", opened)
    for file in command.files:
        os.close(file)


def _text(descriptor: int, encoding: str, errors: str) -> IO[str]:
    """A stream as the interpreter opens it at its start."""
    raw = io.FileIO(descriptor, "wb" if descriptor else "rb", closefd=False)
    plain = io.BufferedWriter(raw) if descriptor else io.BufferedReader(raw)
    return io.TextIOWrapper(
        plain,
        encoding,
        errors,
        line_buffering=descriptor == 2 or raw.isatty(),
        write_through=False,
    )


def _take_place(command: Command) -> None:
    os.fchdir(command.folder)
    os.close(command.folder)
    os.environ.clear()
    os.environ.update(command.environment)
    time.tzset()
    tempfile.tempdir = None
    sys.argv[:] = [command.program, *command.arguments]


def _leave(code: int) -> NoReturn:
    """End as the interpreter would, but for what it tears down: all of that is this process's."""
    with suppress(BaseException):
        if code not in (130, 143):
            threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)
