"""What loads do, done for the first time on nothing: so that the first real time is quick."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeport.engine.spark.delta.transaction import DeltaTransaction, Operation
from lakeport.engine.spark.failures import translated
from lakeport.engine.spark.jobs import JobLabel, run_tasks, shared_folder

if TYPE_CHECKING:
    from lakeport.engine.spark.session import DriverSession


class FirstUse:
    """What is wanted of a session before its first use, each begun once in a thread of its own.

    It never fails: the work that comes later says what is wrong.
    """

    def __init__(self) -> None:
        self._wanted: dict[Callable[[DriverSession], None], bool] = {}  # and whether it was begun

    def want(self, *, workers: bool, commit: bool) -> None:
        """Want the Python workers, or what a commit needs, or both."""
        for body, wanted in ((_workers, workers), (_commit, commit)):
            if wanted:
                self._wanted.setdefault(body, False)

    def begin(self, session: DriverSession) -> None:
        """Begin what is wanted; waits for no session."""
        for body in [body for body, begun in self._wanted.items() if not begun]:
            self._wanted[body] = True
            threading.Thread(
                target=_when_idle, args=(session, body), name="lakeport-warm", daemon=True
            ).start()


def _when_idle(session: DriverSession, body: Callable[[DriverSession], None]) -> None:
    with suppress(Exception):
        if session.idle():
            body(session)


def _workers(session: DriverSession) -> None:
    """Start the Python workers, and let them do for the first time what tasks do."""
    run_tasks(session, JobLabel("start Python workers"), _warm_worker, range(session.cores))


def _commit(session: DriverSession) -> None:
    """Commit to a table of its own, so that the first real commit is quick."""
    with shared_folder(session) as folder, translated(session.secrets):
        if folder:
            commit(session, Path(folder), [("none.parquet", 1)], 0)


def _warm_worker(number: int) -> list[int]:
    """Let a worker do for the first time what its tasks will do."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1], "b": ["x"]}), pa.BufferOutputStream())
    return [number]


def commit(
    session: DriverSession, folder: Path, files: list[tuple[str, int]], version: int
) -> None:
    """Commit data files the way loads do, through Delta's own transaction."""
    now = int(time.time() * 1000)
    txn = DeltaTransaction(session.spark, str(folder))
    actions: list[dict[str, Any]] = [
        {
            "add": {
                "path": name,
                "partitionValues": {},
                "size": size,
                "modificationTime": now,
                "dataChange": True,
                "stats": json.dumps({"numRecords": 2}),
            }
        }
        for name, size in files
    ]
    actions.append({"txn": {"appId": "training", "version": version, "lastUpdated": now}})
    if txn.version < 0:
        columns = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (("id", "long"), ("name", "string"))
        ]
        metadata = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": columns}),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": now,
        }
        txn.set_metadata(json.dumps({"metaData": metadata}))
    # A write: after anything else, Delta works out the table's whole state for its checksum.
    txn.commit_actions([*map(json.dumps, actions)], Operation())
