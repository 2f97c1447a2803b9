"""PySpark's worker daemon with what tasks need imported before it forks: workers start warm.

```
driver ──starts──▶ daemon on standby: imports, waits ◀──pipes, environment──┐
driver ──starts──▶ JVM ──first task: starts──▶ daemon: hands over ──────────┘, lives as long
```
So it imports while the JVM starts. The daemon that Spark starts is only a placeholder then, and the
first task waits for it: this module imports little. Where none is on standby it does the work
itself.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

if TYPE_CHECKING:
    import subprocess

_W = TypeVar("_W", bound=Callable[..., int])
ADDRESS: Final = "LAKEPORT_STANDBY"
"""Environment variable of the JVM's that names the socket."""

_PIPES: Final = 3  # standard input, output and error
_TAKEN: Final = b"+"
_HAND_OVER_SECONDS: Final = 60.0  # the standby may have to import for a while yet
_PRELOAD_DELAY_SECONDS: Final = 3.0  # after which Spark's first tasks have been forked

# What the tasks of every source and sink import. Merges load theirs when there is one: pyarrow's
# datasets take 50 ms, which others need not wait for.
_MODULES: Final = (
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.parquet",
    "msgspec",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "lakeport.model",
    "lakeport.errors",
    "lakeport.engine.spark.jobs",
    "lakeport.schema.types",
    "lakeport.sources.json.reader",
    "lakeport.sources.json.inference",
    "lakeport.shape",
    "lakeport.sources.csv.inference",
    "lakeport.sources.csv.reader",
    "lakeport.sources.frames",
    "lakeport.sources.typed.typed_plan",
    "lakeport.storage.local",
    "lakeport.loading.stream",
    "lakeport.writers.delta.sink",
    "lakeport.writers.files.encode",
    "lakeport.writers.files.sink",
)
_STORES: Final = "lakeport.storage.base"


def start_standby(address: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a daemon on standby, in a process group of its own; it ends with this process.

    Args:
        address: its socket, in a private folder.
        environment: what Python or the C library read when they start; the rest comes later.
    """
    from subprocess import DEVNULL

    from lakeport.host.process import forbid_core_dumps, start_bound_process

    process = start_bound_process(
        [sys.executable, "-m", "lakeport.engine.spark.daemon", str(address)],
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
        env=os.environ | {"PYTHONHASHSEED": "0", **environment},
        process_group=0,
    )
    forbid_core_dumps(process.pid)
    return process


def end_standby(process: subprocess.Popen[bytes]) -> None:
    """End a daemon on standby, and the workers that it has forked. Fine if it has ended."""
    if process.returncode is None:  # else the number may be another's by now
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def open_socket(address: str) -> socket.socket:
    """Open the socket at which `replace_daemon` waits; its file appears once it can be reached."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen(1)
    Path(f"{address}.new").rename(address)
    return listener


def replace_daemon(listener: socket.socket) -> socket.socket:
    """Wait for the daemon that Spark starts, and become it: its pipes, environment and path.

    Returns:
        The connection, to be held open until this process ends.
    """
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


def hand_over_to_standby(address: str) -> bool:
    """Have the daemon on standby take this process' place, and wait until it ends.

    Returns:
        Whether there was one.
    """
    given = {"environment": dict(os.environ), "path": sys.path}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_HAND_OVER_SECONDS)
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


def main() -> None:
    """Import, then serve forks until Spark closes the pipe.

    With an address as its argument: on standby. Else whoever is on standby serves, if anybody is.
    """
    address = os.environ.get(ADDRESS)
    if _is_standby():
        listener = open_socket(sys.argv[1])
        _import_modules()
        connection = replace_daemon(listener)  # noqa: F841  # the placeholder ends with it
    elif address and hand_over_to_standby(address):
        return
    else:
        _import_modules()
    from pyspark import daemon

    _remove_spark_jar()
    daemon.worker = _freeze_new_modules(daemon.worker)
    if "SPARK_REUSE_WORKER" not in os.environ:  # a worker for each task: see the warm sessions
        signal.signal(signal.SIGALRM, _preload_sdks)
        signal.setitimer(signal.ITIMER_REAL, _PRELOAD_DELAY_SECONDS)  # forks have no timer
    daemon.manager()


def _remove_spark_jar() -> None:
    """Take Spark's own jar, which has no Python, off the path on which modules are looked for.

    Each worker would read the jar's list of files twice, as PySpark has its importers forget what
    they know: 40 to 80 ms.
    """
    for entry in [each for each in sys.path if Path(each).name.startswith("spark-core_")]:
        sys.path.remove(entry)
        sys.path_importer_cache.pop(entry, None)


def _is_standby() -> bool:
    return sys.argv[1:] != [] and Path(sys.argv[1]).is_absolute()  # Spark gives a module's name


def _import_modules() -> None:
    """Import what tasks need."""
    from lakeport.host.packages import hide_pandas

    for name in _MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            # A task that needs it says so itself; the daemon must come up in any case.
            continue
    with suppress(ImportError), hide_pandas():
        importlib.import_module("pyarrow").scalar(None)  # it looks for pandas now, and in vain
    _freeze_objects()


def _preload_sdks(number: int, frame: object) -> None:
    """Load what tasks need that reach a store; workers of one task would each do it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with suppress(ImportError):
        importlib.import_module(_STORES).preload_sdks()
    _freeze_objects()


def _freeze_objects() -> None:
    """Have the collector pass over all that is there now."""
    gc.collect()
    gc.freeze()


def _freeze_new_modules(worker: _W) -> _W:
    """A worker whose collector passes over the modules that its tasks have loaded.

    Spark collects after each task: 20 to 30 ms where a store's SDK is loaded.
    """

    def work(*connection: Any) -> int:
        known = len(sys.modules)  # those of the daemon grow
        code = worker(*connection)
        if len(sys.modules) > known:
            _freeze_objects()
        return code

    return cast("_W", work)


if __name__ == "__main__":
    main()
