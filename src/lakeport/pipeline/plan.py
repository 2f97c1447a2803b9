"""Plan a run of a lake file: what it would do, load by load, in order; nothing is written.

The plan lists sources but reads none; it asks a database for columns alone, and reads tables' logs.

| source | its columns |
|---|---|
| tables | those of their logs, changed as earlier loads of the same plan would |
| a database | as the database describes them; no row is read |
| files, taps | unknown: the names that `sql` uses stand in for them, without a type |

Where columns are unknown, the text of `sql` may still say whether it takes each batch on its own.
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
from lakeport.engine.sql.query import clone_session, is_row_wise, name_frames, query_frames
from lakeport.engine.threads import require_spark
from lakeport.errors import LakeportError, SourceError
from lakeport.lake.table import Table
from lakeport.loading.batches import Policies, union_columns
from lakeport.loading.prepare import PreparedLoad
from lakeport.loading.transform.function import import_transform
from lakeport.loading.transform.rules import RowRules
from lakeport.loading.transform.transform import AT_ONCE, EACH_ALONE, SOURCE
from lakeport.model import Batch, Mode
from lakeport.pipeline.report import table_uri
from lakeport.pipeline.run import Schedule, choose_run_engine, select_loads
from lakeport.schema.spark_schema import columns_of, quote_identifier
from lakeport.schema.types import format_type
from lakeport.scrub import scrub
from lakeport.shape import apply_header_case
from lakeport.sources import tables
from lakeport.sources.database.database_source import bookmark_name, describe_columns
from lakeport.sources.files.new_files import open_new_files
from lakeport.sources.options import ReadOptions
from lakeport.sources.splits import InMemoryReader
from lakeport.sources.tables import DeltaTable
from lakeport.units import format_size, pluralize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.config.lake import LakeFile, Load
    from lakeport.config.sources import ConfigPart
    from lakeport.engine.base import Engine
    from lakeport.model import BookmarkStore

_UNREAD_HINT: Final = "its source's columns are known once it is read"

_ALL_ROWS = "all rows: none was landed yet"


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Plan of one load of a run.

    Attributes:
        reads: its source in words, without secrets.
        news: what of the source is new to the table; empty where the table has no bookmark of it.
        uses: the loads that have to end well before.
        transform: `sql`, `python`, `sql and python`, or empty.
        runs: how the transform runs: `each batch on its own` or `the whole input at once`; empty
            without a transform, and where that is unknown.
        result: column -> type that the transform gives the table; empty where that is unknown.
        unknown: why `runs` or `result` is unknown.
        mode: `append`, `overwrite` or `merge`.
        table: the table's URI; empty for a tap, whose streams have a table each.
        version: the table's newest version; None for files, and where there is no table yet.
        columns: column -> type of the table as it is; empty where there is none.
        expect: the expectations, each with what follows if it is violated.
        engine: the engine that would run the tasks: `spark` or `threads`.
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
        """The plan as texts for people, by subject; leaves out subjects without a text."""
        version = "" if self.version is None else f", now version {self.version}"
        new = "" if self.columns or not self.table else ", which is not there yet"
        does = {"append": "append to", "merge": "merge into"}.get(self.mode, self.mode)
        facts = {
            "reads": self.reads,
            "of it": self.news,
            "uses": ", ".join(self.uses),
            "makes of it": ", ".join(filter(None, (self.transform, self.runs))),
            "which gives": _list_columns(self.result),
            "not known": self.unknown,
            "does": f"{does} {self.table or 'a table for each stream'}{version}{new}",
            "columns": _list_columns(self.columns),
            "partitions": ", ".join(self.partition_keys),
            "expects": "; ".join(self.expect),
            "tags": ", ".join(self.tags),
            "engine": self.engine,
        }
        return {name: value for name, value in facts.items() if value}


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """Plan of a run of a lake file.

    Attributes:
        steps: names of loads, in the order in which they can begin; loads of one step run at once.
        loads: the plan of each load, in that order.
    """

    file: str
    steps: tuple[tuple[str, ...], ...]
    loads: tuple[LoadPlan, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, by the names of the attributes."""
        return {"plan": 1, **asdict(self)}

    def to_json(self) -> str:
        """Return the plan as one JSON object on one line."""
        return json.dumps(self.to_dict())


def plan_lake(lake: LakeFile, *, only: Sequence[str] = (), tag: str = "") -> PipelinePlan:
    """Plan a lake file's loads without running them; ConfigError for unknown names or tags."""
    loads = select_loads(lake, only, tag)
    schedule = Schedule({name: load.depends for name, load in loads.items()})
    steps = []
    while step := schedule.take_ready():
        steps.append(tuple(step))
        for name in step:
            schedule.mark_ended(name, succeeded=True)
    with choose_run_engine(loads.values()) as engine:  # Spark starts only for a query
        planner = ResultPlanner(engine)
        plans = tuple(_plan_load(loads[name], planner) for step in steps for name in step)
    return PipelinePlan(str(lake.path), tuple(steps), plans)


def _plan_load(load: Load, planner: ResultPlanner) -> LoadPlan:
    """Plan one load; reads its table and bookmarks. The loads that it uses come first."""
    config = load.target
    uri = table_uri(load)
    version, columns = None, dict[str, str]()
    with suppress(SourceError):  # there is no table yet
        table = Table(uri, config).describe() if uri else None
        version = table.version if table else None
        columns = {column.name: column.type for column in table.columns} if table else {}
    secrets = (*load.source.secrets(), *config.secrets())
    result = planner.plan(load, uri)
    return LoadPlan(
        load.name,
        scrub(_describe_source(load.source), load.source.secrets()),
        scrub(describe_news(load, planner.engine), secrets),
        load.depends,
        " and ".join(kind for kind in ("sql", "python") if getattr(load, kind)),
        result.runs,
        result.types,
        scrub(result.unknown, secrets),
        config.mode.value,
        uri,
        version,
        columns,
        tuple(apply_header_case(key, config.column_header_format) for key in config.partition_keys),
        tuple(f"{one.title}, otherwise {one.otherwise}" for one in load.expect),
        load.tags,
        config.engine,
    )


def _list_columns(columns: Mapping[str, str]) -> str:
    """Join columns and their types to a list in words."""
    return ", ".join(f"{name} {type_}" for name, type_ in columns.items())


def _describe_source(source: ConfigPart) -> str:
    """Describe a source in words, such as `new files of in/*.csv`."""
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
    """Planned result of a load's transform: the table's columns, and how the transform runs.

    Attributes:
        runs: `each batch on its own` or `the whole input at once`; empty where it is unknown.
        columns: the table's columns from it, internal columns included; None where unknown.
        unknown: why `runs` or `columns` is unknown; empty where both are known.
    """

    runs: str = ""
    columns: pa.Schema | None = None
    unknown: str = ""

    @property
    def types(self) -> dict[str, str]:
        """Column -> type in words; empty where the columns are unknown."""
        return {field.name: format_type(field.type) for field in self.columns or ()}


@dataclass
class ResultPlanner:
    """Plans the results of loads' transforms, in the order in which the loads run.

    Spark starts for the first load whose transform can be planned.
    """

    engine: Engine
    _tables: dict[str, tuple[Mode, pa.Schema]] = field(default_factory=dict)

    def plan(self, load: Load, table: str) -> LoadResult:
        """Plan the result of a load's transform; empty if it has neither `sql` nor `python`.

        Its columns are kept for later loads that read `table`, the URI of its table.
        """
        if not load.sql and not load.python:
            return LoadResult()
        try:
            result = self._plan_by_columns(load)
        except LakeportError as error:
            result = LoadResult(self._classify_by_text(load), unknown=error.message)
        if result.columns is not None:
            self._tables[table] = load.target.mode, result.columns
        if any(one.needs_whole_input for one in load.expect):
            return LoadResult(AT_ONCE, result.columns, result.unknown)
        return result

    def _plan_by_columns(self, load: Load) -> LoadResult:
        """Plan a load whose source columns are known unread; SourceError for other sources."""
        source = load.source
        if isinstance(source, TablesSource):
            frames = {name: self._table_frame(place, load) for name, place in source.tables.items()}
            frame = next(iter(frames.values()))
            return self._plan_batch(load, Batch(load.name, 0, frame=frame), frames)
        if isinstance(source, DatabaseSource) and not source.is_jdbc:
            schema = describe_columns(source)
            columns = InMemoryReader(schema, schema.empty_table())
            return self._plan_batch(load, Batch(load.name, 0, reader=columns), {})
        raise SourceError(_UNREAD_HINT)

    def _classify_by_text(self, load: Load) -> str:
        """Return how a query runs, judged by its SQL without columns; empty if unclear."""
        names = find_query_columns(load.sql)
        if not load.sql or names is None:
            return ""
        if {name.lower() for name in find_query_tables(load.sql)} != {SOURCE}:
            return AT_ONCE
        if load.python:
            return ""
        try:
            with translate_errors(self.engine.secrets):
                return self._classify_query(load.sql, names)
        except LakeportError:
            return ""

    def _classify_query(self, sql: str, names: Iterable[str]) -> str:
        """Return how a query runs, by Spark's plan for it on columns of nulls."""
        session = clone_session(require_spark(self.engine, "a query").spark)
        nulls = session.range(0).selectExpr(
            *(f"NULL AS {quote_identifier(name)}" for name in names)
        )
        name_frames(session, {SOURCE: nulls})
        return EACH_ALONE if is_row_wise(query_frames(session, sql, {}), SOURCE) else AT_ONCE

    def _plan_batch(self, load: Load, batch: Batch, frames: Mapping[str, DataFrame]) -> LoadResult:
        """Plan a load for a batch without rows; `frames` are the source's tables by name."""
        views = {**frames, **{n: self._table_frame(p, load) for n, p in load.tables.items()}}
        prepared = PreparedLoad(
            load.target, open_storage(load.target), self.engine, (), writes=False
        )
        rules = RowRules.from_arguments(
            prepared, load.sql, import_transform(load), views, load.expect
        )
        planned = rules.plan_batch(prepared, batch)
        shape = Policies(load.target).shape(planned.columns, planned.batch)
        return LoadResult(planned.how, shape.schema)

    def _table_frame(self, place: str, load: Load) -> DataFrame:
        """Return a frame with a table's columns as they will be after the loads planned so far."""
        mode, planned = self._tables.get(place, (None, None))
        try:
            there = DeltaTable(place, load.target, self.engine).read_all()
        except SourceError:
            if planned is None:
                raise
        else:
            if planned is None:
                return there
            if mode is not Mode.OVERWRITE:
                planned = union_columns([columns_of(Batch(load.name, 0, frame=there)), planned])
        with translate_errors(self.engine.secrets):
            return empty_frame(require_spark(self.engine, "a query").spark, planned)


def describe_news(load: Load, engine: Engine) -> str:
    """Describe what is new in a load's source since its bookmark; empty if it keeps none.

    Spark does not start. An error is returned as `it would fail: ...`.
    """
    try:
        return _find_news(load, partial(_open_bookmarks, load, engine))
    except LakeportError as error:
        return f"it would fail: {error.message}"


def _open_bookmarks(load: Load, engine: Engine, stream: str = "") -> BookmarkStore:
    """Open the bookmarks of a load's table; with `stream`, of that stream's table."""
    storage = open_storage(load.target)
    table = open_table(load.target, storage, engine, stream or load.name, writes=False)
    return table.bookmark_store(writes=False)


def _find_news(load: Load, memory: partial[BookmarkStore]) -> str:
    """Describe a source's new files or rows since its bookmark; empty if it keeps none."""
    source = load.source
    if isinstance(source, FilesSource) and source.new_only:
        options = ReadOptions().merge_source(source)
        with tempfile.TemporaryDirectory(prefix="lakeport-") as folder:
            _, new = open_new_files(source, options, load.target, Path(folder), memory)
            total = sum(file.bytes for file in new.files)
            return f"{pluralize(len(new.files), 'new file')}, {format_size(total)}"
    if isinstance(source, DatabaseSource) and source.cursor:
        value = memory().bookmark(bookmark_name(source)).value
        return f"rows from {source.cursor} {value['value']} on" if "value" in value else _ALL_ROWS
    if isinstance(source, TablesSource) and source.incremental:
        name = next(iter(source.tables))
        value = memory().bookmark(tables.bookmark_name(name)).value
        return f"rows behind version {value['version']}" if "version" in value else _ALL_ROWS
    return ""
