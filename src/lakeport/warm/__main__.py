"""`python -m lakeport.warm KEY IDLE MEMORY STARTER`: a warm session, begun by `host.warm.start`."""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import NoReturn

from lakeport.host.core_dumps import forbid_core_dumps
from lakeport.host.process import die_with, is_there
from lakeport.host.warm import identity
from lakeport.host.warm.channel import listen
from lakeport.host.warm.folder import Session, place
from lakeport.warm.server import Server

_END_SECONDS = 20.0
_LOOK_SECONDS = 0.1


def main(key: str, idle: str, memory: str, starter: str) -> int:
    """Be a warm session until it ends.

    Args:
        key: see `identity.key`.
        idle: seconds.
        memory: such as `2g`.
        starter: number of the process that is to have the cores to itself as long as it runs,
            unless it asks for Spark; 0 for none.
    """
    facts = identity.facts()
    if identity.key(facts) != key:
        sys.stderr.write("whoever started this session changed meanwhile\n")
        return 1
    forbid_core_dumps()
    os.chdir("/")  # no folder stays in use by it
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's: a process that forks should have no thread
    try:
        with place(key) as folder, (folder / "log").open("wb") as log:
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
            token, now = secrets.token_hex(16), time.time()
            version = _version()
            session = Session(folder, os.getpid(), token, now, float(idle), memory, version, facts)
            _serve(session, int(starter))
    except BlockingIOError:
        return 0  # somebody else was quicker
    return 0


def _serve(session: Session, starter: int) -> None:
    lent = listen(session.spark)
    here, there = socket.socketpair()
    parent = os.getpid()
    keeper = os.fork()
    if not keeper:
        here.close()
        _keep(session, lent, there, parent, starter)
    lent.close()
    there.close()
    server = Server(session, keeper, here, starter)
    session.write()
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


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
