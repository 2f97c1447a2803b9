"""Commits by delta-spark, for tables and sessions that commits by the log's files don't serve.

What became of a commit that failed is looked up in the log.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakeport.engine.spark.delta.transaction import DeltaTransaction, Operation, Restoration
from lakeport.errors import LakeportError
from lakeport.writers.delta.commit.outcome import settle
from lakeport.writers.delta.log.commits import CommitLog
from lakeport.writers.delta.log.reader import DataFile
from lakeport.writers.delta.schema import logical_paths
from lakeport.writers.delta.state import TableState

if TYPE_CHECKING:
    from lakeport.engine.types import SparkSession


class Transaction(DeltaTransaction):
    """One optimistic transaction on the newest version. Use each for one commit.

    Args:
        spark: a session with Delta's jars.
        commits: the table's log, read without Spark.

    Raises:
        LakeportError: the log can't be read.
    """

    def __init__(self, spark: SparkSession, commits: CommitLog) -> None:
        super().__init__(spark, commits.hadoop_uri)
        self._commits = commits

    def state(self) -> TableState | None:
        """The table as it is; None when there is none. May run a Spark job."""
        if self.version < 0:
            return None
        metadata = json.loads(self.metadata())["metaData"]
        protocol = json.loads(self.protocol())["protocol"]
        state = TableState(self.version, metadata, protocol)
        if "clustering" not in state.features:
            return state
        return replace(state, clustering=logical_paths(state.schema_json, self.clustering()))

    def last_transactions(self, apps: Collection[str]) -> dict[str, int]:
        """The number that each application has come to, -1 for none.

        Raises:
            SourceError: files of the log are missing or damaged, so that they do not tell.
            DestinationError: the store refused.
        """
        if self.version < 0:
            return dict.fromkeys(apps, -1)
        return self._commits.last_transactions(self.version, apps)

    def all_files(self) -> list[DataFile]:
        """Every file of the table. Any change to the table then conflicts with this commit."""
        return list(map(DataFile.of_add, self.all_adds()))

    def files_beside(self, actions: Sequence[str]) -> list[DataFile]:
        """The files in the partitions of these `add` actions, compared by value, not by spelling.

        Runs a Spark job. Only a change to those partitions conflicts with this commit.
        """
        return list(map(DataFile.of_add, self.adds_beside(actions)))

    def remove(self, files: Iterable[DataFile], *, changes_rows: bool = True) -> None:
        """Remove files with the commit.

        Args:
            files: the files.
            changes_rows: whether the table has other rows by the commit.
        """
        self.remove_adds((file.add() for file in files), changes_rows=changes_rows)

    def commit(self, actions: Sequence[str], operation: Operation | Restoration) -> int:
        """Commit, whatever blind appends others have made meanwhile.

        Args:
            actions: `add` and `txn` actions as JSON text.
            operation: what the history says.

        Returns:
            The new version.

        Raises:
            CommitConflict: another writer changed what this transaction has read; nothing landed.
            OutcomeUnknown: nothing tells whether the commit was made, or will be.
            LakeportError: it was not made.
        """
        try:
            return self.commit_actions(actions, operation)
        except LakeportError as failure:
            own = self.id
            return settle(
                self._commits, lambda c: c.info.get("txnId") == own, self.version, failure
            ).version
