"""The connection test of a destination: try, item by item, what a load needs.

The test asks the store first, by our own client, in under 10 seconds. For Delta tables in a cloud,
Spark starts meanwhile, and then commits to a log of its own, as it would to a table there.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from lakeport.config.load import load_target
from lakeport.destinations import delta_session, open_storage
from lakeport.engine.base import Engine, SessionRequest
from lakeport.engine.threads import choose_engine
from lakeport.errors import LakeportError
from lakeport.model import CheckItem
from lakeport.storage.checks import Checks, run_check
from lakeport.writers.naming import HOME

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import Target, TargetKeys
    from lakeport.engine.spark.delta.session import LogStoreProbe
    from lakeport.model import Storage

_SECONDS = 9.0
_SPARK_SECONDS = 70.0
_LATE_HINT = "check the endpoint, DNS, the proxy and the firewall."


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Report of a connection test.

    Attributes:
        target: the destination's URI.
        items: the checks in the order in which they were made.
    """

    target: str
    items: tuple[CheckItem, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed, so that a load would succeed."""
        return all(item.status != "failed" for item in self.items)


def check(
    to: Target | DestinationConfig | None = None,
    seconds: float = _SECONDS,
    spark_seconds: float | None = None,
    **keys: Unpack[TargetKeys],
) -> CheckReport:
    """Test the connection to a destination; return a report of each check.

    Args:
        to: as for `lakeport.land`; bucket and credentials are enough.
        seconds: after which the store's check fails if the store has not answered.
        spark_seconds: after which Spark's check, where tables need it, is skipped; None: it fails
            after 70 seconds. Both times count from now.
        keys: keys of the config, which win over those in `to`.

    Raises:
        MissingDependency: the destination's SDK is not installed.
        ConfigError: the config is wrong, or names a file that can't be read.
    """
    config = load_target(to, keys)
    end = time.monotonic() + (spark_seconds or _SPARK_SECONDS)
    storage = open_storage(config)
    tables = bool(config.connector_jars())
    with ExitStack() as stack:
        by_spark = tables and config.engine == "spark"
        begun = _start_spark(config, stack) if by_spark else None
        late = CheckItem("time", "failed", f"no answer within {seconds:g} s", _LATE_HINT)
        items = _run_within(seconds, lambda: _check_store(config, storage, tables=tables), late)
        if begun is not None and all(item.status != "failed" for item in items):
            waited = f"not done within {spark_seconds or _SPARK_SECONDS:g} s"
            late = CheckItem("spark", "failed", waited, "the machine may be overloaded; try again.")
            if spark_seconds:
                hint = "the store itself is fit; `lakeport check` waits longer for Spark."
                late = CheckItem("spark", "skipped", waited, hint)
            items += _run_within(
                end - time.monotonic(), lambda: _check_spark(config, storage, begun), late
            )
        return CheckReport(storage.uri(), items)


def _check_store(config: DestinationConfig, storage: Storage, *, tables: bool) -> Checks:
    """Yield results of the store's checks; if none fails, check the journal that `run_id` needs."""
    failed = False
    for item in storage.checks(tables=tables):
        failed |= item.status == "failed"
        yield item
    if config.run_id and config.file_type != "delta" and not failed:
        yield run_check("journal", lambda: _read_journal(storage))


def _read_journal(storage: Storage) -> str:
    """Look for a journal entry that does not exist, as a load of files does at first."""
    storage.get(f"{HOME}/journal/probe")
    return "the journal that `run_id` needs can be read"


def _start_spark(config: DestinationConfig, stack: ExitStack) -> Future[Engine]:
    """Start Spark in the background; return its engine, or the error. `stack` closes the engine."""
    begun = Future[Engine]()
    try:
        request = SessionRequest(config.jars, config.spark, warm=config.warm)
        engine = stack.enter_context(choose_engine(config.engine, request))
        engine.begin()
        begun.set_result(engine)
    except LakeportError as error:
        begun.set_exception(error)
    return begun


def _check_spark(config: DestinationConfig, storage: Storage, begun: Future[Engine]) -> Checks:
    """Wait for Spark, then test to commit, read, list and delete; stop at the first failure.

    A failed deletion counts as skipped, and so does a session of the user's without Delta.
    """
    logs: list[LogStoreProbe] = []

    def start() -> str:
        session = delta_session(config, storage, begun.result(), "", probes=False)()
        logs.append(session.probe(storage.hadoop_uri(f"_lakeport/check-{uuid.uuid4().hex}")))
        return "Spark runs, and has a log store for this place"

    found = run_check("spark", start)
    if found.status == "failed" and not begun.exception():
        engine = begun.result()
        if engine.adopted and engine.commits_by_log:
            detail = f"{found.detail} (which plain tables do not need)"
            found = CheckItem("spark", "skipped", detail, found.hint)
    yield found
    if found.status != "ok":
        return
    log = logs[0]
    steps = (
        ("spark write", log.write, "Spark can commit"),
        ("spark conditional write", log.refuse, "a commit can't be overwritten"),
        ("spark read", log.read, "Spark can read a commit"),
        ("spark list", log.list, "Spark can list commits"),
    )
    try:
        for name, step, success_detail in steps:
            found = _try_step(name, step, success_detail)
            yield found
            if found.status == "failed":
                return
        found = _try_step("spark delete", log.delete, "Spark can delete")
        if found.status == "ok":
            yield found
        else:
            yield CheckItem("spark delete", "skipped", f"{found.detail} (which only VACUUM needs)")
    finally:
        log.close()


def _try_step(name: str, step: Callable[[], None], success_detail: str) -> CheckItem:
    """Run a step; return its result as an item, with `success_detail` unless it fails."""

    def run() -> str:
        step()
        return success_detail

    return run_check(name, run)


def _run_within(
    seconds: float, run_checks: Callable[[], Checks], timeout_item: CheckItem
) -> tuple[CheckItem, ...]:
    """Run checks in a thread; after `seconds`, return the items so far and `timeout_item`."""
    found: queue.SimpleQueue[CheckItem | Exception | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            for item in run_checks():
                found.put(item)
        except Exception as error:
            found.put(error)
        else:
            found.put(None)

    threading.Thread(target=run, name="lakeport-check", daemon=True).start()
    deadline = time.monotonic() + seconds
    items: list[CheckItem] = []
    while True:
        try:
            item = found.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return (*items, timeout_item)
        if item is None:
            return tuple(items)
        if isinstance(item, Exception):
            raise item
        items.append(item)
