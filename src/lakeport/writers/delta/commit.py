"""Commit changes to Delta tables: the change as a value, the transaction, and a commit's outcome.

```
TableChange ─┬▶ TableTransaction ─┬▶ the log's next file, which one writer alone can create
             │                    └▶ delta-spark, for tables that are not plain
             └▶ Spark's own writer, for tables with rules about rows
```
Of two writers, the second reads the first one's commit: it commits behind that, or plans again.

An append writes a `txn` action for each source file, named by the file's content. An overwrite
writes one for itself: content from before it is no longer in the table. Restoring an older
version restores these numbers, and those of runs. Source: Delta's protocol, transaction
identifiers.

Every failed commit goes through `recover_commit`, on every store. An answer may be lost, or say
that the version exists because the first of two requests has made it. So nothing is skipped,
planned again or deleted before the log was read:
```
failure ─▶ read the log ─┬─ has our commit ─────────▶ it landed
                         ├─ does not ───────────────▶ the failure, as it was raised
                         └─ no answer, no refusal ──▶ OutcomeUnknown
```
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from lakeport.delta_log.actions import (
    DataFile,
    add_action,
    clustering_action,
    count_rows,
    format_action,
    metadata_action,
    parse_partition_value,
    transaction_action,
)
from lakeport.delta_log.checkpoint import is_checkpoint_due, write_checkpoint
from lakeport.delta_log.reader import ALL, SCHEMA, STATE, Commit, Contents, DeltaLog
from lakeport.delta_log.state import TableState, physical_names
from lakeport.delta_log.transactions import CONTENT, CommitInfo, CommitMark, conflict_error
from lakeport.engine.failures import is_lost_call
from lakeport.errors import (
    LakeportError,
    ObjectExists,
    OutcomeUnknown,
    SparkFailure,
    Unreachable,
    walk_causes,
)
from lakeport.model import EngineReport, Landed, Mode, Staged, Storage
from lakeport.schema.evolution import EvolutionPolicy
from lakeport.schema.hints import format_command
from lakeport.version import __version__
from lakeport.writers.base import PartlyLanded
from lakeport.writers.delta.plain import LACKING_READERS, feature_notes, is_plain, leaves_plain
from lakeport.writers.delta.plan import DeltaPlan, check_takes_changes
from lakeport.writers.delta.sink import EMPTY_VALUES

if TYPE_CHECKING:
    from lakeport.engine.spark.delta.rows import DeltaRows
    from lakeport.engine.spark.delta.session import DeltaSession


_LAKEPORT: Final = f"lakeport/{__version__}"
LEFT_OUT: Final = "nothing was added: the table has had this content before"
_OVERWRITTEN: Final = "lakeport::overwritten"  # no run has an empty id
_ONCE: Final = "`once: true` (`--once`) leaves out what was landed before"

_HINT = (
    "nothing was deleted. Repeat the load with the same `run_id`: what has landed is not landed "
    "again. A load without one is in {history} by its run's name, if it landed."
)

_PUBLISHERS = 8

_PROTOCOL: Final = {"minReaderVersion": 1, "minWriterVersion": 2}


@dataclass(frozen=True, slots=True)
class BatchContent:
    """Digests of an append's source files, to skip or report files that were appended before.

    Attributes:
        files: file -> the name of its content; empty where no repeat is to be recognised.
        once: whether files that the table has loaded before are left out.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    once: bool = False

    def find_loaded(
        self, last_transactions: Callable[[Collection[str]], Mapping[str, int]]
    ) -> frozenset[str]:
        """Return the files whose content the table has appended since its last overwrite.

        `last_transactions` returns the newest `txn` number of each application id, -1 for none.
        """
        if not self.files:
            return frozenset()
        # An overwrite that loses a race is planned again: its number is above the winner's.
        apps = {file: CONTENT + name for file, name in self.files.items()}
        newest = last_transactions({*apps.values(), _OVERWRITTEN})
        since = max(0, newest[_OVERWRITTEN])
        return frozenset(file for file, app in apps.items() if newest[app] >= since)

    def partly_landed_error(self, loaded: Collection[str]) -> PartlyLanded:
        """Return the PartlyLanded by which a load lands its batch again without loaded files."""
        some = f"{len(loaded):,} of {len(self.files):,} files"
        return PartlyLanded(loaded, f"left out {some}: the table has had their content before")

    def duplicate_note(self, loaded: Collection[str]) -> str:
        """Return the note that the rows of all, or of some, files are in the table twice."""
        if len(loaded) == len(self.files):
            return f"the table had this content before, and has its rows twice now; {_ONCE}"
        some = f"{len(loaded):,} of these {len(self.files):,} files"
        return f"the table had {some} before, whose rows are there twice now; {_ONCE}"


NO_CONTENT: Final = BatchContent()


def recover_commit(
    log: DeltaLog, is_ours: Callable[[Commit], bool], read_version: int, failure: LakeportError
) -> Commit:
    """Look in the log for a commit that was reported as failed; return it, or raise if absent.

    Args:
        log: the table's log, which is read with a shorter deadline if no answer came.
        is_ours: whether a commit is the one that was tried.
        read_version: the version that the commit was to follow, or an earlier one.
        failure: the error by which the commit was reported as failed.

    Raises:
        OutcomeUnknown: the log can't be read; or it lacks the commit, but no store or JVM has
            refused that, so that it may still be made.
        LakeportError: `failure`: the commit was not made.
    """
    problem = f"whether the commit to {log.uri} was made is unknown: {failure.message}"
    hint = _HINT.format(history=format_command("table", "history", log.uri))
    if failure.hint and not isinstance(failure, OutcomeUnknown):
        hint = f"{hint} Before that: {failure.hint}"
    if _is_unanswered(failure):
        log.storage.shorten_deadline()  # the store has used up its time
    try:
        found = next(filter(is_ours, log.commits_since(read_version)), None)
    except LakeportError as unread:
        text = f"{problem}; and the table's log can't be read: {unread.message}"
        raise OutcomeUnknown(text, hint) from failure
    if found is not None:
        return found
    if _is_unanswered(failure):
        text = f"{problem}; the table's log does not name it so far"
        raise OutcomeUnknown(text, hint) from failure
    raise failure


def _is_unanswered(error: BaseException) -> bool:
    """Whether an error means no answer of JVM or store, so that the commit may be under way."""
    silent = (OutcomeUnknown, Unreachable)
    return any(isinstance(cause, silent) or is_lost_call(cause) for cause in walk_causes(error))


class StagedFiles:
    """Data files of a commit, as a context whose end deletes published files unless kept.

    Args:
        storage: where the files are staged.
        staged: the files.
        log: the log of the table that they are for; None for files that no table will name.
    """

    def __init__(
        self, storage: Storage, staged: Sequence[Staged], log: DeltaLog | None = None
    ) -> None:
        self._storage = storage
        self.staged = list(staged)
        self._log = log
        self._read_version: int | None = None
        self._published: set[str] = set()
        self._visible: set[str] = set()  # those whose publication has succeeded
        self._kept = False

    def add(self, staged: Iterable[Staged]) -> None:
        """Add staged files, which are not published yet."""
        self.staged += staged

    @contextmanager
    def for_attempt(self) -> Iterator[StagedFiles]:
        """Yield the files for one commit attempt; if none are staged, a new set for it alone."""
        if self.staged:
            yield self
            return
        with StagedFiles(self._storage, (), self._log) as own:
            yield own

    def publish(self) -> None:
        """Make each file visible under its key, 8 at a time; leave out those published before."""
        waiting = [item for item in self.staged if item.key not in self._published]
        with ThreadPoolExecutor(_PUBLISHERS) as pool:
            list(pool.map(self._publish, waiting))

    def keep(self) -> None:
        """Keep the published files when the context ends."""
        self._kept = True

    @contextmanager
    def keep_while_committing(self, read_version: int) -> Iterator[None]:
        """Keep published files while the body commits, and after it if OutcomeUnknown.

        After success and any other LakeportError the context's end deletes them again, unless
        `keep` follows. The commit is to follow `read_version`.
        """
        known = read_version if self._read_version is None else self._read_version
        self._read_version = min(read_version, known)
        self._kept = True
        try:
            yield
        except OutcomeUnknown:
            raise
        except LakeportError:
            self._kept = False
            raise
        self._kept = False

    def __enter__(self) -> StagedFiles:
        """Return the files."""
        return self

    def __exit__(self, *_: object) -> None:
        """Discard staged files; delete published ones unless kept or the log may name one of them.

        Never raises.
        """
        deleted = () if self._kept or self._may_be_in_log() else tuple(self._published)
        for key in deleted:
            with suppress(LakeportError):
                self._storage.delete(key)
        for item in self.staged:
            # Only a staging name outlives publication: an upload has ended with it.
            if self._storage.can_rename_staged or item.key not in self._visible:
                self._storage.discard(item)

    def _may_be_in_log(self) -> bool:
        """Whether the table's log may name one of the published files; True if it can't be read."""
        version = self._read_version
        if not self._published or self._log is None:
            return False
        try:
            return version is None or self._log.adds_any(self._published, version)
        except LakeportError:
            return True

    def _publish(self, item: Staged) -> None:
        """Publish one file; it counts as published even if that fails."""
        self._published.add(item.key)
        self._storage.publish(item, item.key)
        self._visible.add(item.key)


_log = logging.getLogger(__name__)


class TableTransaction:
    """Optimistic transaction for one commit: records reads, and detects conflicting commits.

    Args:
        log: the table's log.
        contents: the table's files and state that were read; None where there is no table.
        session: returns the session in which delta-spark commits; None for a plain table, whose
            commit is written as the log's next file.

    Attributes:
        version: the version that it has read; -1 for no table.
        files: the data files that are staged for its commit.
        engine: the engine that ran the tasks which wrote them, for the history.
    """

    def __init__(
        self, log: DeltaLog, contents: Contents | None, session: Callable[[], DeltaSession] | None
    ) -> None:
        self._log = log
        self._contents = contents
        self._session = session
        self._watched: set[str] = set()
        self._removed: list[tuple[DataFile, bool]] = []
        self._metadata: str | None = None
        self._replaces = False
        self._read_all = False
        self._is_read: Callable[[Mapping[str, str | None]], bool] | None = None
        self.files = StagedFiles(log.storage, (), log)
        self.engine = EngineReport()
        self.version = -1 if contents is None else contents.state.version

    @classmethod
    def begin(
        cls, log: DeltaLog, plan: DeltaPlan, session: Callable[[], DeltaSession], *, by_log: bool
    ) -> TableTransaction:
        """Read the table's newest version and begin a transaction; appends read no file list.

        Args:
            log: the table's log.
            plan: the planned change.
            session: returns the session in which delta-spark commits.
            by_log: whether commits to plain tables do without delta-spark.

        Raises:
            SourceError: files of the log are missing or damaged.
            DestinationError: the store refused.
        """
        without_files = plan.mode is Mode.APPEND or plan.needs_spark
        contents = log.read_newest_contents(SCHEMA | STATE if without_files else ALL)
        stays_plain = leaves_plain(plan) and (contents is None or is_plain(contents.state))
        return cls(log, contents, None if by_log and stays_plain else session)

    def state(self) -> TableState | None:
        """Return the table's state at the version read; None when there is no table."""
        return None if self._contents is None else self._contents.state

    def watch(self, app_id: str) -> None:
        """Make others' later commits with a `txn` action of an application id conflict."""
        self._watched.add(app_id)

    def last_transactions(self, apps: Collection[str]) -> dict[str, int]:
        """Return each application id's newest `txn` number at the version read, -1 for none."""
        known = {} if self._contents is None else self._contents.transactions
        return self._log.last_transactions(self.version, apps, known)

    def read_all(self) -> None:
        """Make any later change of the table conflict with this commit."""
        self._read_all = True

    def all_files(self) -> Sequence[DataFile]:
        """Return all data files at the version read; any later change of the table conflicts."""
        if self._contents is None:
            return ()
        self.read_all()
        return self._contents.files

    def files_in_partitions(
        self, is_read: Callable[[Mapping[str, str | None]], bool]
    ) -> list[DataFile]:
        """Return files in partitions that `is_read` accepts; later changes there will conflict.

        `is_read` says of partition values, as the log spells them, if they are of one of these.
        """
        self._is_read = is_read
        files = () if self._contents is None else self._contents.files
        return [file for file in files if is_read(file.partition)]

    def set_metadata(self, action: str, *, replaces: bool = False) -> None:
        """Set the `metaData` action, JSON text; `replaces`: earlier files need not fit the schema.

        With `replaces`, delta-spark does not check that earlier data files fit the schema.
        """
        self._metadata, self._replaces = action, replaces

    def remove(self, files: Sequence[DataFile], *, changes_rows: bool = True) -> None:
        """Have the commit remove files; DestinationError if rows change in an append-only table.

        Raises:
            DestinationError: the commit changes rows, and the table only takes appends.
        """
        if files and changes_rows and self._contents is not None:
            check_takes_changes(
                self._contents.state, "rows of the table can't be changed or removed"
            )
        self._removed += [(file, changes_rows) for file in files]

    def commit(self, actions: Sequence[str], operation: CommitInfo) -> int:
        """Commit as the next free version, unless another commit conflicts; return that version.

        Args:
            actions: `add` and `txn` actions as JSON text.
            operation: the commit's entry in the history.

        Raises:
            CommitConflict: another writer changed what this transaction has read; nothing landed.
            OutcomeUnknown: whether the commit was made, or will be, is unknown.
            LakeportError: the commit was not made.
        """
        if self._session is not None:
            return self._commit_by_spark(self._session(), actions, operation)
        txn_id = str(uuid.uuid4())
        lines = self._commit_lines(actions, operation, txn_id)
        data = "".join(f"{line}\n" for line in lines).encode()
        version = self.version + 1
        while True:
            try:
                other = self._create_version(version, data)
            except LakeportError as failure:
                return self._recover_version(txn_id, failure)
            if other is None or other.info.get("txnId") == txn_id:
                break
            self._check_no_conflict(other)
            version += 1
        self._write_due_checkpoint(version)
        return version

    def _create_version(self, version: int, data: bytes) -> Commit | None:
        """Create a version's commit file and return None; if it exists, return its commit.

        Raises:
            LakeportError: the file may have been created all the same.
        """
        log = self._log
        if self.version >= 0 and self._is_dropped():
            raise conflict_error()
        try:
            log.storage.put(log.commit_key(version), data, create_only=True)
        except ObjectExists:
            other = log.read_commit(version)
            if other is None:
                key = log.storage.uri(log.commit_key(version))
                raise OutcomeUnknown(f"{key} is said to exist, and is not there", "") from None
            return other
        return None

    def _is_dropped(self) -> bool:
        """Whether the log is gone; False on stores where it takes a request to find out.

        There `table drop` is followed by a look for what came meanwhile.
        """
        storage, home = self._log.storage, self._log.home
        return storage.listing_page_size == 0 and next(iter(storage.list(home)), None) is None

    def _commit_by_spark(
        self, session: DeltaSession, actions: Sequence[str], operation: CommitInfo
    ) -> int:
        """Commit by delta-spark if no other commit conflicts; return the new version.

        Raises as `commit`.
        """
        txn = session.transaction(self._log.hadoop_uri)
        if txn.version < self.version:
            raise conflict_error()
        for other in takewhile(
            lambda c: c.version <= txn.version, self._log.commits_since(self.version)
        ):
            self._check_no_conflict(other)
        for app in self._watched:
            txn.watch(app)
        if self._read_all or self._is_read:
            txn.read_all()
        if self._metadata is not None:
            txn.set_metadata(self._metadata, replaces_files=self._replaces)
        for changes_rows in (True, False):
            removed = (
                file.add_action() for file, changes in self._removed if changes is changes_rows
            )
            txn.remove_adds(removed, changes_rows=changes_rows)
        try:
            return txn.commit_actions(actions, operation)
        except LakeportError as failure:
            return self._recover_version(txn.id, failure)

    def _recover_version(self, txn_id: str, failure: LakeportError) -> int:
        """Return a failed commit's version if the log has it; else raise as `recover_commit`."""
        commit = recover_commit(
            self._log, lambda c: c.info.get("txnId") == txn_id, self.version, failure
        )
        return commit.version

    def _commit_lines(
        self, actions: Sequence[str], operation: CommitInfo, txn_id: str
    ) -> list[str]:
        """Return the commit file's JSON lines: commitInfo, a new table's protocol, all actions."""
        now = int(time.time() * 1000)
        lines = [format_action("commitInfo", self._commit_info(operation, txn_id, now))]
        if self._contents is None:
            lines.append(format_action("protocol", _PROTOCOL))
        if self._metadata is not None:
            lines.append(self._metadata)
        lines += [
            format_action("remove", _remove_body(file, now, changes_rows=changes_rows))
            for file, changes_rows in self._removed
        ]
        return [*lines, *actions]

    def _commit_info(self, operation: CommitInfo, txn_id: str, now_ms: int) -> dict[str, Any]:
        """Return the `commitInfo` action as delta-spark writes it, with this transaction's id."""
        parameters = {**_operation_parameters(operation), **self.engine.parameters}
        return {
            "timestamp": now_ms,
            "operation": operation.name,
            "operationParameters": parameters,
            **({"readVersion": self.version} if self.version >= 0 else {}),
            "isolationLevel": "Serializable",
            "isBlindAppend": not (self._read_all or self._is_read),
            "operationMetrics": {name: str(value) for name, value in operation.metrics.items()},
            "userMetadata": operation.user_metadata,
            "engineInfo": " ".join(filter(None, [_LAKEPORT, self.engine.info])),
            "txnId": txn_id,
        }

    def _check_no_conflict(self, other: Commit) -> None:
        """Raise CommitConflict if another writer's commit changes what this one has read."""
        is_read = self._is_read
        no_conflict = (
            other.protocol is None
            and not other.changes_metadata
            and self._metadata is None
            and not self._read_all
            and self._watched.isdisjoint(other.transactions)
            and (is_read is None or not _changes_partitions(other, is_read))
        )
        if not no_conflict:
            raise conflict_error()

    def _write_due_checkpoint(self, version: int) -> None:
        """Write a checkpoint if one is due for an existing table; log a failure, never raise."""
        state = self.state()
        if state is None or not is_checkpoint_due(version, state.properties):
            return
        try:
            write_checkpoint(self._log, version)
        except Exception as error:
            _log.info("no checkpoint of %s, version %d: %s", self._log.uri, version, error)


def _changes_partitions(
    commit: Commit, is_read: Callable[[Mapping[str, str | None]], bool]
) -> bool:
    """Whether a commit changes files in partitions that `is_read` accepts; True if unknown."""
    if commit.removed_partitions is None:
        return True
    return any(map(is_read, (*commit.added_partitions, *commit.removed_partitions)))


def _operation_parameters(operation: CommitInfo) -> dict[str, Any]:
    """Return `operationParameters` for the table's history, in delta-spark's format."""
    if operation.name == "RESTORE":
        return {"version": operation.version, "timestamp": None}
    if operation.name != "WRITE":
        actions = {"matched": "update", "notMatched": "insert"} if operation.name == "MERGE" else {}
        clauses = {f"{k}Predicates": json.dumps([{"actionType": v}]) for k, v in actions.items()}
        return {"predicate": json.dumps([operation.condition]), **clauses}
    columns = operation.partition_columns
    by = {"partitionBy": json.dumps(columns, ensure_ascii=False)} if columns else {}
    return {"mode": "Overwrite" if operation.overwrite else "Append", **by}


def _remove_body(file: DataFile, now_ms: int, *, changes_rows: bool) -> dict[str, Any]:
    """Return the body of a `remove` action for a file without deletion vector."""
    known = {"partitionValues": file.partition, "size": file.size, "tags": file.tags}
    return {
        "path": file.path,
        "deletionTimestamp": now_ms,
        "extendedFileMetadata": True,
        "dataChange": changes_rows,
        **{name: value for name, value in known.items() if value or name == "partitionValues"},
    }


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """Result of a commit: its version, and counts of removed files and rows.

    Attributes:
        removed_rows: the rows in the removed files; None where the log does not tell.
        metrics: counts of Spark's own writer.
    """

    version: int
    removed_files: int = 0
    removed_rows: int | None = 0
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableChange:
    """Planned content of one commit: files added and removed, metadata, entry in the history.

    Attributes:
        mark: the commit's mark, by which lakeport recognises it.
        operation: the commit's entry in the table's history.
        staged: the data files that the commit adds.
        removed: the data files that the commit removes.
        content: names by which the table recognises the batch's content when it comes again.
        changes_rows: whether the commit changes the table's rows, for readers of changes.
        by_spark: changes the rows in Spark, where only Spark may; None for an append or overwrite.
        rows: number of rows that the commit lands; None for those of its files.
        unchanged: number of a merge's matched rows that keep their values; None where unknown.
    """

    plan: DeltaPlan
    mark: CommitMark
    operation: CommitInfo
    staged: Sequence[Staged] = ()
    removed: Sequence[DataFile] = ()
    content: BatchContent = NO_CONTENT
    changes_rows: bool = True
    by_spark: Callable[[DeltaRows], None] | None = None
    rows: int | None = None
    unchanged: int | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def commit(self, log: DeltaLog, txn: TableTransaction) -> CommitOutcome:
        """Publish the files and commit their actions by `txn`; raises as `TableTransaction.commit`.

        `txn` is a fresh transaction on the state that the change is planned on.
        """
        plan, now = self.plan, int(time.time() * 1000)
        if plan.metadata_changes:
            if plan.evolution.typed:
                txn.read_all()  # no file with the column may come meanwhile
            txn.set_metadata(self._metadata_action(now), replaces=plan.evolution.replaced)
        txn.remove(self.removed, changes_rows=self.changes_rows)
        above = f"{log.folder}/" if log.folder else ""
        actions = [
            add_action(
                item.key.removeprefix(above),
                item.partition,
                item.bytes,
                now,
                item.stats,
                changes_rows=self.changes_rows,
            )
            for item in self.staged
        ]
        if plan.cluster_by:
            names = physical_names(plan.schema_json, plan.cluster_by)
            actions.append(clustering_action([[name] for name in names.values()]))
        next_version = txn.version + 1  # the commit's own, if no other comes first
        numbers = dict(self.mark.transactions)
        numbers |= {CONTENT + name: next_version for name in self.content.files.values()}
        if plan.mode is Mode.OVERWRITE and plan.base is not None:
            numbers[_OVERWRITTEN] = next_version
        actions += [transaction_action(app, number, now) for app, number in numbers.items()]
        txn.files.publish()
        version = txn.commit(actions, self.operation)
        return CommitOutcome(version, len(self.removed), count_rows(self.removed))

    def commit_by_spark(
        self, log: DeltaLog, session: DeltaSession, read_version: int
    ) -> CommitOutcome:
        """Have Spark commit the published files' rows, checking the table's constraints.

        The version that Spark makes after `read_version` is found by the commit's mark; a change
        of no row makes none.

        Raises:
            CommitConflict: another writer was faster; nothing landed.
            InputError: a row breaks a constraint of the table.
            OutcomeUnknown: whether the commit was made, or will be, is unknown.
            LakeportError: the commit was not made.
        """
        plan = self.plan
        table = session.rows(
            log.hadoop_uri,
            plan.partition_columns,
            self.mark.format(),
            self.mark.transactions,
            evolve=plan.request.policy is EvolutionPolicy.EVOLVE,
        )
        nothing = SparkFailure("Spark wrote nothing")
        failure: LakeportError = nothing
        try:
            if self.by_spark is not None:
                self.by_spark(table)
            else:
                generated = plan.base.generated_columns if plan.base else frozenset()
                absent = generated & {*plan.evolution.missing}
                uris = [log.storage.hadoop_uri(item.key) for item in self.staged]
                table.write(
                    plan.schema,
                    uris,
                    [name for name in plan.schema.names if name not in absent],
                    overwrite=plan.mode is Mode.OVERWRITE,
                    dynamic=plan.dynamic,
                )
        except LakeportError as error:
            failure = error
        try:
            commit = recover_commit(log, self._has_mark, read_version, failure)
        except SparkFailure as error:
            if error is nothing and self.by_spark is not None:
                return CommitOutcome(read_version)  # no row was to be changed
            raise
        metrics = commit.info.get("operationMetrics") or {}
        removed_rows = None if commit.removed else 0
        return CommitOutcome(commit.version, commit.removed, removed_rows, metrics)

    def report(self, log: DeltaLog, outcome: CommitOutcome) -> Landed:
        """Return the report of a commit's rows and files, with all warnings."""
        plan, staged, storage = self.plan, self.staged, log.storage
        metrics = self.operation.metrics or outcome.metrics
        is_merge = self.operation.name == "MERGE"
        return Landed(
            stream=self.mark.stream,
            table=log.uri,
            sequence=self.mark.sequence,
            rows=sum(item.rows for item in staged) if self.rows is None else self.rows,
            files=() if plan.needs_spark else tuple(storage.uri(item.key) for item in staged),
            bytes=sum(item.bytes for item in staged),
            version=outcome.version,
            removed_files=outcome.removed_files,
            removed_rows=outcome.removed_rows,
            merged=_count_merged_rows(metrics, self.unchanged) if is_merge else {},
            notes=self.notes,
            warnings=(
                *plan.warnings,
                *_write_warnings(plan, staged),
                *self._feature_notes(log, outcome.version),
                *self.warnings,
            ),
            lowest_version=self.mark.lowest_version,
        )

    def _has_mark(self, commit: Commit) -> bool:
        """Whether a commit is this change's own, by its mark."""
        return commit.mark is not None and commit.mark.commit_id == self.mark.commit_id

    def _metadata_action(self, now_ms: int) -> str:
        """Return the `metaData` action of a new table, or the table's own with its changes."""
        plan = self.plan
        if plan.base is None:
            return metadata_action(
                self.mark.commit_id,
                plan.schema_json,
                plan.partition_columns,
                plan.properties,
                now_ms,
            )
        text = json.dumps(plan.schema_json, ensure_ascii=False)
        changed = {"schemaString": text, "configuration": dict(plan.properties)}
        return json.dumps({"metaData": {**plan.base.metadata, **changed}}, ensure_ascii=False)

    def _feature_notes(self, log: DeltaLog, version: int) -> tuple[str, ...]:
        """Return notes on table features that the commit turned on and other programs lack."""
        plan = self.plan
        if not plan.metadata_changes:
            return ()
        try:
            commit = log.read_commit(version)
        except LakeportError:
            return ()  # the batch has landed: no note is worth failing the load
        had = set(plan.base.features if plan.base else ())
        said = {name for name in LACKING_READERS if any(name in text for text in plan.warnings)}
        return feature_notes(had | said, (commit and commit.protocol) or {})


def make_write_change(
    plan: DeltaPlan,
    mark: CommitMark,
    staged: Sequence[Staged],
    removed: Sequence[DataFile],
    *,
    overwrite: bool,
    **more: Any,
) -> TableChange:
    """Return a change that the history lists as a WRITE; `more`: further fields of TableChange."""
    operation = CommitInfo(
        overwrite=overwrite,
        dynamic=plan.dynamic,
        new_schema=plan.evolution.replaced,
        partition_columns=() if plan.base else plan.partition_columns,
        user_metadata=mark.format(),
        metrics={
            "numFiles": len(staged),
            "numOutputRows": sum(item.rows for item in staged),
            "numOutputBytes": sum(item.bytes for item in staged),
            **({"numRemovedFiles": len(removed)} if removed else {}),
        },
    )
    return TableChange(plan, mark, operation, staged, removed, **more)


def find_replaced_files(
    plan: DeltaPlan, staged: Sequence[Staged], txn: TableTransaction
) -> Sequence[DataFile]:
    """Return the files that an overwrite replaces: all, or those in its partitions; else none.

    Later changes of these conflict with the transaction. Partitions are compared by value, as
    writers differ in how they spell one.
    """
    if plan.mode is not Mode.OVERWRITE or plan.base is None:
        return ()
    if not plan.dynamic:
        return txn.all_files()
    if not staged:
        return ()
    names = physical_names(plan.schema_json, plan.partition_columns)
    types = {names[column]: plan.schema.field(column).type for column in plan.partition_columns}

    def parse_partition(values: Any) -> tuple[Any, ...]:
        return tuple(
            parse_partition_value(values.get(name), type_) for name, type_ in types.items()
        )

    batch = {parse_partition(item.partition) for item in staged}
    return txn.files_in_partitions(lambda values: parse_partition(values) in batch)


def _count_merged_rows(metrics: Mapping[str, int | str], unchanged: int | None) -> dict[str, int]:
    """Return how many rows a merge inserted, updated and deleted, as far as `metrics` has them.

    Of the updated rows, `unchanged` had their values before: they are counted apart.

    >>> _count_merged_rows({"numTargetRowsInserted": 2, "numTargetRowsUpdated": "3"}, 1)
    {'inserted': 2, 'updated': 2, 'unchanged': 1}
    """
    names = ("Inserted", "Updated", "Deleted")
    values = {name.lower(): metrics.get(f"numTargetRows{name}") for name in names}
    counts = {name: int(value) for name, value in values.items() if value is not None}
    if unchanged is not None:
        counts["updated"] -= unchanged
        counts["unchanged"] = unchanged
    return counts


def _write_warnings(plan: DeltaPlan, staged: Sequence[Staged]) -> list[str]:
    """Return the warnings: empty partition values became null; Spark had to write the batch."""
    warnings = []
    emptied = sum(int(item.token.get(EMPTY_VALUES, 0)) for item in staged)
    if emptied:
        warnings.append(
            f"{emptied} rows have an empty text in a partition column; Delta can't hold one there "
            "and reads it as null."
        )
    if plan.needs_spark:
        warnings.append(
            f"Spark wrote this batch itself, which takes longer: the table has "
            f"{', '.join(plan.needs_spark)}."
        )
    return warnings
