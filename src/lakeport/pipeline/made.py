"""What `sql` and `python` of a load make of its rows, as far as it shows before they are read.

| source | its columns |
|---|---|
| tables | as their logs have them, and as loads of the same plan will |
| a database | as it describes them; no row is read |
| files, taps | not known: those that `sql` names stand in for them, without a type |

Of what is not known, the text of `sql` may still tell whether it takes each batch on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.config.inputs.database import DatabaseSource
from lakeport.config.inputs.tables import TablesSource
from lakeport.config.lake.names import columns_of_query, tables_of
from lakeport.destinations import open_storage
from lakeport.engine.spark.failures import translated
from lakeport.engine.spark.sql import quoted
from lakeport.engine.spark.sql.frames import empty_frame
from lakeport.engine.spark.sql.query import is_row_wise, named, query, session_like
from lakeport.errors import LakeportError, SourceError
from lakeport.loading.batches.columns import columns_of, union
from lakeport.loading.policies import Policies
from lakeport.loading.prepare import Prepared
from lakeport.loading.transform.transform import AT_ONCE, EACH_ALONE, SOURCE
from lakeport.loading.transform.wanted import Wanted
from lakeport.model import Batch, Mode, Scan, Split
from lakeport.pipeline.load import function_of
from lakeport.schema.named import type_name
from lakeport.sources.database.source import described
from lakeport.sources.tables.delta import DeltaTable

if TYPE_CHECKING:
    from lakeport.config.lake import Load
    from lakeport.engine.base import Engine
    from lakeport.engine.types import DataFrame

_UNREAD: Final = "its source's columns are known once it is read"


@dataclass(frozen=True)
class Made:
    """What a load makes of its rows.

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
        return {field.name: type_name(field.type) for field in self.columns or ()}


@dataclass
class MadeBy:
    """Tells it of loads in the order in which they run.

    Args:
        engine: Spark, which is started for loads with `sql` or `python`, where they take it.
    """

    engine: Engine
    _tables: dict[str, tuple[Mode, pa.Schema]] = field(default_factory=dict)

    def load(self, load: Load, table: str) -> Made:
        """What a load makes of its rows; nothing is known of one without `sql` and `python`.

        Args:
            load: the load.
            table: the URI of its table.
        """
        if not load.sql and not load.python:
            return Made()
        try:
            made = self._known(load)
        except LakeportError as error:
            made = Made(self._by_text(load), unknown=error.message)
        if made.columns is not None:
            self._tables[table] = load.target.mode, made.columns
        if any(one.at_once for one in load.expect):
            return Made(AT_ONCE, made.columns, made.unknown)
        return made

    def _known(self, load: Load) -> Made:
        source = load.source
        if isinstance(source, TablesSource):
            frames = {name: self._frame(place, load) for name, place in source.tables.items()}
            frame = next(iter(frames.values()))
            return self._planned(load, Batch(load.name, 0, frame=frame), frames)
        if isinstance(source, DatabaseSource) and not source.is_jdbc:
            columns = _Columns(described(source))
            return self._planned(load, Batch(load.name, 0, reader=columns), {})
        raise SourceError(_UNREAD)

    def _by_text(self, load: Load) -> str:
        """How a query runs whose source's columns are not known; empty if that is not known."""
        names = columns_of_query(load.sql)
        if not load.sql or names is None:
            return ""
        if {name.lower() for name in tables_of(load.sql)} != {SOURCE}:
            return AT_ONCE
        if load.python:
            return ""
        try:
            with translated(self.engine.secrets):
                return self._of_any_types(load.sql, names)
        except LakeportError:
            return ""

    def _of_any_types(self, sql: str, names: Iterable[str]) -> str:
        """How a query runs on columns that may be of any type: they are null."""
        session = session_like(self.engine.spark)
        nulls = session.range(0).selectExpr(*(f"NULL AS {quoted(name)}" for name in names))
        named(session, {SOURCE: nulls})
        return EACH_ALONE if is_row_wise(query(session, sql, {}), SOURCE) else AT_ONCE

    def _planned(self, load: Load, batch: Batch, frames: Mapping[str, DataFrame]) -> Made:
        views = {**frames, **{n: self._frame(p, load) for n, p in load.tables.items()}}
        prepared = Prepared(load.target, open_storage(load.target), self.engine, (), writes=False)
        wanted = Wanted.given(prepared, load.sql, function_of(load), views, load.expect)
        planned = wanted.planned(prepared, batch)
        shape = Policies.of(load.target).shape(planned.columns, planned.batch)
        return Made(planned.how, shape.schema)

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
                planned = union([columns_of(Batch(load.name, 0, frame=there)), planned])
        with translated(self.engine.secrets):
            return empty_frame(self.engine.spark, planned)


@dataclass(frozen=True)
class _Columns:
    """Columns without rows; implements `lakeport.model.Reader`."""

    schema: pa.Schema
    skip_bad: bool = False

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """See `lakeport.model.Reader.read`."""
        yield from ()

    def scan(self, split: Split) -> Scan:
        """See `lakeport.model.Reader.scan`."""
        return Scan()

    def tolerant(self) -> _Columns:
        """See `lakeport.model.Reader.tolerant`."""
        return self

    def extended(self, unknown: Mapping[str, pa.DataType]) -> _Columns:
        """See `lakeport.model.Reader.extended`; there is no more to them."""
        return self
