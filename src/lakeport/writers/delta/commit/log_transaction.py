"""Commits of plain tables by their log's files alone: no Spark, no Java.

A commit is one file that only one writer can create; whoever comes second looks at what the first
has done, and follows it or plans anew. Source: Delta's protocol. What a table of more features
needs, delta-spark does (`transaction`).
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from lakeport import __version__
from lakeport.engine.base import EngineReport
from lakeport.engine.spark.delta.transaction import Operation, conflict
from lakeport.errors import LakeportError, ObjectExists, OutcomeUnknown
from lakeport.model import Mode, Storage
from lakeport.writers.delta.commit.outcome import settle
from lakeport.writers.delta.commit.transaction import Transaction
from lakeport.writers.delta.log.actions import action_line
from lakeport.writers.delta.log.checkpoint import checkpoint_due, small, write_checkpoint
from lakeport.writers.delta.log.commits import Commit, CommitLog
from lakeport.writers.delta.log.reader import (
    STATE,
    TABLE,
    Contents,
    DataFile,
    LogFiles,
    replay,
)
from lakeport.writers.delta.plain import leaves_plain, plain
from lakeport.writers.delta.plan import DeltaPlan
from lakeport.writers.delta.state import TableState

_PROTOCOL: Final = {"minReaderVersion": 1, "minWriterVersion": 2}
_log = logging.getLogger(__name__)


class LogTransaction:
    """One optimistic transaction. Use each for one commit.

    Args:
        storage: where the table is.
        folder: its key; empty when it is the storage's root.
        contents: what the table holds; None where there is none.

    Attributes:
        version: the version that it has read; -1 for no table.
        engine: what ran the tasks whose files are committed, for the history.
    """

    def __init__(self, storage: Storage, folder: str, contents: Contents | None) -> None:
        self._storage = storage
        self._folder = folder
        self._contents = contents
        self._commits = CommitLog(storage, folder)
        self._watched: set[str] = set()
        self._removed: list[tuple[DataFile, bool]] = []
        self._metadata: str | None = None
        self._read_all = False
        self._reads: Callable[[Mapping[str, str | None]], bool] | None = None
        self.engine = EngineReport()
        self.version = -1 if contents is None else contents.state.version

    @classmethod
    def begin(cls, storage: Storage, folder: str, plan: DeltaPlan) -> LogTransaction | None:
        """Start on the newest version; None where only delta-spark can commit what is planned.

        Raises:
            DestinationError: the store refused.
        """
        if not leaves_plain(plan):
            return None
        log = LogFiles.recent(storage, folder)
        if log.newest < 0:
            return cls(storage, folder, None)
        wanted = STATE
        if plan.mode is not Mode.APPEND:
            wanted |= TABLE
            if not small(log):
                return None
        contents = replay(storage, log, log.newest, wanted)
        if contents is None or not plain(contents.state):
            return None
        return cls(storage, folder, contents)

    def state(self) -> TableState | None:
        """The table as it is; None when there is none."""
        return None if self._contents is None else self._contents.state

    def watch(self, app_id: str) -> None:
        """Conflict with commits that others make for the same application."""
        self._watched.add(app_id)

    def last_transactions(self, apps: Collection[str]) -> dict[str, int]:
        """The number that each application has come to, -1 for none.

        Raises:
            DestinationError: the store refused.
        """
        known = {} if self._contents is None else self._contents.transactions
        return self._commits.told_by(self.version, known, apps)

    def all_files(self) -> list[DataFile]:
        """Every file of the table. Any change to the table then conflicts with this commit."""
        self.read_all()
        return list(self.files())

    def files(self) -> Sequence[DataFile]:
        """Every file of the table."""
        return () if self._contents is None else self._contents.files

    def set_metadata(self, action: str, *, replaces: bool = False) -> None:
        """Change the table's schema, or create the table.

        Args:
            action: a `metaData` action as JSON text.
            replaces: the schema need not fit the data files that are there, as these are removed.
        """
        self._metadata = action

    def read_all(self) -> None:
        """Have any change to the table conflict with this commit."""
        self._read_all = True

    def files_of(self, reads: Callable[[Mapping[str, str | None]], bool]) -> list[DataFile]:
        """Return the files of some partitions; a change to these then conflicts with this commit.

        Args:
            reads: whether partition values, as the log spells them, are of one of them.
        """
        self._reads = reads
        return [file for file in self.files() if reads(file.partition)]

    def remove(self, files: Iterable[DataFile], *, changes_rows: bool = True) -> None:
        """Remove files with the commit.

        Args:
            files: the files.
            changes_rows: whether the table has other rows by the commit.
        """
        self._removed += [(file, changes_rows) for file in files]

    def commit(self, actions: Sequence[str], operation: Operation) -> int:
        """Commit, whatever blind appends others have made meanwhile: as `Transaction.commit`."""
        own = str(uuid.uuid4())
        data = "".join(f"{line}\n" for line in self._lines(actions, operation, own)).encode()
        version = self.version + 1
        while True:
            try:
                self._storage.put(self._commits.key(version), data, create_only=True)
                break
            except ObjectExists:
                other = self._commits.read(version)
                if other is None:
                    key = self._storage.uri(self._commits.key(version))
                    failure = OutcomeUnknown(f"{key} is said to exist, and is not there", "")
                    return self._settled(own, failure)
                if other.info.get("txnId") == own:
                    break
                self._check_followed(other)
                version += 1
            except LakeportError as failure:
                return self._settled(own, failure)
        self._checkpoint(version)
        return version

    def _settled(self, own: str, failure: LakeportError) -> int:
        """The version that the commit was made as, whatever its maker was told; see `settle`."""
        ours = settle(self._commits, lambda c: c.info.get("txnId") == own, self.version, failure)
        return ours.version

    def _lines(self, actions: Sequence[str], operation: Operation, own: str) -> list[str]:
        """The commit, an action a line."""
        now = int(time.time() * 1000)
        lines = [action_line("commitInfo", self._info(operation, own, now))]
        if self._contents is None:
            lines.append(action_line("protocol", _PROTOCOL))
        if self._metadata is not None:
            lines.append(self._metadata)
        lines += [
            action_line("remove", _removal(file, now, changes_rows=changes_rows))
            for file, changes_rows in self._removed
        ]
        return [*lines, *actions]

    def _info(self, operation: Operation, own: str, now: int) -> dict[str, Any]:
        """What the history says, in delta-spark's words."""
        return {
            "timestamp": now,
            "operation": operation.name,
            "operationParameters": {**_parameters(operation), **self.engine.parameters},
            **({"readVersion": self.version} if self.version >= 0 else {}),
            "isolationLevel": "Serializable",
            "isBlindAppend": not (self._read_all or self._reads),
            "operationMetrics": {name: str(value) for name, value in operation.metrics.items()},
            "userMetadata": operation.user_metadata,
            "engineInfo": " ".join(filter(None, [f"lakeport/{__version__}", self.engine.info])),
            "txnId": own,
        }

    def _check_followed(self, other: Commit) -> None:
        """See that what this transaction has read still holds after another writer's commit.

        Raises:
            CommitConflict: it does not.
        """
        follows = (
            other.protocol is None
            and not other.changes_metadata
            and self._metadata is None
            and not self._read_all
            and self._watched.isdisjoint(other.transactions)
            and (self._reads is None or self._is_apart(other, self._reads))
        )
        if not follows:
            raise conflict()

    @staticmethod
    def _is_apart(other: Commit, reads: Callable[[Mapping[str, str | None]], bool]) -> bool:
        """Whether a commit changed nothing in the partitions that were read."""
        if other.removed_from is None:
            return False
        return not any(map(reads, (*other.touched, *other.removed_from)))

    def _checkpoint(self, version: int) -> None:
        """Write a checkpoint where one is due. The commit is durable: nothing may fail now."""
        state = self.state()
        if state is None or not checkpoint_due(version, state.properties):
            return
        try:
            write_checkpoint(self._storage, self._folder, version)
        except Exception as error:
            _log.info("no checkpoint of %s, version %d: %s", self._commits.uri, version, error)


TableTransaction = Transaction | LogTransaction
"""A transaction of either kind."""


def _parameters(operation: Operation) -> dict[str, str]:
    """What the history says of how the rows were changed, in delta-spark's words."""
    if operation.name != "WRITE":
        actions = {"matched": "update", "notMatched": "insert"} if operation.name == "MERGE" else {}
        clauses = {f"{k}Predicates": json.dumps([{"actionType": v}]) for k, v in actions.items()}
        return {"predicate": json.dumps([operation.condition]), **clauses}
    columns = operation.partition_columns
    by = {"partitionBy": json.dumps(columns, ensure_ascii=False)} if columns else {}
    return {"mode": "Overwrite" if operation.overwrite else "Append", **by}


def _removal(file: DataFile, now: int, *, changes_rows: bool) -> dict[str, Any]:
    known = {"partitionValues": file.partition, "size": file.size, "tags": file.tags}
    return {
        "path": file.path,
        "deletionTimestamp": now,
        "extendedFileMetadata": True,
        "dataChange": changes_rows,
        **{name: value for name, value in known.items() if value or name == "partitionValues"},
    }
