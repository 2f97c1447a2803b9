"""The process of a run in a warm session: it takes on the client's state and runs its command."""

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
"""Signals that a client passes on to its run."""

_FAILED_CODE: Final = 1
_INTERRUPTED_CODE: Final = 130
_PROGRAMS: Final = ("lakeport", "target-lakeport")

_DESCRIPTORS: Final = {"folder", "files"}


@dataclass(frozen=True)
class CommandLine:
    """A command with the environment, working folder and open streams of its process.

    Attributes:
        program: `lakeport` or `target-lakeport`.
        streams: encoding and error handler of standard input, output and error; None for a closed
            one.
        ignored: signals that the process ignores.
        folder: file descriptor of the working folder.
        files: file descriptors of the open streams.
    """

    program: str
    arguments: list[str]
    environment: dict[str, str]
    streams: list[tuple[str, str] | None]
    ignored: list[int]
    folder: int
    files: list[int]

    @classmethod
    def of_this_process(cls, program: str, arguments: Sequence[str]) -> CommandLine:
        """Capture this process's state for a command; the caller closes its descriptors."""
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

    def serialise(self) -> list[int]:
        """Return file descriptors to send: a JSON file, the working folder, open streams."""
        facts = {name: value for name, value in vars(self).items() if name not in _DESCRIPTORS}
        file = os.memfd_create("lakeport-command")
        os.write(file, json.dumps(facts).encode())
        return [file, self.folder, *self.files]

    @classmethod
    def deserialise(cls, files: Sequence[int]) -> CommandLine:
        """Read a command from a client's file descriptors; ValueError if they hold none.

        Raises:
            ValueError: they hold no command.
        """
        json_file, folder, *streams = files
        with os.fdopen(json_file, "rb") as file:
            file.seek(0)
            facts = json.load(file)
        if facts["program"] not in _PROGRAMS or len(streams) != sum(map(bool, facts["streams"])):
            raise ValueError("no command")
        return cls(**facts, folder=folder, files=streams)

    def close(self) -> None:
        """Close the descriptors of the folder and the streams."""
        for file in (self.folder, *self.files):
            os.close(file)

    @property
    def title(self) -> str:
        """Program and verb, without arguments that may be secret."""
        verb = command_name(self.arguments)
        return f"{self.program} {verb}".strip()


def run_command(command: CommandLine, lease: Mapping[str, Any], parent_id: int) -> NoReturn:
    """Run a client's command in this forked process, then exit with the command's code.

    Args:
        lease: the keyword arguments of `set_lease`, by which the run enters Spark's JVM.
        parent_id: the process that forked this one, with the signals of `PASSED_ON` blocked.
    """
    code = _FAILED_CODE
    try:
        die_with_parent(parent_id)
        _set_signals(command.ignored)
        _open_streams(command)
        _enter_environment(command)
        from lakeport.cli import app  # as late as a run: a session starts without them
        from lakeport.engine.spark.lease import set_lease

        set_lease(**lease)
        code = app.start(command.program, command.arguments)
    except KeyboardInterrupt:
        code = _INTERRUPTED_CODE
    finally:
        _exit(code)


def _set_signals(ignored: list[int]) -> None:
    """Start a process group; reset and unblock all signals, but ignore the `ignored` ones."""
    os.setpgid(0, 0)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for other in ignored:
        signal.signal(other, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())


def _open_streams(command: CommandLine) -> None:
    """Replace stdin, stdout and stderr by the client's; close those that it has closed."""
    files = iter(command.files)
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        settings = command.streams[descriptor]
        if settings is None:
            with suppress(OSError):
                os.close(descriptor)
            opened = None
        else:
            os.dup2(next(files), descriptor)
            encoding, errors = settings
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


def _enter_environment(command: CommandLine) -> None:
    """Switch to the client's working folder, environment variables, time zone and `sys.argv`."""
    os.fchdir(command.folder)
    command.close()
    os.environ.clear()
    os.environ.update(command.environment)
    time.tzset()
    tempfile.tempdir = None
    sys.argv[:] = [command.program, *command.arguments]


def _exit(code: int) -> NoReturn:
    """Run exit handlers, flush and end the process; waits for threads unless interrupted."""
    with suppress(BaseException):
        if code not in (130, 143):
            threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)
