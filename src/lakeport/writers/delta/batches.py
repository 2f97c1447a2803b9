"""Which batches of a run a table has already: a run that is repeated lands each of them once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeport.errors import RunMismatch
from lakeport.model import Landed
from lakeport.writers.delta.log.commits import CommitLog, app_id

if TYPE_CHECKING:
    from lakeport.writers.delta.commit.transaction import Transaction

__all__ = ["LandedBatches"]


@dataclass(frozen=True)
class LandedBatches:
    """The batches of one stream that are in its table.

    Attributes:
        commits: the table's.
        stream: the stream's name.
        uri: the table, as users name it.
    """

    commits: CommitLog
    stream: str
    uri: str

    def landed(
        self, run_id: str, sequence: int, digest: str, begin: Callable[[], Transaction]
    ) -> Landed | None:
        """What an earlier run with this id has landed of a batch.

        Args:
            run_id: of the run; empty for none.
            sequence: the batch's ordinal among the stream's batches of the run.
            digest: SHA-256 of the input in hex.
            begin: asks Delta, where the log files do not tell.

        Raises:
            RunMismatch: the batch that it landed was another one.
            DestinationError: the store refused.
        """
        version = self.commits.newest() if run_id else -1
        if version < 0:
            return None
        name = app_id(run_id, self.stream)
        last = self.commits.last_transaction(version, name)
        if last is None:
            last = begin().last_transaction(name)
        return None if last < sequence else self.skipped(version, run_id, sequence, digest)

    def reached(self, txn: Transaction, run_id: str) -> int:
        """How far the run has come; a commit of the same run in the meantime is a conflict."""
        name = app_id(run_id, self.stream)
        txn.watch(name)
        if txn.version < 0:
            return -1
        last = self.commits.last_transaction(txn.version, name)
        return txn.last_transaction(name) if last is None else last

    def skipped(self, version: int, run_id: str, sequence: int, digest: str) -> Landed:
        """A batch that is there already, if it is the same one.

        Raises:
            RunMismatch: it is another one.
        """
        known = self.commits.recorded(version, run_id, self.stream, sequence)
        if known is not None and known.digest != digest:
            raise RunMismatch(
                f"run {run_id!r} has landed batch {sequence} of stream {self.stream!r} already, "
                "with other content",
                "repeat a run with the same input and batch sizes, or give it a new `run_id`.",
            )
        warnings = (
            ()
            if known
            else (
                f"batch {sequence} was landed by an earlier run, whose commit is no longer in the "
                "log: its content could not be compared.",
            )
        )
        return Landed(
            self.stream, self.uri, sequence, 0, version=version, skipped=True, warnings=warnings
        )
