"""The transform of a load: plan the Spark frame that `sql` and `python` make of a source.

```
splits ─▶ reader, in Spark tasks ─▶ `source` ─▶ sql ─▶ python ─▶ the table's columns
```
A transform that makes each row of one row takes batches one by one. One that aggregates, sorts or
joins takes the whole input at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeport.engine.failures import translate_errors
from lakeport.engine.sql.frames import normalise_frame, void_untyped
from lakeport.engine.sql.query import (
    clone_session,
    is_row_wise,
    name_frames,
    parse_query,
    query_frames,
)
from lakeport.loading.transform.function import apply_function, import_function
from lakeport.model import Batch, Reader, Split
from lakeport.schema.nested import restore_untyped_columns
from lakeport.schema.spark_schema import columns_of
from lakeport.shape import fit_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.engine.spark.engine import SparkEngine
    from lakeport.engine.spark.jobs import ReadingFrame

EACH_ALONE: Final = "each batch on its own"
AT_ONCE: Final = "the whole input at once"

SOURCE: Final = "source"
"""The name of the input in `sql`."""

_NARROW_BYTES: Final = 512
"""Most bytes of input of a record with narrow rows, on average."""

ReadItem = tuple[Reader, tuple[Split, ...], Mapping[str, pa.DataType]]
"""A task's reader, its splits, and column -> open type where the reader has no value yet."""


@dataclass(frozen=True)
class TransformedBatch:
    """A batch with its transformed Spark frame, which has not run yet.

    Attributes:
        row_wise: whether each row is made of one row.
        reading: the reading of the source that the frame runs on; None for a frame of the user's.
    """

    batch: Batch
    frame: DataFrame
    row_wise: bool
    reading: ReadingFrame[ReadItem] | None = None

    @property
    def how(self) -> str:
        """The transform's unit in words: each batch on its own, or the whole input at once."""
        return EACH_ALONE if self.row_wise else AT_ONCE

    def check(self) -> None:
        """Check that the frame's run has read the whole source; raise the reader's error if not."""
        if self.reading is not None:
            self.reading.check()

    def close(self) -> None:
        """Release what the frame needs to run."""
        if self.reading is not None:
            self.reading.close()


@dataclass(frozen=True)
class Transform:
    """Transforms a source's rows in Spark, by a query and then by a Python function.

    Args:
        sql: one query on `source`; empty for none.
        python: a function from frame to frame, or `module:function`; takes the query's result.
        views: other frames by the names that `sql` may use.
    """

    engine: SparkEngine
    sql: str = ""
    python: str | Callable[[DataFrame], DataFrame] = ""
    views: Mapping[str, DataFrame] = field(default_factory=dict)

    @cached_property
    def function(self) -> Callable[[DataFrame], Any] | None:
        """The Python function, imported if `python` is a name; None if there is none."""
        if isinstance(self.python, str):
            return import_function(self.python) if self.python else None
        return self.python

    def check(self) -> None:
        """Raise ConfigError unless `sql` can be parsed and `python` imported; waits for Spark."""
        if self.function is None or self.sql:
            parse_query(clone_session(self.engine.spark), self.sql)

    def digest_rules(self, batch: Batch) -> Batch:
        """Return the batch with query and function in its digest, without `tracks_content`."""
        function = self.function
        named = f"{function.__module__}:{function.__qualname__}" if function else ""
        digest = hashlib.sha256(f"{batch.digest}\n{self.sql}\n{named}".encode()).hexdigest()
        return replace(batch, digest=digest if batch.digest else "", tracks_content=False)

    def plan_frame(self, batch: Batch) -> TransformedBatch:
        """Return the batch with its transformed frame for the columns alone; read no rows."""
        transformed = self.make_frame(batch, columns_of(batch), ())
        transformed.close()
        return transformed

    def make_frame(
        self, batch: Batch, schema: pa.Schema, items: Sequence[ReadItem]
    ) -> TransformedBatch:
        """Return the batch with its transformed Spark frame, which has not run yet.

        Args:
            batch: the batch; if it has a frame, that is the source.
            items: what the tasks read of the source.

        Raises:
            ConfigError: `sql` names something that does not exist.
            LakeportError: as for `normalise_frame`.
        """
        narrow = 0 <= batch.bytes <= _NARROW_BYTES * batch.records
        spark = self.engine.spark if batch.frame is None else batch.frame.sparkSession
        session = clone_session(spark, narrow_rows=narrow)
        reading, frame = None, batch.frame
        if frame is None:
            reading = self.engine.read_frame(session, schema, items, _ItemReader(schema))
            frame = reading.frame
        frame = void_untyped(frame, batch.untyped)
        name_frames(session, {**self.views, SOURCE: frame})
        found = self._apply_rules(session, frame.columns)
        stored, untyped, notes = normalise_frame(found, batch.stream)
        notes = (*batch.notes, *notes)
        return TransformedBatch(
            replace(batch, reader=None, splits=(), frame=stored, untyped=untyped, notes=notes),
            stored,
            is_row_wise(found, SOURCE),
            reading,
        )

    def _apply_rules(self, session: SparkSession, columns: Sequence[str]) -> DataFrame:
        """Apply the query, then the function, to the session's `source`; return the frame."""
        known = {
            SOURCE: tuple(columns),
            **{name: tuple(view.columns) for name, view in self.views.items()},
        }
        frame = query_frames(session, self.sql, known) if self.sql else session.table(SOURCE)
        if self.function is not None:
            with translate_errors():
                return apply_function(self.function, frame)
        return frame


@dataclass(frozen=True)
class _ItemReader:
    """Reads a task's splits as record batches, all with the columns of `schema`."""

    schema: pa.Schema

    def __call__(self, item: ReadItem) -> Iterator[pa.RecordBatch]:
        reader, splits, untyped = item
        read = (batch for split in splits for batch in reader.read(split))
        return fit_batches((restore_untyped_columns(batch, untyped) for batch in read), self.schema)
