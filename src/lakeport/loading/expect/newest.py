"""How old the newest rows of a table are: what `fresh` asks where a load brings none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.destinations import table_rows
from lakeport.engine.spark.failures import translated
from lakeport.engine.spark.sql import quoted
from lakeport.errors import ConfigError, SourceError
from lakeport.loading.expect.sieve import seconds_of
from lakeport.loading.expect.verdict import no_column
from lakeport.loading.policies import Policies
from lakeport.model import Mode
from lakeport.schema.named import type_name
from lakeport.shape import header_name
from lakeport.tables.overview import newest_moment
from lakeport.writers.naming import table_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakeport.config.expectations import Expectation
    from lakeport.engine.types import DataFrame
    from lakeport.loading.prepare import Prepared


@dataclass(frozen=True)
class NewestOfTable:
    """Tells the newest value of a column that a load leaves in its table.

    Attributes:
        prepared: the load.
        table: the table's name.
    """

    prepared: Prepared
    table: str

    def __call__(self, column: str) -> float | None:
        """In seconds since 1970: by log or footers, or by Spark where a Delta log does not tell.

        Args:
            column: as expectations name it, before `rename`.

        Returns:
            None where there is none, or the load replaces what the table has.

        Raises:
            SourceError: nothing tells.
            LakeportError: the store or Spark refused.
        """
        config, storage = self.prepared.config, self.prepared.storage
        if config.mode is Mode.OVERWRITE or self.prepared.anew:
            return None
        rules = Policies.of(config)
        name = header_name(rules.rules.rename.get(column, column), rules.header_case)
        try:
            known = newest_moment(storage, table_folder(config.folder_of(self.table)), name)
            return None if known is None else known.timestamp()
        except SourceError:
            frame = table_rows(config, storage, self.prepared.engine, self.table)
            if frame is None or not _has_moments(frame, name):
                raise
        with translated():
            value = frame.selectExpr(f"max({quoted(name)}) AS newest").toArrow()["newest"][0]
        return seconds_of(value.as_py()) if value.is_valid else None


def _has_moments(frame: DataFrame, name: str) -> bool:
    types = {field.name.lower(): field.dataType.typeName() for field in frame.schema}
    return types.get(name.lower()) in ("date", "timestamp", "timestamp_ntz")


def check_columns(
    expected: Sequence[Expectation], schema: pa.Schema, untyped: Mapping[str, pa.DataType]
) -> None:
    """Raise ConfigError unless expectations name columns that exist, and `fresh` one of dates.

    Args:
        expected: the expectations.
        schema: the columns of the rows.
        untyped: those with places that never had a value -> their open types.

    Raises:
        ConfigError: there is no such column, or `fresh` names one of another type.
    """
    types = {field.name.lower(): field.type for field in schema}
    for one, name in ((each, name) for each in expected for name in each.columns):
        if name.lower() not in types:
            raise no_column(one, name, schema.names)
        if one.fresh is None:
            continue
        type_ = untyped.get(name, types[name.lower()])
        dated = pa.types.is_date(type_) or pa.types.is_timestamp(type_)
        if not (dated or pa.types.is_null(type_)):
            raise ConfigError(
                f"expectation {one.title}: column {name!r} is of type {type_name(type_)}, which "
                "has no age",
                f"name a column of dates or times, or make it one in `sql`: "
                f"CAST({name} AS timestamp) AS {name}.",
            )
