"""Delta tables: plan a batch against the table, and land its staged files in one commit.

```
state ──▶ plan (schema, partitions) ──▶ sink (in tasks) ──Staged──▶ commit ──▶ Landed
```
A commit that another writer's change invalidates is planned again on the table's new state; data
files are only made visible right before it, and are taken away again when it fails for good.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.delta_log.actions import DataFile
from lakeport.delta_log.reader import DeltaLog
from lakeport.delta_log.state import TableState, file_schema, physical_names
from lakeport.delta_log.transactions import CONTENT, Mark, app_id, conflict
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
from lakeport.writers.delta.bookmarks import DeltaMemory, check_unmoved
from lakeport.writers.delta.commit import (
    LEFT_OUT,
    NO_CONTENT,
    CommitOutcome,
    KnownContent,
    StagedFiles,
    TableChange,
    TableTransaction,
    replaced_files,
    write_change,
)
from lakeport.writers.delta.merge.files import FileConverter, TableFiles, convert_files
from lakeport.writers.delta.options import DeltaOptions
from lakeport.writers.delta.plain import leaves_plain
from lakeport.writers.delta.plan import TARGET_FILE_SIZE, DeltaPlan, TableRequest, plan_table
from lakeport.writers.delta.sink import DeltaSink
from lakeport.writers.delta.untyped import find_holders, open_stored_columns, stored_columns

if TYPE_CHECKING:
    from lakeport.engine.base import DeltaSession, Engine

_ATTEMPTS = 15
_LONGEST_WAIT = 2.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeltaWriter:
    """Writes one stream's batches to one Delta table.

    Attributes:
        session: gives the Spark session, which is only asked for when it is needed.
        storage: where the table is.
        folder: the table's key; empty when it is the storage's root.
        stream: the stream's name.
        options: how the table is written.
        run: the run's name, which commits keep that have no other.
        by_log: whether plain tables are read and committed to by their logs' files alone.
        engine: runs what writes data files anew; None: this thread does.
    """

    session: Callable[[], DeltaSession]
    storage: Storage
    folder: str
    stream: str
    options: DeltaOptions = field(default_factory=DeltaOptions)
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

    def plan(
        self,
        incoming: pa.Schema,
        *,
        mode: Mode | str = Mode.APPEND,
        partition_keys: Sequence[str] = (),
        policy: EvolutionPolicy | str = EvolutionPolicy.EVOLVE,
        keys: Sequence[str] = (),
    ) -> DeltaPlan:
        """Plan a batch against the table as it is now; see `plan_table` for the errors."""
        request = TableRequest(
            Mode(mode), tuple(partition_keys), EvolutionPolicy(policy), keys=tuple(keys)
        )
        return self._planned(self.log.state(), incoming, request)

    def _planned(
        self, state: TableState | None, incoming: pa.Schema, request: TableRequest
    ) -> DeltaPlan:
        """A plan for the request, with what the options say beside it."""
        options = self.options
        properties = self._check_properties(options.properties) if options.properties else {}
        if state is None:
            properties = {TARGET_FILE_SIZE: str(options.target_file_bytes), **properties}
        request = replace(
            request,
            properties=properties,
            widen=options.type_widening,
            cluster_by=options.cluster_by,
        )
        plan = plan_table(state, incoming, request)
        if (engine := self.engine) and not engine.commits_any_table and not leaves_plain(plan):
            engine.require_spark(f"a commit to {self.uri}, which is no plain Delta table after it,")

        def json_way(path: str) -> str:
            if path not in plan.schema.names or path in plan.partition_columns:
                return "a new table has it as JSON"
            command = format_alter_command(self.uri, path, "json")
            return f"{command} makes it hold JSON, its texts as strings"

        warnings = list_change_warnings(plan.evolution, json_way)
        return replace(plan, warnings=(*plan.warnings, *warnings))

    def _commit_first_types(self, plan: DeltaPlan) -> bool:
        """Commit the types that places without a value get, if data files have text there.

        These files are written anew, which changes no row. Where no file has such a place, the
        batch's own commit gives the types, but not if Spark makes that.

        Returns:
            Whether the table has changed, so that the batch is to be planned again.

        Raises:
            CommitConflict: another writer changed the table meanwhile.
            SchemaConflict: another program has written a value into such a place.
            LakeportError: as `commit`.
        """
        state, schema_json = plan.base, plan.schema_json
        if state is None:
            return False
        columns = plan.evolution.schema
        schema = stored_columns(columns, plan.partition_columns, state.clustering)
        fill = replace(
            plan,
            schema=schema,
            request=TableRequest(Mode.MERGE),
            evolution=Evolution(columns, replaced=True),
            dynamic=False,
            needs_spark=(),
        )
        txn = self._begin(fill)
        now = txn.state()
        if now is None or not now.plans_as(state):
            raise conflict()
        files = file_schema(schema_json, schema)
        after = {f.name: f.type for f in files}
        open_ = open_stored_columns(state.schema_json, state.open_schema)
        before = {name: type_ for name, type_ in open_.items() if name in after}
        present = txn.all_files()
        self._check_partitions(plan, before, present)
        found = find_holders(self.storage, self.folder, present, before, after)
        if not (found or plan.needs_spark):
            return False
        if any(file.deletion_vector for file in found):
            raise SchemaConflict(
                f"{quote_names(plan.evolution.typed)} had no value so far, and the data files that "
                "have to be written anew for the first one have deletion vectors",
                "purge these (`REORG TABLE ... APPLY (PURGE)`), and land the batch again.",
            )
        table = TableFiles.of(self.log, schema_json, schema, plan.partition_columns, open_)
        with StagedFiles(self.storage, (), self.log) as staged:
            done = convert_files(FileConverter(table, self.sink(fill)), found, self.engine)
            staged.add(item for one in done for item in one.staged)
            mark = self.mark(sequence=-1)
            change = write_change(
                fill, mark, staged.staged, found, overwrite=bool(found), changes_rows=False
            )
            self.try_commit(change, txn, staged)
        return True

    def _check_partitions(
        self, plan: DeltaPlan, before: Mapping[str, pa.DataType], files: Sequence[DataFile]
    ) -> None:
        """See that no file is of a partition of text by a column that is to get its first value.

        Raises:
            SchemaConflict: another program has written one.
        """
        for name, physical in physical_names(plan.schema_json, plan.partition_columns).items():
            if physical in before and any(file.partition.get(physical) for file in files):
                type_ = format_type(plan.evolution.schema.field(name).type)
                raise SchemaConflict(
                    f"partition column {name!r} of the table has had no value, and files that "
                    f"others wrote have it as text; it is {type_} in the stream",
                    "land the data in a new table, partitioned by the new type.",
                )

    def sink(self, plan: DeltaPlan) -> DeltaSink:
        """The kernel that stages the plan's data files."""
        apart = () if plan.needs_spark else plan.partition_columns
        files = (
            plan.schema
            if plan.needs_spark
            else file_schema(plan.schema_json, plan.schema, without=apart)
        )
        return DeltaSink(
            storage=self.storage,
            folder=self.folder,
            files=files,
            partitions=physical_names(plan.schema_json, apart),
            compression=self.options.compression,
            target_file_bytes=self.options.target_file_bytes,
            indexed_columns=int(plan.properties.get("delta.dataSkippingNumIndexedCols", 32)),
        )

    def landed(self, *, run_id: str, sequence: int, digest: str) -> Landed | None:
        """What an earlier run with this id has landed of a batch.

        Raises:
            RunMismatch: the batch that it landed was another one.
            DestinationError: the store refused.
        """
        version = self.log.newest() if run_id else -1
        if version < 0:
            return None
        name = app_id(run_id, self.stream)
        last = self.log.last_transactions(version, [name])[name]
        return None if last < sequence else self._skip_landed(version, run_id, sequence, digest)

    def landed_content(self, sequence: int, content: Mapping[str, str]) -> Landed | None:
        """Return what is reported of an append that is left out; None for one that lands.

        Args:
            sequence: the batch's ordinal.
            content: as for `commit`.

        Raises:
            LandedBefore: some of the files were landed before, and are to be left out.
            DestinationError: the store refused.
        """
        version = self.log.newest() if content and self.options.once else -1
        if version < 0:
            return None
        known = KnownContent(content, once=True)
        again = known.landed(partial(self.log.last_transactions, version))
        return self._left_out(known, again, sequence, version)

    def _left_out(
        self, known: KnownContent, again: Collection[str], sequence: int, version: int
    ) -> Landed | None:
        if not (again and known.once):
            return None
        if len(again) < len(known.files):
            raise known.landed_before(again)
        skipped = Landed(self.stream, self.uri, sequence, 0, version=version, skipped=True)
        return replace(skipped, notes=(LEFT_OUT,))

    def commit(
        self,
        plan: DeltaPlan,
        staged: Sequence[Staged],
        mark: Mark | None = None,
        content: Mapping[str, str] | None = None,
    ) -> Landed:
        """Land a batch in one commit, or find that this run had landed it.

        Args:
            plan: what the files were written for.
            staged: the files.
            mark: what the commit says about itself, and what makes a repeated batch land once;
                None for a batch of no run.
            content: file -> the name that its content is known by when it comes again.

        Raises:
            CommitConflict: other writers were faster, again and again, or changed the schema.
            LandedBefore: some of the files were landed before, and are to be left out.
            OutcomeUnknown: nothing tells whether the commit was made, or will be.
            RunMismatch: the run landed another batch under this number.
            SchemaConflict: the table has changed so that the batch no longer fits.
            LakeportError: the store or Spark refused.
        """
        own = mark or self.mark()
        known = NO_CONTENT
        if content and not plan.dynamic:
            known = KnownContent(content, self.options.once)

        def change(now: DeltaPlan, txn: TableTransaction, _: StagedFiles) -> TableChange | Landed:
            if known.once:
                for name in known.files.values():
                    txn.watch(CONTENT + name)  # of two at a time, the second is to find the first
            appends = now.mode is Mode.APPEND
            again = known.landed(txn.last_transactions) if appends else frozenset()
            return self._left_out(known, again, own.sequence, txn.version) or write_change(
                now,
                own,
                staged,
                () if now.needs_spark else replaced_files(now, staged, txn),
                overwrite=now.mode is Mode.OVERWRITE,
                content=known,
                notes=(known.duplicate_note(again),) if again else (),
            )

        return self.until_committed(plan, own, change, staged)

    def mark(
        self,
        run_id: str = "",
        sequence: int = 0,
        digest: str = "",
        singer_state: bytes | None = None,
        bookmark: Bookmark | None = None,
    ) -> Mark:
        """What a new commit is to say about itself.

        Args:
            run_id: makes a repeated batch land once; empty for none.
            sequence: the batch's ordinal among the stream's batches of the run; -1 for a commit
                that lands none.
            digest: SHA-256 of the input in hex.
            singer_state: the STATE that becomes durable with the batch.
            bookmark: becomes durable with it, too; its document is written now.

        Raises:
            DestinationError: the store refused.
        """
        moved = None if bookmark is None else self.memory().write(bookmark)
        commit_id = str(uuid.uuid4())
        return Mark(run_id, self.stream, sequence, digest, self.run, commit_id, singer_state, moved)

    def memory(self) -> DeltaMemory:
        """What the table remembers of its sources."""
        return DeltaMemory(self.storage, self.folder)

    def until_committed(
        self,
        plan: DeltaPlan,
        mark: Mark,
        change: Callable[[DeltaPlan, TableTransaction, StagedFiles], TableChange | Landed],
        staged: Sequence[Staged] = (),
        planned: Callable[[TableState | None], DeltaPlan] | None = None,
    ) -> Landed:
        """Commit a change, made anew until it meets no other writer's; see `commit` for the errors.

        Args:
            plan: what the change is for.
            mark: what the commit says about itself.
            change: returns the change to commit, or what to report where there is none. It takes
                the plan on the table's present state, a transaction on that, and the attempt's
                files, to which it adds what it stages.
            staged: files that are staged already, for every attempt.
            planned: plans on another state; None for `plan`'s request.
        """
        with StagedFiles(self.storage, staged, self.log) as files:
            for number in range(_ATTEMPTS):
                txn = self._begin(plan)
                if mark.numbered and self._last_sequence(txn, mark.run_id) >= mark.sequence:
                    return self._skip_landed(txn.version, mark.run_id, mark.sequence, mark.digest)
                if mark.moved is not None:
                    check_unmoved(mark.moved, txn, self.uri)
                current = self._replan(plan, txn, planned)
                try:
                    if current.evolution.typed and self._commit_first_types(current):
                        continue
                    with files.of_attempt() as own:
                        found = change(current, txn, own)
                        if isinstance(found, Landed):
                            return found
                        return found.landed(self.log, self.try_commit(found, txn, own))
                except CommitConflict as error:
                    _log.info("attempt %d on %s: %s", number + 1, self.uri, error.message)
                    pause(random.uniform(0, min(_LONGEST_WAIT, 0.05 * 2**number)))
        raise CommitConflict(
            f"{_ATTEMPTS} attempts to commit to {self.uri} met other writers' changes",
            "nothing of this batch was committed; run it again when fewer writers are at work.",
        )

    def _last_sequence(self, txn: TableTransaction, run_id: str) -> int:
        """How far the run has come; a commit of the same run in the meantime is a conflict."""
        name = app_id(run_id, self.stream)
        txn.watch(name)
        return txn.last_transactions([name])[name]

    def _skip_landed(self, version: int, run_id: str, sequence: int, digest: str) -> Landed:
        """Return the report of a batch that landed before; RunMismatch for another content."""
        known = self.log.recorded(version, run_id, self.stream, sequence)
        if known is not None and known.digest != digest:
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
            warnings=() if known else (warning,),
            lowest_version=known.lowest_version if known else None,
        )

    def _begin(self, plan: DeltaPlan) -> TableTransaction:
        """A transaction on the table's present state."""
        found = TableTransaction.begin(self.log, plan, self.session, by_log=self.by_log)
        if self.engine is not None:
            found.engine = self.engine.report()
        return found

    def _check_properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Table properties under the names that Delta, or lakeport, knows them by."""
        others = dict(properties)
        own = [others.pop(n) for n in properties if n.lower() == TARGET_FILE_SIZE.lower()]
        for value in own:
            if not value.isdecimal() or int(value) < 1:
                raise ConfigError(
                    f"`table_properties`: {TARGET_FILE_SIZE} is {value!r}",
                    "write whole bytes, such as 268435456.",
                )
        found = self.session().checked_properties(others) if others else {}
        return {**found, TARGET_FILE_SIZE: own[-1]} if own else found

    def try_commit(
        self, change: TableChange, txn: TableTransaction, files: StagedFiles
    ) -> CommitOutcome:
        """Commit a change.

        Raises:
            CommitConflict: another writer was faster; nothing landed.
            OutcomeUnknown: nothing tells whether the commit was made, or will be.
            LakeportError: the store or Spark refused.
        """
        with files.committing(txn.version):
            if change.plan.needs_spark:
                files.publish()
                return change.commit_by_spark(self.log, self.session(), txn.version)
            done = change.commit(self.log, txn, files.publish)
        files.keep()
        return done

    def _replan(
        self,
        plan: DeltaPlan,
        txn: TableTransaction,
        planned: Callable[[TableState | None], DeltaPlan] | None,
    ) -> DeltaPlan:
        """The plan on the table's present state, if the files that were written still fit it."""
        now = txn.state()
        if now and plan.base and now.plans_as(plan.base):
            return plan
        if now is None and plan.base is None:
            return plan
        if planned is not None:
            return planned(now)
        current = self._planned(now, plan.incoming, plan.request)
        same = (
            current.partition_columns == plan.partition_columns
            and bool(current.needs_spark) == bool(plan.needs_spark)
            and (not (current.mapped or plan.mapped) or current.schema_json == plan.schema_json)
            and _fits(current.schema, plan.schema)
        )
        if not same:
            raise CommitConflict(
                f"another writer changed the schema of {self.uri} while this batch was written",
                "nothing of this batch was committed; run it again.",
            )
        return current


def _fits(table: pa.Schema, files: pa.Schema) -> bool:
    """Whether files with these columns can be part of a table as they are."""
    try:
        return not plan_evolution(table, files, EvolutionPolicy.STRICT).cast
    except SchemaConflict:
        return False
