"""PySpark's worker daemon, which imports what tasks need before it forks, so workers start warm.

```
driver ──starts──▶ daemon on standby: imports, waits ◀──pipes, environment──┐
driver ──starts──▶ JVM ──first task: starts──▶ daemon: hands over ──────────┘, lives as long
```
So the imports run while the JVM starts. The daemon that Spark starts only hands its place over. The
first task waits for it, so this module imports little. Without a standby it does the work itself.
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
"""Environment variable of the JVM with the path of the standby's socket."""

_PIPES: Final = 3  # standard input, output and error
_ACCEPTED: Final = b"+"
_HAND_OVER_SECONDS: Final = 60.0  # the standby may still be importing
_PRELOAD_DELAY_SECONDS: Final = 3.0  # until Spark has forked its first workers

# Modules that the tasks of every source and sink import. Merges import theirs later: pyarrow's
# datasets take 50 ms.
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
    """Start a daemon of Python workers that waits at socket `address` until Spark needs it.

    It ends with this process. Its environment has the variables that Python or the C library read
    at their start.
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
    """Kill a standby daemon and its workers, and wait for its end; fine if it has ended."""
    if process.returncode is None:  # else another process may have the id by now
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def open_socket(address: str) -> socket.socket:
    """Return a listening Unix socket; its file appears at `address` once clients can connect."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen(1)
    Path(f"{address}.new").rename(address)
    return listener


def replace_daemon(listener: socket.socket) -> socket.socket:
    """Wait for the daemon that Spark starts; take over its pipes, environment and `sys.path`.

    The returned connection has to stay open until this process ends.
    """
    connection, _ = listener.accept()
    listener.close()
    message, pipes, _, _ = socket.recv_fds(connection, 1 << 16, _PIPES)
    while not message.endswith(b"\n"):
        message += connection.recv(1 << 16)
    state = json.loads(message)
    os.environ.clear()
    os.environ.update(state["environment"])
    sys.path[:] = state["path"]
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    connection.sendall(_ACCEPTED)
    return connection


def hand_over_to_standby(address: str) -> bool:
    """Give this process's pipes to the standby daemon and wait for its end; False without one."""
    state = {"environment": dict(os.environ), "path": sys.path}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_HAND_OVER_SECONDS)
        try:
            connection.connect(address)
            message = json.dumps(state).encode() + b"\n"
            sent = socket.send_fds(connection, [message], range(_PIPES))
            if rest := message[sent:]:  # a daemon that has it all may have ended already
                connection.sendall(rest)
            if connection.recv(1) != _ACCEPTED:
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
    """Run the daemon: import modules, then fork workers until Spark closes the pipe.

    With a socket's path as argument it first waits on standby. Without one it hands over to a
    standby, if there is one.
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
    """Remove Spark's own jar, which has no Python, from `sys.path`.

    Each worker would read the jar's list of files twice, as PySpark clears the caches of its
    importers: 40 to 80 ms.
    """
    for entry in [each for each in sys.path if Path(each).name.startswith("spark-core_")]:
        sys.path.remove(entry)
        sys.path_importer_cache.pop(entry, None)


def _is_standby() -> bool:
    """Whether the argument is a socket's path; Spark gives a module's name."""
    return sys.argv[1:] != [] and Path(sys.argv[1]).is_absolute()


def _import_modules() -> None:
    """Import the installed modules that tasks need, and exempt them from garbage collection."""
    from lakeport.host.packages import hide_pandas

    for name in _MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            # A task that needs the module says so; the daemon has to start in any case.
            continue
    with suppress(ImportError), hide_pandas():
        importlib.import_module("pyarrow").scalar(None)  # it looks for pandas here, once
    _freeze_objects()


def _preload_sdks(number: int, frame: object) -> None:
    """Signal handler: import the cloud stores' SDKs once, so that forked workers need not."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with suppress(ImportError):
        importlib.import_module(_STORES).preload_sdks()
    _freeze_objects()


def _freeze_objects() -> None:
    """Have the garbage collector skip all present objects from now on."""
    gc.collect()
    gc.freeze()


def _freeze_new_modules(worker: _W) -> _W:
    """Wrap PySpark's worker function: the garbage collector skips modules that a task loads.

    PySpark collects garbage after each task: 20 to 30 ms with a store's SDK loaded.
    """

    def work(*connection: Any) -> int:
        known = len(sys.modules)
        code = worker(*connection)
        if len(sys.modules) > known:
            _freeze_objects()
        return code

    return cast("_W", work)


if __name__ == "__main__":
    main()
