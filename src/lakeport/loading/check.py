"""The connection test: item by item, what a load into a destination needs.

The store is asked first, through our own client, which takes under 10 seconds. For Delta tables in
a cloud, Spark starts meanwhile, and then commits to a log of its own, as it does to tables there.
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
from lakeport.storage.checks import CheckItem, Checks, item_of
from lakeport.writers.naming import HOME

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import Target, TargetKeys
    from lakeport.engine.base import LogStoreProbe
    from lakeport.model import Storage

_SECONDS = 9.0
_SPARK_SECONDS = 70.0
_LATE_HINT = "check the endpoint, DNS, the proxy and the firewall."


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a connection test found.

    Attributes:
        target: the destination's URI.
        items: in the order in which they were looked at.
    """

    target: str
    items: tuple[CheckItem, ...]

    @property
    def ok(self) -> bool:
        """Whether a load would get through."""
        return all(item.status != "failed" for item in self.items)


def check(
    to: Target | DestinationConfig,
    seconds: float = _SECONDS,
    spark_seconds: float | None = None,
    **keys: Unpack[TargetKeys],
) -> CheckReport:
    """Test the connection to a destination.

    Args:
        to: as for `lakeport.land`; bucket and credentials are enough.
        seconds: after which the store counts as failed if it has not answered.
        spark_seconds: after which Spark, where tables need it, counts as not looked at; None: it
            counts as failed, after 70 seconds. Both count from now.
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
        begun = _begin_spark(config, storage, stack) if by_spark else None
        late = CheckItem("time", "failed", f"no answer within {seconds:g} s", _LATE_HINT)
        items = _within(seconds, lambda: _all(config, storage, tables=tables), late)
        if begun is not None and all(item.status != "failed" for item in items):
            waited = f"not done within {spark_seconds or _SPARK_SECONDS:g} s"
            late = CheckItem("spark", "failed", waited, "the machine may be overloaded; try again.")
            if spark_seconds:
                hint = "the store itself is fit; `lakeport check` waits longer for Spark."
                late = CheckItem("spark", "skipped", waited, hint)
            items += _within(end - time.monotonic(), lambda: _spark_items(begun), late)
        return CheckReport(storage.uri(), items)


def _all(config: DestinationConfig, storage: Storage, *, tables: bool) -> Checks:
    failed = False
    for item in storage.checks(tables=tables):
        failed |= item.status == "failed"
        yield item
    if config.run_id and config.file_type != "delta" and not failed:
        yield item_of("journal", lambda: _journal(storage))


def _journal(storage: Storage) -> str:
    """What a load of files does first: looking for a run's entry, which is not there yet."""
    storage.get(f"{HOME}/journal/probe")
    return "the journal that `run_id` needs can be read"


def _begin_spark(
    config: DestinationConfig, storage: Storage, stack: ExitStack
) -> Callable[[], LogStoreProbe]:
    """Have Spark start, and `stack` close its engine.

    Returns:
        Waits for Spark, or raises what went wrong.
    """
    begun = Future[Engine]()
    try:
        request = SessionRequest(config.jars, config.spark, warm=config.warm)
        engine = stack.enter_context(choose_engine(config.engine, request))
        engine.begin()
        begun.set_result(engine)
    except LakeportError as error:
        begun.set_exception(error)

    def ready() -> LogStoreProbe:
        engine = begun.result()
        session = delta_session(config, storage, engine, "", writes=False)()
        return session.probe(storage.hadoop_uri(f"_lakeport/check-{uuid.uuid4().hex}"))

    return ready


def _spark_items(begun: Callable[[], LogStoreProbe]) -> Checks:
    """One commit through Spark, step by step; a failure ends it, except that of the last."""
    logs: list[LogStoreProbe] = []

    def start() -> str:
        logs.append(begun())
        return "Spark runs, and has a log store for this place"

    found = item_of("spark", start)
    yield found
    if found.status == "failed":
        return
    log = logs[0]
    steps = (
        ("spark write", log.write, "Spark can commit"),
        ("spark conditional write", log.refuse, "a commit can't be overwritten"),
        ("spark read", log.read, "Spark can read a commit"),
        ("spark list", log.list, "Spark can list commits"),
    )
    try:
        for name, step, words in steps:
            found = _item(name, step, words)
            yield found
            if found.status == "failed":
                return
        found = _item("spark delete", log.delete, "Spark can delete")
        if found.status == "ok":
            yield found
        else:
            yield CheckItem("spark delete", "skipped", f"{found.detail} (which only VACUUM needs)")
    finally:
        log.close()


def _item(name: str, step: Callable[[], None], words: str) -> CheckItem:
    def run() -> str:
        step()
        return words

    return item_of(name, run)


def _within(seconds: float, begin: Callable[[], Checks], late: CheckItem) -> tuple[CheckItem, ...]:
    """Run the checks in a thread; when the time is over it is left alone, and `late` comes last."""
    found: queue.SimpleQueue[CheckItem | Exception | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            for item in begin():
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
            return (*items, late)
        if item is None:
            return tuple(items)
        if isinstance(item, Exception):
            raise item
        items.append(item)
