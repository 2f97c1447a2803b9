"""The daemon of Python's workers, started while the JVM starts, and all imported when Spark asks.

```
driver ──starts──▶ standby daemon: imports, waits ◀──pipes, environment──┐
driver ──starts──▶ JVM ──first task: starts──▶ daemon: hands over ───────┘, lives as long
```
Spark's own daemon then is only a placeholder. Where there is no standby it does the work itself.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from lakeport.host.core_dumps import forbid_core_dumps

ADDRESS: Final = "LAKEPORT_STANDBY"
"""Environment variable of the JVM's that names the socket."""

_PIPES: Final = 3  # standard input, output and error
_TAKEN: Final = b"+"
_SECONDS: Final = 60.0  # for a hand-over: the standby may have to import for a while yet


def start(address: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a daemon on standby, in a process group of its own; it ends with this process.

    Args:
        address: its socket, in a private folder.
        environment: what Python or the C library read when they start; the rest comes later.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "lakeport.engine.spark.daemon", str(address)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONHASHSEED": "0", **environment},
        process_group=0,
    )
    forbid_core_dumps(process.pid)
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """End a daemon on standby, and the workers that it has forked. Fine if it has ended."""
    if process.returncode is None:  # else the number may be another's by now
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()
    process.wait()


def listen(address: str) -> socket.socket:
    """What `take_over` waits at; the address is there once it can be reached."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen(1)
    Path(f"{address}.new").rename(address)
    return listener


def take_over(listener: socket.socket) -> socket.socket | None:
    """Wait for the daemon that Spark starts, and become it: its pipes, environment and path.

    Returns:
        The connection, to be held open until this process ends; None if the driver has ended.
    """
    ready, _, _ = select.select([listener, sys.stdin], [], [])
    if sys.stdin in ready:
        return None
    connection, _ = listener.accept()
    listener.close()
    message, pipes, _, _ = socket.recv_fds(connection, 1 << 16, _PIPES)
    while not message.endswith(b"\n"):
        message += connection.recv(1 << 16)
    given = json.loads(message)
    os.environ.clear()
    os.environ.update(given["environment"])
    sys.path[:] = given["path"]
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    connection.sendall(_TAKEN)
    return connection


def hand_over(address: str) -> bool:
    """Have the daemon on standby take this process' place, and wait until it ends.

    Returns:
        Whether there was one.
    """
    given = {"environment": dict(os.environ), "path": sys.path}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS)
        try:
            connection.connect(address)
            message = json.dumps(given).encode() + b"\n"
            sent = socket.send_fds(connection, [message], range(_PIPES))
            if rest := message[sent:]:  # who has all of it may be done already, and gone
                connection.sendall(rest)
            if connection.recv(1) != _TAKEN:
                return False
        except OSError:
            return False
        for pipe in range(_PIPES):
            os.close(pipe)
        connection.settimeout(None)
        with suppress(OSError):
            connection.recv(1)
    return True
