"""A transform: what `sql` and `python` make of a source, as frames that have not run yet.

```
splits ─▶ reader, in Spark tasks ─▶ `source` ─▶ sql ─▶ python ─▶ the table's columns
```
Where each row is made of one row, each batch is transformed on its own. What aggregates, sorts or
joins is given the whole input at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeport.engine.failures import translate_errors
from lakeport.engine.sql.frames import normalise_frame, untyped_columns, void_untyped
from lakeport.engine.sql.query import check_query, clone_session, is_row_wise, name_frames, query
from lakeport.loading.batches import columns_of
from lakeport.loading.transform.function import apply_function, function_named
from lakeport.model import Batch, Reader, Split
from lakeport.schema.nested import restore_untyped_columns
from lakeport.shape import fit_batches

if TYPE_CHECKING:
    from lakeport.engine.base import DataFrame, Reading, SparkEngine, SparkSession

EACH_ALONE: Final = "each batch on its own"
AT_ONCE: Final = "the whole input at once"

SOURCE: Final = "source"
"""What `sql` calls the input."""

_NARROW_BYTES: Final = 512
"""Most bytes of input a record of narrow rows has, on average."""

Item = tuple[Reader, tuple[Split, ...], Mapping[str, pa.DataType]]
"""A task's reader, its splits, and column -> open type where the reader has no value yet."""


@dataclass(frozen=True)
class TransformedBatch:
    """A batch, and the Spark frame that a transform makes of it.

    Attributes:
        batch: with `frame`.
        frame: not run yet.
        row_wise: whether each row is made of one row.
        reading: what the frame reads; None where that is a frame of the user's.
    """

    batch: Batch
    frame: DataFrame
    row_wise: bool
    reading: Reading[Item] | None = None

    @property
    def how(self) -> str:
        """How the rows are transformed, in words."""
        return EACH_ALONE if self.row_wise else AT_ONCE

    def check(self) -> None:
        """See that everything was read, once the frame was run; raises like `Reader.read`."""
        if self.reading is not None:
            self.reading.check()

    def close(self) -> None:
        """Let go of what the frame needs to run."""
        if self.reading is not None:
            self.reading.close()


@dataclass(frozen=True)
class Transform:
    """What is made of a source's rows.

    Args:
        engine: Spark.
        sql: one query on `source`; empty for none.
        python: a function from frame to frame, or `module:function`; it gets what `sql` gave.
        views: other frames that `sql` may name.
    """

    engine: SparkEngine
    sql: str = ""
    python: str | Callable[[DataFrame], DataFrame] = ""
    views: Mapping[str, DataFrame] = field(default_factory=dict)

    @cached_property
    def function(self) -> Callable[[DataFrame], Any] | None:
        """What `python` names."""
        if isinstance(self.python, str):
            return function_named(self.python) if self.python else None
        return self.python

    def check(self) -> None:
        """See what can be seen without the source; waits for Spark.

        Raises:
            ConfigError: `sql` can't be parsed, or `python` is not there.
        """
        if self.function is None or self.sql:
            check_query(clone_session(self.engine.spark), self.sql)

    def digest_rules(self, batch: Batch) -> Batch:
        """A batch whose digest also tells what is made of it; its files are not known again."""
        function = self.function
        named = f"{function.__module__}:{function.__qualname__}" if function else ""
        made = hashlib.sha256(f"{batch.digest}\n{self.sql}\n{named}".encode()).hexdigest()
        return replace(batch, digest=made if batch.digest else "", remembered=False)

    def plan_frame(self, batch: Batch) -> TransformedBatch:
        """Return what a batch is made, without reading a row; raises as `make_frame`."""
        made = self.make_frame(batch, columns_of(batch), ())
        made.close()
        return made

    def make_frame(
        self, batch: Batch, schema: pa.Schema, items: Sequence[Item]
    ) -> TransformedBatch:
        """Return the batch with the frame that the transform makes of it.

        Args:
            batch: where it is one of a frame, the frame is the source.
            schema: the source's columns.
            items: what the tasks read of it.

        Raises:
            ConfigError: `sql` names what is not there.
            LakeportError: as for `normalise_frame`.
        """
        narrow = 0 <= batch.bytes <= _NARROW_BYTES * batch.records
        spark = self.engine.spark if batch.frame is None else batch.frame.sparkSession
        session = clone_session(spark, narrow=narrow)
        reading, frame = None, batch.frame
        if frame is None:
            reading = self.engine.read_frame(session, schema, items, _ItemReader(schema))
            frame = reading.frame
        frame = void_untyped(frame, batch.untyped)
        name_frames(session, {**self.views, SOURCE: frame})
        found = self._apply_rules(session, frame.columns)
        stored = normalise_frame(found, batch.stream)
        untyped = untyped_columns(found, stored)
        return TransformedBatch(
            replace(batch, reader=None, splits=(), frame=stored, untyped=untyped),
            stored,
            is_row_wise(found, SOURCE),
            reading,
        )

    def _apply_rules(self, session: SparkSession, columns: Sequence[str]) -> DataFrame:
        known = {
            SOURCE: tuple(columns),
            **{name: tuple(view.columns) for name, view in self.views.items()},
        }
        frame = query(session, self.sql, known) if self.sql else session.table(SOURCE)
        if self.function is not None:
            with translate_errors():
                return apply_function(self.function, frame)
        return frame


@dataclass(frozen=True)
class _ItemReader:
    """Reads an item, with the columns of all of them."""

    schema: pa.Schema

    def __call__(self, item: Item) -> Iterator[pa.RecordBatch]:
        reader, splits, untyped = item
        read = (batch for split in splits for batch in reader.read(split))
        return fit_batches((restore_untyped_columns(batch, untyped) for batch in read), self.schema)
