"""Commits to Delta tables: the change as a value, the transaction, and what became of it.

```
TableChange ─┬▶ TableTransaction ─┬▶ the log's next file, which one writer alone can create
             │                    └▶ delta-spark, for tables that are not plain
             └▶ Spark's own writer, for tables with rules about rows
```
Who comes second looks at what the first has done, and follows it or plans anew.

An append of files leaves a `txn` action of its own name for each file that was read, and an
overwrite one for itself: content from before it is not in the table any more. Bringing an older
version back sets them back, as it does with runs. Source: Delta's protocol, transaction
identifiers.

Every way to commit ends in `settle` when it fails, on every store. An answer may be lost, or say
that the version exists because the first of two requests has made it. So nothing is skipped,
planned again or deleted before the log was read:
```
failure ─▶ read the log ─┬─ names our commit ──▶ it landed
                         ├─ does not ──────────▶ the failure, as it was raised
                         └─ nobody can tell ───▶ OutcomeUnknown
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

from lakeport import __version__
from lakeport.delta_log.actions import (
    DataFile,
    action_line,
    add_action,
    clustering_action,
    metadata_action,
    parse_value,
    row_count,
    transaction_action,
)
from lakeport.delta_log.checkpoint import checkpoint_due, write_checkpoint
from lakeport.delta_log.reader import ALL, SCHEMA, STATE, Commit, Contents, DeltaLog
from lakeport.delta_log.state import TableState, physical_names
from lakeport.delta_log.transactions import CONTENT, Mark, Operation, conflict
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
from lakeport.writers.base import LandedBefore
from lakeport.writers.delta.plain import LACKING_READERS, feature_notes, is_plain, leaves_plain
from lakeport.writers.delta.plan import DeltaPlan, check_takes_changes
from lakeport.writers.delta.sink import EMPTY_VALUES

if TYPE_CHECKING:
    from lakeport.engine.base import DeltaRows, DeltaSession


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
class KnownContent:
    """The content of an append's files, by which a table notices it when it comes again.

    Attributes:
        files: file -> the name of its content; none where it is not to be known again.
        once: whether what the table has is left out.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    once: bool = False

    def landed(self, last: Callable[[Collection[str]], Mapping[str, int]]) -> frozenset[str]:
        """Return the files that appends have landed since the table was last overwritten.

        Args:
            last: takes ids of applications; gives the number that each has come to.
        """
        if not self.files:
            return frozenset()
        # An overwrite that comes second is made anew on what came first: its number is higher.
        apps = {file: CONTENT + name for file, name in self.files.items()}
        known = last({*apps.values(), _OVERWRITTEN})
        since = max(0, known[_OVERWRITTEN])
        return frozenset(file for file, app in apps.items() if known[app] >= since)

    def landed_before(self, again: Collection[str]) -> LandedBefore:
        """Return the exception that has the other files landed without those that came again."""
        some = f"{len(again):,} of {len(self.files):,} files"
        return LandedBefore(again, f"left out {some}: the table has had their content before")

    def duplicate_note(self, again: Collection[str]) -> str:
        """Return the note that the table has the rows of some files twice now."""
        if len(again) == len(self.files):
            return f"the table had this content before, and has its rows twice now; {_ONCE}"
        some = f"{len(again):,} of these {len(self.files):,} files"
        return f"the table had {some} before, whose rows are there twice now; {_ONCE}"

    def actions(self, version: int, moment: int) -> list[str]:
        """Return the `txn` actions that name the content in the commit.

        Args:
            version: that it makes, if no other comes first.
            moment: milliseconds since 1970.
        """
        names = dict.fromkeys(self.files.values())
        return [transaction_action(CONTENT + name, version, moment) for name in names]


NO_CONTENT: Final = KnownContent()


def overwrite_action(version: int, moment: int) -> str:
    """Return the `txn` action of an overwrite; for the arguments see `KnownContent.actions`."""
    return transaction_action(_OVERWRITTEN, version, moment)


def settle(
    log: DeltaLog, ours: Callable[[Commit], bool], read: int, failure: LakeportError
) -> Commit:
    """Find our commit in the log after its maker was told that it failed; return it.

    Args:
        log: the table's log, which names each commit that was made.
        ours: tells our own commit.
        read: the version that it was to follow, or an earlier one.
        failure: what its maker was told.

    Raises:
        OutcomeUnknown: the log can't be read, or it does not name the commit, but nobody has
            refused it either, so that it may be made yet.
        LakeportError: `failure`: the commit was not made.
    """
    told = f"whether the commit to {log.uri} was made is unknown: {failure.message}"
    hint = _HINT.format(history=format_command("table", "history", log.uri))
    if failure.hint and not isinstance(failure, OutcomeUnknown):
        hint = f"{hint} Before that: {failure.hint}"
    if _is_unanswered(failure):
        log.storage.shorten_deadline()  # the store has had the time that it gets
    try:
        found = next(filter(ours, log.since(read)), None)
    except LakeportError as unread:
        text = f"{told}; and the table's log can't be read: {unread.message}"
        raise OutcomeUnknown(text, hint) from failure
    if found is not None:
        return found
    if _is_unanswered(failure):
        raise OutcomeUnknown(f"{told}; the table's log does not name it so far", hint) from failure
    raise failure


def _is_unanswered(error: BaseException) -> bool:
    """Whether the JVM or the store did not answer, so that the commit may be under way yet."""
    silent = (OutcomeUnknown, Unreachable)
    return any(isinstance(cause, silent) or is_lost_call(cause) for cause in walk_causes(error))


class StagedFiles:
    """A batch's files: a context that removes those it has made visible, unless they are kept.

    Args:
        storage: where the files are staged.
        staged: the files.
        log: the log of the table that they are for; None for files that no table will name.

    Attributes:
        staged: the files.
    """

    def __init__(
        self, storage: Storage, staged: Sequence[Staged], log: DeltaLog | None = None
    ) -> None:
        self._storage = storage
        self.staged = list(staged)
        self._log = log
        self._read: int | None = None
        self._visible: set[str] = set()
        self._kept = False

    def add(self, staged: Iterable[Staged]) -> None:
        """Take over further files, which are not visible yet."""
        self.staged += staged

    @contextmanager
    def of_attempt(self) -> Iterator[StagedFiles]:
        """Yield the files of one attempt to commit: these, or new ones where there are none."""
        if self.staged:
            yield self
            return
        with StagedFiles(self._storage, (), self._log) as own:
            yield own

    def publish(self) -> None:
        """Make every file visible under the key that it was staged for.

        Raises:
            DestinationError: the store refused.
        """
        waiting = [item for item in self.staged if item.key not in self._visible]
        with ThreadPoolExecutor(_PUBLISHERS) as pool:
            list(pool.map(self._publish, waiting))

    def keep(self) -> None:
        """Leave the visible files where they are."""
        self._kept = True

    @contextmanager
    def committing(self, read: int) -> Iterator[None]:
        """Keep the files while a commit is tried, and after it unless its outcome is known.

        Args:
            read: the version that the commit is to follow.
        """
        self._read = read if self._read is None else min(read, self._read)
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
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Drop what was staged, and what is visible unless that is kept. Never raises.

        No file goes before the table's log was read and is found not to name it.
        """
        going = () if self._kept or self._is_named() else tuple(self._visible)
        for key in going:
            with suppress(LakeportError):
                self._storage.delete(key)
        for item in self.staged:
            self._storage.discard(item)

    def _is_named(self) -> bool:
        """Whether the table's log may name one of the visible files."""
        if not self._visible or self._log is None:
            return False
        try:
            return self._read is None or self._log.adds_any(self._visible, self._read)
        except LakeportError:
            return True

    def _publish(self, item: Staged) -> None:
        self._visible.add(item.key)
        self._storage.publish(item, item.key)


_log = logging.getLogger(__name__)


class TableTransaction:
    """One optimistic transaction on a table. Use each for one commit.

    Args:
        log: the table's log.
        contents: what the table holds; None where there is none.
        session: gives the session in which delta-spark commits; None for a plain table, whose
            commit is written as the log's next file.

    Attributes:
        version: the version that it has read; -1 for no table.
        engine: what ran the tasks whose files are committed, for the history.
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
        self._reads: Callable[[Mapping[str, str | None]], bool] | None = None
        self.engine = EngineReport()
        self.version = -1 if contents is None else contents.state.version

    @classmethod
    def begin(
        cls, log: DeltaLog, plan: DeltaPlan, session: Callable[[], DeltaSession], *, by_log: bool
    ) -> TableTransaction:
        """Start on the newest version.

        Args:
            log: the table's log.
            plan: what is planned.
            session: gives the session in which delta-spark commits.
            by_log: whether plain tables are committed to without it.

        Raises:
            SourceError: files of the log are missing or damaged, so that they do not tell.
            DestinationError: the store refused.
        """
        without_files = plan.mode is Mode.APPEND or plan.needs_spark
        contents = log.newest_contents(SCHEMA | STATE if without_files else ALL)
        stays_plain = leaves_plain(plan) and (contents is None or is_plain(contents.state))
        return cls(log, contents, None if by_log and stays_plain else session)

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
        return self._log.last_transactions(self.version, apps, known)

    def all_files(self) -> Sequence[DataFile]:
        """Every file of the table. Any change to the table then conflicts with this commit."""
        if self._contents is None:
            return ()
        self.read_all()
        return self._contents.files

    def set_metadata(self, action: str, *, replaces: bool = False) -> None:
        """Change the table's schema, or create the table.

        Args:
            action: a `metaData` action as JSON text.
            replaces: the schema need not fit the data files that are there, as these are removed.
        """
        self._metadata, self._replaces = action, replaces

    def read_all(self) -> None:
        """Have any change to the table conflict with this commit."""
        self._read_all = True

    def files_of(self, reads: Callable[[Mapping[str, str | None]], bool]) -> list[DataFile]:
        """Return the files of some partitions; a change to these then conflicts with this commit.

        Args:
            reads: whether partition values, as the log spells them, are of one of them.
        """
        self._reads = reads
        there = () if self._contents is None else self._contents.files
        return [file for file in there if reads(file.partition)]

    def remove(self, files: Sequence[DataFile], *, changes_rows: bool = True) -> None:
        """Remove files with the commit.

        Args:
            files: the files.
            changes_rows: whether the table has other rows by the commit.

        Raises:
            DestinationError: it has, and the table only takes appends.
        """
        if files and changes_rows and self._contents is not None:
            check_takes_changes(
                self._contents.state, "rows of the table can't be changed or removed"
            )
        self._removed += [(file, changes_rows) for file in files]

    def commit(self, actions: Sequence[str], operation: Operation) -> int:
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
        if self._session is not None:
            return self._commit_by_spark(self._session(), actions, operation)
        own = str(uuid.uuid4())
        data = "".join(f"{line}\n" for line in self._lines(actions, operation, own)).encode()
        version = self.version + 1
        while True:
            try:
                there = self._create(version, data)
            except LakeportError as failure:
                return self._settled(own, failure)
            if there is None or there.info.get("txnId") == own:
                break
            self._check_followed(there)
            version += 1
        self._checkpoint(version)
        return version

    def _create(self, version: int, data: bytes) -> Commit | None:
        """Create a version's file in the log; return the commit that has the version, if one has.

        Raises:
            LakeportError: the file may have been created all the same.
        """
        log = self._log
        try:
            log.storage.put(log.key(version), data, create_only=True)
        except ObjectExists:
            there = log.read(version)
            if there is None:
                key = log.storage.uri(log.key(version))
                raise OutcomeUnknown(f"{key} is said to exist, and is not there", "") from None
            return there
        return None

    def _commit_by_spark(
        self, session: DeltaSession, actions: Sequence[str], operation: Operation
    ) -> int:
        """Have delta-spark commit; commits since this transaction's version are followed first."""
        txn = session.transaction(self._log.hadoop_uri)
        if txn.version < self.version:
            raise conflict()
        for other in takewhile(lambda c: c.version <= txn.version, self._log.since(self.version)):
            self._check_followed(other)
        for app in self._watched:
            txn.watch(app)
        if self._read_all or self._reads:
            txn.read_all()
        if self._metadata is not None:
            txn.set_metadata(self._metadata, replaces=self._replaces)
        for changes_rows in (True, False):
            removed = (file.add() for file, changes in self._removed if changes is changes_rows)
            txn.remove_adds(removed, changes_rows=changes_rows)
        try:
            return txn.commit_actions(actions, operation)
        except LakeportError as failure:
            return self._settled(txn.id, failure)

    def _settled(self, own: str, failure: LakeportError) -> int:
        """The version that the commit was made as, whatever its maker was told; see `settle`."""
        ours = settle(self._log, lambda c: c.info.get("txnId") == own, self.version, failure)
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
            write_checkpoint(self._log, version)
        except Exception as error:
            _log.info("no checkpoint of %s, version %d: %s", self._log.uri, version, error)


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


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """A commit that was made.

    Attributes:
        version: the version that it made.
        removed_files: how many files it removed.
        removed_rows: the rows in them; None where the log does not tell.
        metrics: what Spark's own writer has counted.
    """

    version: int
    removed_files: int = 0
    removed_rows: int | None = 0
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableChange:
    """What one commit does to a table: a value, made for the table's present state.

    Attributes:
        plan: on the table's present state.
        mark: what the commit says about itself.
        operation: how it describes itself in the table's history.
        staged: the data files that it adds.
        removed: the data files that it removes.
        content: what the batch is known by, when it comes again.
        changes_rows: whether the table has other rows after it: those who follow it look at them.
        by_spark: changes the rows in Spark, where only Spark may; None for an append or overwrite.
        rows: how many rows it lands; None for those of its files.
        same: how many rows of a merge had their values before; None where nothing tells.
        notes: what to tell of it.
        warnings: what to warn of.
    """

    plan: DeltaPlan
    mark: Mark
    operation: Operation
    staged: Sequence[Staged] = ()
    removed: Sequence[DataFile] = ()
    content: KnownContent = NO_CONTENT
    changes_rows: bool = True
    by_spark: Callable[[DeltaSession, DeltaRows], None] | None = None
    rows: int | None = None
    same: int | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def commit(
        self, log: DeltaLog, txn: TableTransaction, publish: Callable[[], None]
    ) -> CommitOutcome:
        """Commit our own actions.

        Args:
            log: the table's.
            txn: a fresh transaction, on the state that the plan is for.
            publish: makes the files visible.

        Raises:
            LakeportError: as `TableTransaction.commit`.
        """
        plan, moment = self.plan, int(time.time() * 1000)
        if plan.metadata_changes:
            if plan.evolution.typed:
                txn.read_all()  # no file with the column may come meanwhile
            txn.set_metadata(self._metadata(moment), replaces=plan.evolution.replaced)
        txn.remove(self.removed, changes_rows=self.changes_rows)
        above = f"{log.folder}/" if log.folder else ""
        actions = [
            add_action(
                item.key.removeprefix(above),
                item.partition,
                item.bytes,
                moment,
                item.stats,
                changes_rows=self.changes_rows,
            )
            for item in self.staged
        ]
        if plan.cluster_by:
            names = physical_names(plan.schema_json, plan.cluster_by)
            actions.append(clustering_action([[name] for name in names.values()]))
        for app, number in self.mark.transactions.items():
            actions.append(transaction_action(app, number, moment))
        actions += self.content.actions(txn.version + 1, moment)
        if plan.mode is Mode.OVERWRITE and plan.base is not None:
            actions.append(overwrite_action(txn.version + 1, moment))
        publish()
        version = txn.commit(actions, self.operation)
        return CommitOutcome(version, len(self.removed), row_count(self.removed))

    def commit_by_spark(self, log: DeltaLog, session: DeltaSession, read: int) -> CommitOutcome:
        """Have Spark's writer read the published files and write them, with every rule checked.

        The version that it makes is found by the commit's mark.

        Args:
            log: the table's.
            session: Spark's.
            read: the table's version before.

        Raises:
            CommitConflict: another writer was faster; nothing landed.
            InputError: a row breaks a constraint of the table.
            OutcomeUnknown: nothing tells whether the commit was made, or will be.
            LakeportError: it was not made.
        """
        plan = self.plan
        table = session.rows(
            log.hadoop_uri,
            plan.partition_columns,
            self.mark.text(),
            self.mark.transactions,
            evolve=plan.request.policy is EvolutionPolicy.EVOLVE,
        )
        nothing = SparkFailure("Spark wrote nothing")
        failure: LakeportError = nothing
        try:
            if self.by_spark is not None:
                self.by_spark(session, table)
            else:
                filled = plan.base.filled if plan.base else frozenset()
                absent = filled & {*plan.evolution.missing}
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
            done = settle(log, self._is_mine, read, failure)
        except SparkFailure as error:
            if error is nothing and self.by_spark is not None:
                return CommitOutcome(read)
            raise
        metrics = done.info.get("operationMetrics") or {}
        return CommitOutcome(done.version, done.removed, None if done.removed else 0, metrics)

    def landed(self, log: DeltaLog, done: CommitOutcome) -> Landed:
        """What its commit has landed."""
        plan, staged, storage = self.plan, self.staged, log.storage
        metrics = self.operation.metrics or done.metrics
        merge = self.operation.name == "MERGE"
        return Landed(
            stream=self.mark.stream,
            table=log.uri,
            sequence=self.mark.sequence,
            rows=sum(item.rows for item in staged) if self.rows is None else self.rows,
            files=() if plan.needs_spark else tuple(storage.uri(item.key) for item in staged),
            bytes=sum(item.bytes for item in staged),
            version=done.version,
            removed_files=done.removed_files,
            removed_rows=done.removed_rows,
            merged=_row_counts(metrics, self.same) if merge else {},
            notes=self.notes,
            warnings=(
                *plan.warnings,
                *_plan_warnings(plan, staged),
                *self._features(log, done.version),
                *self.warnings,
            ),
            lowest_version=self.mark.lowest_version,
        )

    def _is_mine(self, commit: Commit) -> bool:
        return commit.mark is not None and commit.mark.commit_id == self.mark.commit_id

    def _metadata(self, moment: int) -> str:
        plan = self.plan
        if plan.base is None:
            return metadata_action(
                self.mark.commit_id,
                plan.schema_json,
                plan.partition_columns,
                plan.properties,
                moment,
            )
        text = json.dumps(plan.schema_json, ensure_ascii=False)
        changed = {"schemaString": text, "configuration": dict(plan.properties)}
        return json.dumps({"metaData": {**plan.base.metadata, **changed}}, ensure_ascii=False)

    def _features(self, log: DeltaLog, version: int) -> tuple[str, ...]:
        """What a report says about table features that the commit brought."""
        plan = self.plan
        if not plan.metadata_changes:
            return ()
        try:
            commit = log.read(version)
        except LakeportError:
            return ()  # the batch has landed: no note is worth failing the load
        had = set(plan.base.features if plan.base else ())
        said = {name for name in LACKING_READERS if any(name in text for text in plan.warnings)}
        return feature_notes(had | said, (commit and commit.protocol) or {})


def write_change(
    plan: DeltaPlan,
    mark: Mark,
    staged: Sequence[Staged],
    removed: Sequence[DataFile],
    *,
    overwrite: bool,
    **more: Any,
) -> TableChange:
    """Return the change that adds files and removes others; `more` is of `TableChange`."""
    operation = Operation(
        overwrite=overwrite,
        dynamic=plan.dynamic,
        new_schema=plan.evolution.replaced,
        partition_columns=() if plan.base else plan.partition_columns,
        user_metadata=mark.text(),
        metrics={
            "numFiles": len(staged),
            "numOutputRows": sum(item.rows for item in staged),
            "numOutputBytes": sum(item.bytes for item in staged),
            **({"numRemovedFiles": len(removed)} if removed else {}),
        },
    )
    return TableChange(plan, mark, operation, staged, removed, **more)


def replaced_files(
    plan: DeltaPlan, staged: Sequence[Staged], txn: TableTransaction
) -> Sequence[DataFile]:
    """Return the files that a batch replaces: none, all, or those of its partitions.

    Partitions are compared by value, as several writers spell one in several ways.
    """
    if plan.mode is not Mode.OVERWRITE or plan.base is None:
        return ()
    if not plan.dynamic:
        return txn.all_files()
    if not staged:
        return ()
    names = physical_names(plan.schema_json, plan.partition_columns)
    types = {names[column]: plan.schema.field(column).type for column in plan.partition_columns}

    def typed(values: Any) -> tuple[Any, ...]:
        return tuple(parse_value(values.get(name), type_) for name, type_ in types.items())

    present = {typed(item.partition) for item in staged}
    return txn.files_of(lambda values: typed(values) in present)


def _row_counts(metrics: Mapping[str, int | str], same: int | None) -> dict[str, int]:
    """Return the rows that a merge inserted, updated and deleted, by the commit's metrics.

    Of those updated, `same` had their values before: they count as unchanged.

    >>> _row_counts({"numTargetRowsInserted": 2, "numTargetRowsUpdated": "3"}, 1)
    {'inserted': 2, 'updated': 2, 'unchanged': 1}
    """
    names = ("Inserted", "Updated", "Deleted")
    found = {name.lower(): metrics.get(f"numTargetRows{name}") for name in names}
    told = {name: int(value) for name, value in found.items() if value is not None}
    if same is not None:
        told["updated"] -= same
        told["unchanged"] = same
    return told


def _plan_warnings(plan: DeltaPlan, staged: Sequence[Staged]) -> list[str]:
    notes = []
    emptied = sum(int(item.token.get(EMPTY_VALUES, 0)) for item in staged)
    if emptied:
        notes.append(
            f"{emptied} rows have an empty text in a partition column; Delta can't hold one there "
            "and reads it as null."
        )
    if plan.needs_spark:
        notes.append(
            f"Spark wrote this batch itself, which takes longer: the table has "
            f"{', '.join(plan.needs_spark)}."
        )
    return notes
