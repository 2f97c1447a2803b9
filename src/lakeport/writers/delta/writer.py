"""Delta tables: plan a batch against the table, and commit its staged files.

```
state ──▶ plan (schema, partitions) ──▶ sink (in tasks) ──Staged──▶ operation ──▶ commit ──▶ Landed
```
`DeltaWriter.commit_operation` is the one commit loop. Each operation (write, merge, retirement of
rows, another type of a column, first types) plans its change on the table's present state. The loop
commits that, and has it planned again when another writer's commit conflicts. Data files are
published right before the commit, and deleted again when it fails for good.
"""

from __future__ import annotations

import logging
import random
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.delta_log.actions import DataFile
from lakeport.delta_log.reader import DeltaLog
from lakeport.delta_log.state import TableState, file_schema, needs_mapping, physical_names
from lakeport.delta_log.transactions import CONTENT, CommitMark, conflict_error, run_app_id
from lakeport.engine.threads import require_spark
from lakeport.errors import CommitConflict, ConfigError, RunMismatch, SchemaConflict
from lakeport.host.process import pause
from lakeport.model import Bookmark, Landed, Mode, Staged, Storage
from lakeport.schema.evolution import (
    Evolution,
    EvolutionPolicy,
    list_change_warnings,
    plan_evolution,
)
from lakeport.schema.hints import format_alter_command, quote_names
from lakeport.schema.types import format_type
from lakeport.shape import apply_header_case
from lakeport.writers.delta.bookmarks import DeltaBookmarks, check_unmoved
from lakeport.writers.delta.commit import (
    LEFT_OUT,
    NO_CONTENT,
    BatchContent,
    CommitOutcome,
    StagedFiles,
    TableChange,
    TableTransaction,
    find_replaced_files,
    make_write_change,
)
from lakeport.writers.delta.files import (
    FileConverter,
    TableFiles,
    convert_files,
    find_files_to_convert,
    map_untyped_columns,
)
from lakeport.writers.delta.plain import leaves_plain
from lakeport.writers.delta.plan import (
    TARGET_FILE_SIZE,
    DeltaPlan,
    TableRequest,
    plan_table,
    stored_columns,
    suggest_plain_name,
)
from lakeport.writers.delta.sink import DeltaSink

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.engine.base import Engine
    from lakeport.engine.spark.delta.session import DeltaSession

_ATTEMPTS = 15
_LONGEST_WAIT = 2.0  # seconds
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeltaWriter:
    """Plans and commits one stream's batches to one Delta table.

    Attributes:
        session: returns the Spark session; called only when that is needed.
        folder: the table's key; empty when it is the storage's root.
        stream: the stream's name.
        config: how the table is written.
        run: the run's name, which commits keep that have no other.
        by_log: whether plain tables are read and committed to by their logs' files alone.
        engine: runs the tasks that rewrite data files; None: this thread does.
    """

    session: Callable[[], DeltaSession]
    storage: Storage
    folder: str
    stream: str
    config: DestinationConfig
    run: str = ""
    by_log: bool = False
    engine: Engine | None = None

    @property
    def uri(self) -> str:
        """The table, as users name it."""
        return self.storage.uri(self.folder)

    @property
    def log(self) -> DeltaLog:
        """The table's log."""
        return DeltaLog(self.storage, self.folder)

    def bookmark_store(self) -> DeltaBookmarks:
        """Return the table's bookmarks of its sources."""
        return DeltaBookmarks(self.storage, self.folder)

    def plan(
        self,
        incoming: pa.Schema,
        *,
        mode: Mode | str = Mode.APPEND,
        partition_keys: Sequence[str] = (),
        policy: EvolutionPolicy | str = EvolutionPolicy.EVOLVE,
        keys: Sequence[str] = (),
    ) -> DeltaPlan:
        """Plan a batch against the table's newest version; raises as `plan_table`."""
        request = TableRequest(
            Mode(mode), tuple(partition_keys), EvolutionPolicy(policy), keys=tuple(keys)
        )
        return self.plan_on(self.log.read_state(), incoming, request)

    def plan_on(
        self, state: TableState | None, incoming: pa.Schema, request: TableRequest
    ) -> DeltaPlan:
        """Plan a batch against `state` (None: a new table), with the config's table properties."""
        config = self.config
        properties = self._check_properties(config.table_properties)
        if state is None:
            properties = {TARGET_FILE_SIZE: str(self._target_file_bytes), **properties}
        request = replace(
            request,
            properties=properties,
            widen=config.type_widening,
            cluster_by=tuple(
                apply_header_case(name, config.column_header_format) for name in config.cluster_by
            ),
        )
        plan = plan_table(state, incoming, request)
        if self.engine and not leaves_plain(plan):
            what = f"a commit to {self.uri}, which is no plain Delta table after it,"
            if state is None and (names := needs_mapping(plan.schema)):
                advice = suggest_plain_name(names[0], plan.schema)
                what = f"a new table with a column of the name {names[0]!r} ({advice})"
            require_spark(self.engine, what).check_jars(config.jars)

        def json_advice(path: str) -> str:
            if path not in plan.schema.names or path in plan.partition_columns:
                return "a new table has it as JSON"
            command = format_alter_command(self.uri, path, "json")
            return f"{command} makes it hold JSON, its texts as strings"

        warnings = list_change_warnings(plan.evolution, json_advice)
        return replace(plan, warnings=(*plan.warnings, *warnings))

    @property
    def _target_file_bytes(self) -> int:
        return int(self.config.target_file_size_mb * 2**20)

    def _check_properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return table properties, checked by Spark, in Delta's spelling; ConfigError if wrong."""
        others = dict(properties)
        own = [others.pop(n) for n in properties if n.lower() == TARGET_FILE_SIZE.lower()]
        for value in own:
            if not value.isdecimal() or int(value) < 1:
                raise ConfigError(
                    f"`table_properties`: {TARGET_FILE_SIZE} is {value!r}",
                    "write whole bytes, such as 268435456.",
                )
        checked = self.session().validate_properties(others) if others else {}
        return {**checked, TARGET_FILE_SIZE: own[-1]} if own else checked

    def sink(self, plan: DeltaPlan) -> DeltaSink:
        """Return the sink that stages a plan's data files; unpartitioned if Spark has to write."""
        partitions = () if plan.needs_spark else plan.partition_columns
        files = (
            plan.schema
            if plan.needs_spark
            else file_schema(plan.schema_json, plan.schema, without=partitions)
        )
        return DeltaSink(
            storage=self.storage,
            folder=self.folder,
            files=files,
            partitions=physical_names(plan.schema_json, partitions),
            compression=self.config.compression,
            target_file_bytes=self._target_file_bytes,
            indexed_columns=int(plan.properties.get("delta.dataSkippingNumIndexedCols", 32)),
        )

    def mark(
        self,
        run_id: str = "",
        sequence: int = 0,
        digest: str = "",
        singer_state: bytes | None = None,
        bookmark: Bookmark | None = None,
    ) -> CommitMark:
        """Return the `CommitMark` that identifies a commit; write the bookmark's file, if any.

        Args:
            run_id: the run's id, by which a repeated batch lands once; empty for none.
            sequence: the batch's ordinal among the stream's batches of the run; -1 for a commit
                that lands none.
            digest: SHA-256 of the input in hex.
            singer_state: the STATE that becomes durable with the batch.
            bookmark: the bookmark that becomes durable with the batch.

        Raises:
            DestinationError: the store refused.
        """
        moved = None if bookmark is None else self.bookmark_store().write(bookmark)
        commit_id = str(uuid.uuid4())
        return CommitMark(
            run_id, self.stream, sequence, digest, self.run, commit_id, singer_state, moved
        )

    def find_landed_batch(self, *, run_id: str, sequence: int, digest: str) -> Landed | None:
        """Return the report of a batch that this run id has landed before; None if it has not.

        Raises:
            RunMismatch: the run landed another content under this number.
        """
        version = self.log.find_newest_version() if run_id else -1
        if version < 0:
            return None
        name = run_app_id(run_id, self.stream)
        last = self.log.last_transactions(version, [name])[name]
        return None if last < sequence else self._skip_landed(version, run_id, sequence, digest)

    def find_landed_content(self, sequence: int, content: Mapping[str, str]) -> Landed | None:
        """With `once`, return the report of an append whose files were all landed before; or None.

        `content` is as for `commit`. Raises PartlyLanded if some of the files were landed before.
        """
        version = self.log.find_newest_version() if content and self.config.once else -1
        if version < 0:
            return None
        batch = BatchContent(content, once=True)
        loaded = batch.find_loaded(partial(self.log.last_transactions, version))
        return self.skip_loaded(batch, loaded, sequence, version)

    def skip_loaded(
        self, content: BatchContent, loaded: Collection[str], sequence: int, version: int
    ) -> Landed | None:
        """Return the report of a skipped append if all files are in `loaded`; None if no file is.

        Raises PartlyLanded if it leaves out some of them.
        """
        if not (loaded and content.once):
            return None
        if len(loaded) < len(content.files):
            raise content.partly_landed_error(loaded)
        skipped = Landed(self.stream, self.uri, sequence, 0, version=version, skipped=True)
        return replace(skipped, notes=(LEFT_OUT,))

    def commit(
        self,
        plan: DeltaPlan,
        staged: Sequence[Staged],
        mark: CommitMark | None = None,
        content: Mapping[str, str] | None = None,
    ) -> Landed:
        """Append a batch or overwrite with it in one commit, unless its run has landed it before.

        Args:
            plan: the plan that the files were written for.
            staged: the batch's data files.
            mark: the commit's mark; None for a batch of no run.
            content: file -> the name of its content, by which a repeated append is recognised.

        Raises:
            PartlyLanded: some of the files were landed before, and are to be left out.
            LakeportError: as `commit_operation`.
        """
        known = NO_CONTENT
        if content and not plan.dynamic:
            known = BatchContent(content, self.config.once)
        return self.commit_operation(
            WriteOperation(self, plan, mark or self.mark(), staged, content=known)
        )

    def commit_operation(self, operation: TableOperation) -> Landed:
        """Commit an operation in up to 15 attempts, planned again after each conflict.

        Returns:
            The report, of a skipped batch where the operation's run has landed it before.

        Raises:
            CommitConflict: 15 attempts met other writers' commits, or one changed the schema.
            OutcomeUnknown: whether the commit was made, or will be, is unknown.
            RunMismatch: the run landed another batch under this number.
            SchemaConflict: the table has changed so that the batch no longer fits.
            LakeportError: the store or Spark refused.
        """
        mark = operation.mark
        with StagedFiles(self.storage, operation.staged, self.log) as staged:
            for number in range(_ATTEMPTS):
                txn = self._begin_transaction(operation.plan)
                if mark.is_numbered and self._read_last_sequence(txn, mark.run_id) >= mark.sequence:
                    return self._skip_landed(txn.version, mark.run_id, mark.sequence, mark.digest)
                if mark.bookmark_move is not None:
                    check_unmoved(mark.bookmark_move, txn, self.uri)
                plan = operation.plan_on(txn.state())
                try:
                    if plan.evolution.typed and self._commit_first_types(plan):
                        continue
                    with staged.for_attempt() as txn.files:
                        change = operation.plan_change(plan, txn)
                        if isinstance(change, Landed):
                            return change
                        report = change.report(self.log, self.try_commit(change, txn))
                        return replace(report, conflicts=number)
                except CommitConflict as error:
                    values = {"run": mark.batch_id, "stream": self.stream, "attempt": number + 1}
                    extra = {"event": "commit.conflict", "table": self.uri, **values}
                    _log.info(
                        "attempt %d on %s: %s", number + 1, self.uri, error.message, extra=extra
                    )
                    pause(random.uniform(0, min(_LONGEST_WAIT, 0.05 * 2**number)))
        raise CommitConflict(
            f"{_ATTEMPTS} attempts to commit to {self.uri} met other writers' changes",
            "nothing of this batch was committed; run it again when fewer writers are at work.",
        )

    def try_commit(self, change: TableChange, txn: TableTransaction) -> CommitOutcome:
        """Publish a change's files and commit it, without a retry; by Spark if the plan needs it.

        Raises as `TableTransaction.commit`.
        """
        files = txn.files
        with files.keep_while_committing(txn.version):
            if change.plan.needs_spark:
                files.publish()
                return change.commit_by_spark(self.log, self.session(), txn.version)
            outcome = change.commit(self.log, txn)
        files.keep()
        return outcome

    def _begin_transaction(self, plan: DeltaPlan) -> TableTransaction:
        """Begin a transaction on the newest version; its history entry names the engine."""
        txn = TableTransaction.begin(self.log, plan, self.session, by_log=self.by_log)
        if self.engine is not None:
            txn.engine = self.engine.report()
        return txn

    def _commit_first_types(self, batch: DeltaPlan) -> bool:
        """Commit types for columns that were null so far, if files have text there; True if done.

        Where no file has, the batch's own commit sets the types, but not if Spark makes that.

        Returns:
            Whether the table has changed, so that the batch is to be planned again.

        Raises as `FirstTypesOperation.plan_change` and `try_commit`.
        """
        if batch.base is None:
            return False
        operation = FirstTypesOperation.of(self, batch)
        txn = self._begin_transaction(operation.plan)
        plan = operation.plan_on(txn.state())
        with txn.files:
            change = operation.plan_change(plan, txn)
            if isinstance(change, Landed):
                return False
            self.try_commit(change, txn)
        return True

    def _read_last_sequence(self, txn: TableTransaction, run_id: str) -> int:
        """Return the run's last batch number, -1 if none; make the run's later commits conflict."""
        name = run_app_id(run_id, self.stream)
        txn.watch(name)
        return txn.last_transactions([name])[name]

    def _skip_landed(self, version: int, run_id: str, sequence: int, digest: str) -> Landed:
        """Return the report of a batch that its run landed before; warn if the log lost its commit.

        Raises:
            RunMismatch: the run landed another content under this number.
        """
        mark = self.log.find_mark(version, run_id, self.stream, sequence)
        if mark is not None and mark.digest != digest:
            raise RunMismatch(
                f"run {run_id!r} has landed batch {sequence} of stream {self.stream!r} already, "
                "with other content",
                "repeat a run with the same input and batch sizes, or give it a new `run_id`.",
            )
        warning = (
            f"batch {sequence} was landed by an earlier run, whose commit is no longer in the log: "
            "its content could not be compared."
        )
        return Landed(
            self.stream,
            self.uri,
            sequence,
            0,
            version=version,
            skipped=True,
            warnings=() if mark else (warning,),
            lowest_version=mark.lowest_version if mark else None,
        )


@dataclass
class TableOperation(ABC):
    """Base of the operations on a table that `DeltaWriter.commit_operation` commits.

    Attributes:
        plan: the operation's plan, on the state for which it was prepared.
        staged: data files that are staged already, for every attempt.
    """

    writer: DeltaWriter
    plan: DeltaPlan
    mark: CommitMark
    staged: Sequence[Staged] = ()

    @abstractmethod
    def plan_change(self, plan: DeltaPlan, txn: TableTransaction) -> TableChange | Landed:
        """Return the change to commit, or a report if there is nothing to commit.

        Both arguments are of the table's present state. Files that are staged for the change are
        added to `txn.files`.
        """

    def plan_on(self, state: TableState | None) -> DeltaPlan:
        """Return the prepared plan if it is valid for `state`, else plan again.

        Raises:
            CommitConflict: another writer changed the schema so that staged files don't fit it.
        """
        base = self.plan.base
        if state and base and state.allows_same_plan(base):
            return self.plan
        return self.plan if state is None and base is None else self.replan(state)

    def replan(self, state: TableState | None) -> DeltaPlan:
        """Plan again for another state of the table; CommitConflict if staged files don't fit."""
        plan = self.plan
        current = self.writer.plan_on(state, plan.incoming, plan.request)
        files_fit = (
            current.partition_columns == plan.partition_columns
            and bool(current.needs_spark) == bool(plan.needs_spark)
            and (not (current.mapped or plan.mapped) or current.schema_json == plan.schema_json)
            and _is_castless(current.schema, plan.schema)
        )
        if not files_fit:
            raise CommitConflict(
                f"another writer changed the schema of {self.writer.uri} while this batch was "
                "written",
                "nothing of this batch was committed; run it again.",
            )
        return current


def _is_castless(table: pa.Schema, files: pa.Schema) -> bool:
    """Whether files with these columns fit the table's columns without a cast."""
    try:
        return not plan_evolution(table, files, EvolutionPolicy.STRICT).cast
    except SchemaConflict:
        return False


@dataclass
class WriteOperation(TableOperation):
    """Appends staged files, or overwrites the table or some partitions with them.

    Attributes:
        content: names by which a repeated append is recognised.
    """

    content: BatchContent = NO_CONTENT

    def plan_change(self, plan: DeltaPlan, txn: TableTransaction) -> TableChange | Landed:
        """Return the change that adds and removes files; a report if `once` skips the append.

        Raises:
            PartlyLanded: some of the files were landed before, and are to be left out.
        """
        content, staged = self.content, self.staged
        if content.once:
            for name in content.files.values():
                txn.watch(CONTENT + name)  # of two at a time, the second is to find the first
        is_append = plan.mode is Mode.APPEND
        loaded = content.find_loaded(txn.last_transactions) if is_append else frozenset()
        sequence = self.mark.sequence
        return self.writer.skip_loaded(content, loaded, sequence, txn.version) or make_write_change(
            plan,
            self.mark,
            staged,
            () if plan.needs_spark else find_replaced_files(plan, staged, txn),
            overwrite=plan.mode is Mode.OVERWRITE,
            content=content,
            notes=(content.duplicate_note(loaded),) if loaded else (),
        )


@dataclass
class FirstTypesOperation(TableOperation):
    """Rewrites files with text for a column that was null so far and gets a type; no row changes.

    Attributes:
        batch: the plan of the batch that brings the types.
    """

    batch: DeltaPlan = field(kw_only=True)

    @classmethod
    def of(cls, writer: DeltaWriter, batch: DeltaPlan) -> FirstTypesOperation:
        """Return the operation that gives null columns of an existing table the batch's types."""
        assert batch.base is not None
        columns = batch.evolution.schema
        plan = replace(
            batch,
            schema=stored_columns(columns, batch.partition_columns, batch.base.clustering),
            request=TableRequest(Mode.MERGE),
            evolution=Evolution(columns, replaced=True),
            needs_spark=(),
        )
        return cls(writer, plan, writer.mark(sequence=-1), batch=batch)

    def replan(self, state: TableState | None) -> DeltaPlan:
        """Raise CommitConflict: the batch itself is to be planned again first."""
        raise conflict_error()

    def plan_change(self, plan: DeltaPlan, txn: TableTransaction) -> TableChange | Landed:
        """Stage rewritten files and return the change; an empty report if no file needs it.

        Raises:
            SchemaConflict: another program has written a value into such a place, or a file to
                rewrite has a deletion vector.
            LakeportError: the store or a task failed.
        """
        writer, batch, state = self.writer, self.batch, plan.base
        assert state is not None
        after = {f.name: f.type for f in file_schema(plan.schema_json, plan.schema)}
        untyped = map_untyped_columns(state.schema_json, state.open_schema)
        before = {name: type_ for name, type_ in untyped.items() if name in after}
        files = txn.all_files()
        self._check_partitions(batch, before, files)
        rewritten = find_files_to_convert(writer.log, files, before, after)
        if not (rewritten or batch.needs_spark):
            return Landed(writer.stream, writer.uri, -1, 0, version=txn.version)
        if any(file.deletion_vector for file in rewritten):
            raise SchemaConflict(
                f"{quote_names(batch.evolution.typed)} had no value so far, and the data files "
                "that have to be written anew for the first one have deletion vectors",
                "purge these (`REORG TABLE ... APPLY (PURGE)`), and land the batch again.",
            )
        table = TableFiles.of(
            writer.log, plan.schema_json, plan.schema, plan.partition_columns, untyped
        )
        converted = convert_files(FileConverter(table, writer.sink(plan)), rewritten, writer.engine)
        txn.files.add(item for one in converted for item in one.staged)
        return make_write_change(
            plan,
            self.mark,
            txn.files.staged,
            rewritten,
            overwrite=bool(rewritten),
            changes_rows=False,
        )

    def _check_partitions(
        self, batch: DeltaPlan, before: Mapping[str, pa.DataType], files: Sequence[DataFile]
    ) -> None:
        """Raise SchemaConflict if a file has a value in a partition column that was null so far."""
        for name, physical in physical_names(batch.schema_json, batch.partition_columns).items():
            if physical in before and any(file.partition.get(physical) for file in files):
                type_ = format_type(batch.evolution.schema.field(name).type)
                raise SchemaConflict(
                    f"partition column {name!r} of the table has had no value, and files that "
                    f"others wrote have it as text; it is {type_} in the stream",
                    "land the data in a new table, partitioned by the new type.",
                )
