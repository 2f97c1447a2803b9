"""What a run of a lake's file would do, load by load, in order; nothing is written.

No source is read beyond a listing, no database beyond what its columns are, and no table beyond
its log.

| source | its columns |
|---|---|
| tables | as their logs have them, and as loads of the same plan will |
| a database | as it describes them; no row is read |
| files, taps | not known: those that `sql` names stand in for them, without a type |

Of what is not known, the text of `sql` may still tell whether it takes each batch on its own.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeport.config.lake.model import find_query_columns, find_query_tables
from lakeport.config.sources import DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.destinations import open_storage, open_table
from lakeport.engine.failures import translate_errors
from lakeport.engine.sql.frames import empty_frame
from lakeport.engine.sql.query import clone_session, is_row_wise, name_frames, query
from lakeport.errors import LakeportError, SourceError
from lakeport.lake.table import Table
from lakeport.loading.batches import Policies, columns_of, union_columns
from lakeport.loading.prepare import PreparedLoad
from lakeport.loading.transform.rules import RowRules
from lakeport.loading.transform.transform import AT_ONCE, EACH_ALONE, SOURCE
from lakeport.model import Batch, Mode
from lakeport.pipeline.report import table_of
from lakeport.pipeline.run import Schedule, function_of, select_loads, start_engine
from lakeport.schema.spark_schema import quote_identifier
from lakeport.schema.types import format_type
from lakeport.scrub import scrub
from lakeport.sources import tables
from lakeport.sources.database.database_source import bookmark_name, described
from lakeport.sources.files.new_files import open_new_files
from lakeport.sources.options import ReadOptions
from lakeport.sources.splits import InMemoryReader
from lakeport.sources.tables import DeltaTable
from lakeport.units import format_size, pluralize

if TYPE_CHECKING:
    from lakeport.config.lake import LakeFile, Load
    from lakeport.config.sources import ConfigPart
    from lakeport.engine.base import DataFrame, Engine
    from lakeport.model import Memory

_UNREAD: Final = "its source's columns are known once it is read"

_ALL = "all rows: none was landed yet"


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What a run would do for one load.

    Attributes:
        load: its name.
        reads: its source in words, without secrets.
        news: what of it the table has not had; empty where it remembers nothing of the source.
        uses: the loads that have to end well before.
        transform: `sql`, `python`, both, or nothing that is made of the rows.
        runs: of those, `each batch on its own` or `the whole input at once`; empty where nothing is
            made of the rows, or that is not known.
        result: of those, column -> type that the table gets; empty where that is not known.
        unknown: why something of that is not known.
        mode: `append`, `overwrite` or `merge`.
        table: its URI; empty for a tap, whose streams have one each.
        version: the table's newest; None for files, and where there is none yet.
        columns: column -> type of the table as it is; empty where there is none.
        partition_keys: columns by which it is partitioned.
        expect: what is expected of the rows, and what follows else.
        tags: its tags.
        engine: what would run its tasks: `spark` or `threads`.
    """

    load: str
    reads: str
    news: str
    uses: tuple[str, ...]
    transform: str
    runs: str
    result: Mapping[str, str]
    unknown: str
    mode: str
    table: str
    version: int | None
    columns: Mapping[str, str]
    partition_keys: tuple[str, ...]
    expect: tuple[str, ...]
    tags: tuple[str, ...]
    engine: str

    @property
    def in_words(self) -> dict[str, str]:
        """What there is to say, by what it is about."""
        version = "" if self.version is None else f", now version {self.version}"
        new = "" if self.columns or not self.table else ", which is not there yet"
        does = {"append": "append to", "merge": "merge into"}.get(self.mode, self.mode)
        facts = {
            "reads": self.reads,
            "of it": self.news,
            "uses": ", ".join(self.uses),
            "makes of it": ", ".join(filter(None, (self.transform, self.runs))),
            "which gives": _listed(self.result),
            "not known": self.unknown,
            "does": f"{does} {self.table or 'a table for each stream'}{version}{new}",
            "columns": _listed(self.columns),
            "partitions": ", ".join(self.partition_keys),
            "expects": "; ".join(self.expect),
            "tags": ", ".join(self.tags),
            "engine": self.engine,
        }
        return {name: value for name, value in facts.items() if value}


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """What a run of a lake's file would do.

    Attributes:
        file: the file.
        steps: names of loads, in the order in which they can begin: those of one step side by side.
        loads: what each would do, in that order.
    """

    file: str
    steps: tuple[tuple[str, ...], ...]
    loads: tuple[LoadPlan, ...]

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, with the attributes' names as keys."""
        return {"plan": 1, **asdict(self)}

    def to_json(self) -> str:
        """The plan as one JSON object on one line."""
        return json.dumps(self.to_dict())


def plan_lake(lake: LakeFile, *, only: Sequence[str] = (), tag: str = "") -> PipelinePlan:
    """Tell what `run` would do with the same arguments.

    Raises:
        ConfigError: what is asked for is wrong.
        DestinationError: a store refused.
    """
    loads = select_loads(lake, only, tag)
    schedule = Schedule({name: load.depends for name, load in loads.items()})
    steps = []
    while step := schedule.ready():
        steps.append(tuple(step))
        for name in step:
            schedule.ended(name, well=True)
    with start_engine(loads.values()) as engine:  # which is not asked for anything
        planner = ResultPlanner(engine)
        planned = tuple(_planned(loads[name], planner) for step in steps for name in step)
    return PipelinePlan(str(lake.path), tuple(steps), planned)


def _planned(load: Load, planner: ResultPlanner) -> LoadPlan:
    config = load.target
    uri = table_of(load)
    version, columns = None, dict[str, str]()
    with suppress(SourceError):  # it is not there yet
        found = Table(uri, config).describe() if uri else None
        version = found.version if found else None
        columns = {column.name: column.type for column in found.columns} if found else {}
    secrets = (*load.source.secrets(), *config.secrets())
    made = planner.load(load, uri)
    return LoadPlan(
        load.name,
        scrub(_words(load.source), load.source.secrets()),
        scrub(news_of(load, planner.engine), secrets),
        load.depends,
        " and ".join(kind for kind in ("sql", "python") if getattr(load, kind)),
        made.runs,
        made.types,
        scrub(made.unknown, secrets),
        config.mode.value,
        uri,
        version,
        columns,
        config.partition_keys,
        tuple(f"{one.title}, otherwise {one.otherwise}" for one in load.expect),
        load.tags,
        config.engine,
    )


def _listed(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns.items())


def _words(source: ConfigPart) -> str:
    """A source as a user would name it."""
    if isinstance(source, FilesSource):
        names = source.files if isinstance(source.files, str) else ", ".join(source.files)
        return f"new files of {names}" if source.new_only else f"files {names}"
    if isinstance(source, DatabaseSource):
        what = f"table {source.table}" if source.table else "a query"
        since = f", from the last `{source.cursor}` on" if source.cursor else ""
        return f"{what} of a database{since}"
    if isinstance(source, TablesSource):
        new = "new rows of " if source.incremental else ""
        return f"{new}tables {', '.join(source.tables)}"
    return f"tap {source.tap[0]}" if isinstance(source, TapSource) else "a source"


@dataclass(frozen=True)
class LoadResult:
    """The columns that a load gives its table, and how its rows are transformed.

    Attributes:
        runs: `each batch on its own` or `the whole input at once`; empty where it is not known.
        columns: what its table gets of it, internal columns among them; None: not known.
        unknown: why something is not known.
    """

    runs: str = ""
    columns: pa.Schema | None = None
    unknown: str = ""

    @property
    def types(self) -> dict[str, str]:
        """Column -> type, in words."""
        return {field.name: format_type(field.type) for field in self.columns or ()}


@dataclass
class ResultPlanner:
    """Plans the results of loads, which are asked for in the order in which they run.

    Args:
        engine: Spark, which is started for loads with `sql` or `python`, where they take it.
    """

    engine: Engine
    _tables: dict[str, tuple[Mode, pa.Schema]] = field(default_factory=dict)

    def load(self, load: Load, table: str) -> LoadResult:
        """Plan a load's result; it is empty for a load without `sql` and `python`.

        Args:
            load: the load.
            table: the URI of its table.
        """
        if not load.sql and not load.python:
            return LoadResult()
        try:
            made = self._known(load)
        except LakeportError as error:
            made = LoadResult(self._by_text(load), unknown=error.message)
        if made.columns is not None:
            self._tables[table] = load.target.mode, made.columns
        if any(one.needs_whole_input for one in load.expect):
            return LoadResult(AT_ONCE, made.columns, made.unknown)
        return made

    def _known(self, load: Load) -> LoadResult:
        source = load.source
        if isinstance(source, TablesSource):
            frames = {name: self._frame(place, load) for name, place in source.tables.items()}
            frame = next(iter(frames.values()))
            return self._planned(load, Batch(load.name, 0, frame=frame), frames)
        if isinstance(source, DatabaseSource) and not source.is_jdbc:
            schema = described(source)
            columns = InMemoryReader(schema, schema.empty_table())
            return self._planned(load, Batch(load.name, 0, reader=columns), {})
        raise SourceError(_UNREAD)

    def _by_text(self, load: Load) -> str:
        """How a query runs whose source's columns are not known; empty if that is not known."""
        names = find_query_columns(load.sql)
        if not load.sql or names is None:
            return ""
        if {name.lower() for name in find_query_tables(load.sql)} != {SOURCE}:
            return AT_ONCE
        if load.python:
            return ""
        try:
            with translate_errors(self.engine.secrets):
                return self._of_any_types(load.sql, names)
        except LakeportError:
            return ""

    def _of_any_types(self, sql: str, names: Iterable[str]) -> str:
        """How a query runs on columns that may be of any type: they are null."""
        session = clone_session(self.engine.require_spark("a query").spark)
        nulls = session.range(0).selectExpr(
            *(f"NULL AS {quote_identifier(name)}" for name in names)
        )
        name_frames(session, {SOURCE: nulls})
        return EACH_ALONE if is_row_wise(query(session, sql, {}), SOURCE) else AT_ONCE

    def _planned(self, load: Load, batch: Batch, frames: Mapping[str, DataFrame]) -> LoadResult:
        views = {**frames, **{n: self._frame(p, load) for n, p in load.tables.items()}}
        prepared = PreparedLoad(
            load.target, open_storage(load.target), self.engine, (), writes=False
        )
        rules = RowRules.from_arguments(prepared, load.sql, function_of(load), views, load.expect)
        planned = rules.plan_batch(prepared, batch)
        shape = Policies(load.target).shape(planned.columns, planned.batch)
        return LoadResult(planned.how, shape.schema)

    def _frame(self, place: str, load: Load) -> DataFrame:
        """A table as it is once the loads before have landed, as far as their columns are known."""
        mode, planned = self._tables.get(place, (None, None))
        try:
            there = DeltaTable(place, load.target, self.engine).whole()
        except SourceError:
            if planned is None:
                raise
        else:
            if planned is None:
                return there
            if mode is not Mode.OVERWRITE:
                planned = union_columns([columns_of(Batch(load.name, 0, frame=there)), planned])
        with translate_errors(self.engine.secrets):
            return empty_frame(self.engine.require_spark("a query").spark, planned)


def news_of(load: Load, engine: Engine) -> str:
    """What a load would have, in words; empty where its table remembers nothing of its source.

    Args:
        load: the load.
        engine: Spark, which need not start.
    """
    try:
        return _found(load, partial(_memory, load, engine))
    except LakeportError as error:
        return f"it would fail: {error.message}"


def _memory(load: Load, engine: Engine, stream: str = "") -> Memory:
    storage = open_storage(load.target)
    table = open_table(load.target, storage, engine, stream or load.name, writes=False)
    return table.memory(writes=False)


def _found(load: Load, memory: partial[Memory]) -> str:
    source = load.source
    if isinstance(source, FilesSource) and source.new_only:
        options = ReadOptions().merge_source(source)
        with tempfile.TemporaryDirectory(prefix="lakeport-") as folder:
            _, new = open_new_files(source, options, load.target, Path(folder), memory)
            total = sum(file.bytes for file in new.files)
            return f"{pluralize(len(new.files), 'new file')}, {format_size(total)}"
    if isinstance(source, DatabaseSource) and source.cursor:
        value = memory().bookmark(bookmark_name(source)).value
        return f"rows from {source.cursor} {value['value']} on" if "value" in value else _ALL
    if isinstance(source, TablesSource) and source.incremental:
        name = next(iter(source.tables))
        value = memory().bookmark(tables.bookmark_name(name)).value
        return f"rows behind version {value['version']}" if "version" in value else _ALL
    return ""
