"""A warm session from its beginning to its end: two processes, one of which keeps Spark."""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from lakeport.host.core_dumps import forbid_core_dumps
from lakeport.host.process import die_with, is_there
from lakeport.host.warm import folder, identity
from lakeport.host.warm.channel import listen
from lakeport.host.warm.folder import Session
from lakeport.host.warm.start import ANNOUNCED
from lakeport.warm.server import Server

_END_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.1


def serve(idle: float, memory: str, starter: int) -> int:
    """Be a warm session until it ends, unless one runs that suits the same processes.

    Args:
        idle: after how many seconds without a run it ends.
        memory: see `Session`.
        starter: number of the process that is to have the cores to itself as long as it runs,
            unless it asks for Spark; 0 for none.

    Returns:
        The exit code.
    """
    forbid_core_dumps()
    facts = identity.facts()
    key = identity.key(facts)
    os.chdir("/")  # no folder stays in use by it
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's: a process that forks should have no thread
    with folder.turn() as over:
        if folder.running(key) is not None:
            return 0
        folder.clear(key)
        with folder.place(key) as own:
            _redirect(own / "log")
            token, version = secrets.token_hex(16), _version()
            session = Session(own, os.getpid(), token, time.time(), idle, memory, version, facts)
            _serve(session, starter, over)
    return 0


def _redirect(log: Path) -> None:
    """Let go of what the process that started this one has given it to read and write."""
    with Path(os.devnull).open("rb") as nothing, log.open("wb") as written:
        os.dup2(nothing.fileno(), 0)
        for stream in (1, 2):
            os.dup2(written.fileno(), stream)


def _serve(session: Session, starter: int, begun: Callable[[], None]) -> None:
    lent = listen(session.spark)
    here, there = socket.socketpair()
    parent = os.getpid()
    keeper = os.fork()
    if not keeper:
        here.close()
        os.close(ANNOUNCED)
        _keep(session, lent, there, parent, starter)
    lent.close()
    there.close()
    server = Server(session, keeper, here, starter)
    session.write()
    folder.withdraw(ANNOUNCED)
    begun()
    server.serve()
    here.close()
    end = time.monotonic() + _END_SECONDS
    with suppress(ChildProcessError):
        while time.monotonic() < end and os.waitpid(keeper, os.WNOHANG)[0] == 0:
            time.sleep(0.02)


def _keep(
    session: Session, lent: socket.socket, told: socket.socket, parent: int, starter: int
) -> NoReturn:
    """Be the process that keeps Spark. It ends with the one that forked it, which decides when."""
    try:
        die_with(parent)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        while is_there(starter) and not select.select([lent, told], [], [], _LOOK_SECONDS)[0]:
            pass
        from lakeport.warm.keeper import keep  # half of the imports of a session: not before

        keep(session, lent, told, starter)
    finally:
        os._exit(1)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("lakeport")
    except PackageNotFoundError:
        return "unknown"
