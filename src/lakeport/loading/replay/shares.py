"""The records of a run by how they land: as the source had them, or as rows that `sql` has made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeport.config.inputs import FilesSource
from lakeport.errors import ConfigError
from lakeport.loading.quarantine import Of
from lakeport.loading.replay.set_aside import KEPT
from lakeport.loading.transform.function import function_named

if TYPE_CHECKING:
    from lakeport.config.lake import Load
    from lakeport.loading.replay.set_aside import SetAside


@dataclass(frozen=True, slots=True)
class Share:
    """Some of a run's records.

    Attributes:
        run_id: the run as which the table remembers that they have landed.
        records: how many they are.
        kinds: which files they are in.
        transforms: what is made of them: `sql` and `python` of `lakeport.land`.
        schema: with what types they are read for that; None where their values tell.
    """

    run_id: str
    records: int
    kinds: frozenset[Of] = KEPT
    transforms: Mapping[str, Any] = field(default_factory=dict)
    schema: str | Mapping[str, Any] | None = None


def shares(one: SetAside, load: Load | None, *, edited: bool) -> list[Share]:
    """How a run's records land.

    Args:
        one: the records.
        load: makes rows of its source's records; None where it makes none, or the user says how.
        edited: whether a file of the user's stands for all of them.

    Raises:
        ConfigError: the file stands for records and rows, or `python` is not there.
    """
    run_id, raw = f"replay:{one.run_id}", one.records - one.rows
    if load is None or not (load.sql or load.python) or not raw:
        return [Share(run_id, one.records)]
    function = load.python and function_named(load.python, Path(load.folder))
    transforms = {"sql": load.sql, "python": function}
    source = load.source
    schema = source.columns_schema if isinstance(source, FilesSource) else None
    if not one.rows:
        return [Share(run_id, raw, KEPT, transforms, schema)]
    if edited:
        raise ConfigError(
            f"run {one.run_id!r} has set aside {raw} records as they came, and {one.rows} rows "
            "that `sql` or `python` has made: the file could stand for either",
            "say what is made of it: `--sql 'SELECT * FROM source'` where it has rows of the "
            "table, or the load's own query.",
        )
    return [
        Share(f"{run_id}:records", raw, KEPT - {Of.ROWS}, transforms, schema),
        Share(run_id, one.rows, frozenset({Of.ROWS})),
    ]
