"""The process of a run in a warm session: takes on the client's state, and runs its command."""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from lakeport.host.process import command_name, die_with_parent

PASSED_ON: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
"""Signals to a client that are its run's."""

_FAILED: Final = 1
_INTERRUPTED: Final = 130
_PROGRAMS: Final = ("lakeport", "target-lakeport")

_OPEN: Final = {"folder", "files"}


@dataclass(frozen=True)
class Command:
    """A command line with all that its process has.

    Attributes:
        program: `lakeport` or `target-lakeport`.
        arguments: what stands behind the program's name.
        environment: all variables.
        streams: of standard input, output and error: the encoding, and the handler of its errors;
            None for one that is closed.
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
    def here(cls, program: str, arguments: Sequence[str]) -> Command:
        """The command line of this process, with its surroundings; close what `sent` returns."""
        streams = (sys.stdin, sys.stdout, sys.stderr)
        return cls(
            program,
            [*arguments],
            dict(os.environ),
            [(each.encoding, each.errors or "strict") if each else None for each in streams],
            [n for n in PASSED_ON if signal.getsignal(n) is signal.SIG_IGN],
            os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC),
            [os.dup(number) for number, each in enumerate(streams) if each],
        )

    def sent(self) -> list[int]:
        """Return the files that are sent to a session; close them then."""
        told = {name: value for name, value in vars(self).items() if name not in _OPEN}
        file = os.memfd_create("lakeport-command")
        os.write(file, json.dumps(told).encode())
        return [file, self.folder, *self.files]

    @classmethod
    def of(cls, files: Sequence[int]) -> Command:
        """The command of the files that a client has sent.

        Raises:
            ValueError: it is none.
        """
        told, folder, *streams = files
        with os.fdopen(told, "rb") as file:
            file.seek(0)
            given = json.load(file)
        if given["program"] not in _PROGRAMS or len(streams) != sum(map(bool, given["streams"])):
            raise ValueError("no command")
        return cls(**given, folder=folder, files=streams)

    def close(self) -> None:
        """Close its files in this process."""
        for file in (self.folder, *self.files):
            os.close(file)

    @property
    def shown(self) -> str:
        """The command, without what may be secret in it."""
        verb = command_name(self.arguments)
        return f"{self.program} {verb}".strip()


def become(command: Command, door: Mapping[str, Any], parent: int) -> NoReturn:
    """Run the command in this process, and end it.

    Args:
        command: what is to run.
        door: into the JVM, see `lease.set_lease`.
        parent: the process that forked this one, with the forwarded signals blocked.
    """
    code = _FAILED
    try:
        die_with_parent(parent)
        _take_signals(command.ignored)
        _take_streams(command)
        _take_place(command)
        from lakeport.cli import app  # as late as a run: a session starts without them
        from lakeport.engine.spark import lease

        lease.set_lease(**door)
        code = app.start(command.program, command.arguments)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    finally:
        _leave(code)


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
            opened = None
        else:
            os.dup2(next(files), descriptor)
            encoding, errors = told
            opened = open(  # noqa: SIM115  # as the interpreter does at its start
                descriptor,
                "w" if descriptor else "r",
                1 if descriptor == 2 else -1,
                encoding=encoding,
                errors=errors,
                closefd=False,
            )
        setattr(sys, name, opened)
        setattr(sys, f"__{name}__", opened)


def _take_place(command: Command) -> None:
    os.fchdir(command.folder)
    command.close()
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
