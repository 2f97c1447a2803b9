"""Calls of the file system below a root: recorded, and made to fail, in the driver and in tasks.

What an HTTP proxy is for a store, this is for the local disk. Calls of `os` and `io.open` are
wrapped in this process, and in Spark's Python workers by the storage that tasks are handed (it is
pickled by value: workers can't import tests). Of the JVM's own calls, which only commit, the
commit as a whole stands for all.

A call at which a load dies is one that fails, after the process that the file `victim` tells of
has been killed.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pyspark import cloudpickle

from lakeport.config.destinations.local import LocalConfig
from lakeport.engine.spark.delta.transaction import DeltaTransaction
from lakeport.errors import SparkFailure
from lakeport.storage.local import LocalStageWriter, LocalStorage
from tests.faults.requests import naming
from tests.faults.requests.faults import Fault
from tests.faults.requests.naming import kind_of
from tests.faults.requests.proxy import Point

if TYPE_CHECKING:
    from tests.faults.requests.sites import Place

_CALLS = ("link", "unlink", "replace", "rename", "mkdir", "scandir", "fsync")


@dataclass
class FileScript:
    """What became of one load's calls.

    Attributes:
        at: the call that fails.
        seen: every call, in order.
    """

    at: Point | None
    seen: list[Point] = field(default_factory=list)

    @property
    def hit(self) -> bool:
        """Whether the call came."""
        return self.at in self.seen


class FileCalls:
    """Stands between loads and the disk.

    Args:
        folder: for what the processes of a load share: `plan`, what is to fail; `calls`, the log.
    """

    endpoint = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def script(
        self, place: Place, at: Point | None = None, fault: Fault | None = None
    ) -> Iterator[FileScript]:
        """Record, and have one call fail, within the block.

        Args:
            place: the folder whose calls count.
            at: which fails; None for none.
            fault: how it fails.
        """
        entry: dict[str, Any] = {"root": place.target.uri}
        if at is not None and fault is not None:
            entry |= {"at": [at.name, at.ordinal], "forwarded": fault.forwarded}
            entry |= {"errno": fault.status or errno.EIO, "everywhere": fault.everywhere}
        script = FileScript(at)
        plan, log = self.folder / "plan", self.folder / "calls"
        log.write_text("")
        plan.write_text(json.dumps(entry))
        try:
            with _watched(str(self.folder)):
                yield script
        finally:
            plan.unlink()
            (self.folder / "victim").unlink(missing_ok=True)
            names = log.read_text().splitlines()
            script.seen += [Point(n, names[: i + 1].count(n)) for i, n in enumerate(names)]


@contextmanager
def dying(folder: Path) -> Iterator[None]:
    """Have this process die at the call that another one's script names, within the block."""
    (folder / "victim").write_text(str(os.getpid()))
    with _watched(str(folder)):
        yield


def _decide(folder: str, call: str, path: str) -> tuple[int, bool]:
    """Note a call; return the errno that it fails with, 0 for none, and whether after its work."""
    try:
        with open(f"{folder}/plan") as file:  # noqa: PTH123  # paths open with what is wrapped
            plan = json.load(file)
    except FileNotFoundError:
        return 0, False
    if not f"{path}/".startswith(f"{plan['root']}/"):
        return 0, False
    name = f"{call} {kind_of(path.removeprefix(plan['root']).strip('/')) or '/'}"
    with open(f"{folder}/calls", "r+") as log:  # noqa: PTH123
        fcntl.flock(log, fcntl.LOCK_EX)
        names = [*log.read().splitlines(), name]
        log.write(f"{name}\n")
    at = plan.get("at")
    reached = at is not None and names.count(at[0]) >= at[1]
    if reached and (plan["everywhere"] or [name, names.count(name)] == at):
        return plan["errno"], plan["forwarded"]
    return 0, False


def _path_of(argument: Any) -> str:
    """The path that a call concerns: of a link or a rename, its target's."""
    if isinstance(argument, int):
        return str(Path(f"/proc/self/fd/{argument}").readlink())
    return str(argument)


def _wrapped(folder: str, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    two = name in ("link", "replace", "rename")

    def wrapped(*arguments: Any, **keys: Any) -> Any:
        path = _path_of(arguments[1 if two else 0])
        what = f"{name} {arguments[1]}" if name == "open" and len(arguments) > 1 else name
        error, after = _decide(folder, what, path)
        if error and not after:
            raise _failure(folder, error, path)
        result = call(*arguments, **keys)
        if error:
            if name == "open":
                result.close()
            raise _failure(folder, error, path)
        return result

    return wrapped


def _failure(folder: str, error: int, path: str) -> OSError:
    """What a call fails with; whoever is to die of it is dead by then."""
    with suppress(FileNotFoundError), open(f"{folder}/victim") as victim:  # noqa: PTH123
        os.kill(int(victim.read()), signal.SIGKILL)
    return OSError(error, os.strerror(error), path)


def _patches(folder: str) -> list[Any]:
    calls = [patch.object(os, name, _wrapped(folder, name, getattr(os, name))) for name in _CALLS]
    return [*calls, patch.object(io, "open", _wrapped(folder, "open", io.open))]


@dataclass(frozen=True)
class _Watched(LocalStorage):
    """Watches the calls of the process that it stages files in."""

    watched_by: str = ""

    def stage(self, *arguments: Any) -> LocalStageWriter:
        if os.link.__name__ != "wrapped":
            for each in _patches(self.watched_by):
                each.start()  # for as long as the worker lives: no plan, no faults
        return super().stage(*arguments)


@contextmanager
def _watched(folder: str) -> Iterator[None]:
    """Watch the calls of this process, of tasks, and of the JVM as far as it commits."""
    modules = (sys.modules[__name__], naming)
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    commit = DeltaTransaction.commit_actions

    def committed(self: DeltaTransaction, *arguments: Any) -> int:
        root = json.loads(Path(folder, "plan").read_text())["root"]
        error, after = _decide(folder, "commit", root)
        if error and not after:
            raise SparkFailure(f"the disk refused: {_failure(folder, error, root)}")
        version = commit(self, *arguments)
        if error:
            raise SparkFailure(f"the disk refused: {_failure(folder, error, root)}")
        return version

    def storage(self: LocalConfig) -> LocalStorage:
        return _Watched(str(self.path), folder)

    try:
        with ExitStack() as stack:
            for each in _patches(folder):
                stack.enter_context(each)
            stack.enter_context(patch.object(DeltaTransaction, "commit_actions", committed))
            stack.enter_context(patch.object(LocalConfig, "storage", storage))
            yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
