"""What a load would do, found out without writing anything."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

__all__ = ["ColumnPlan", "LandingPlan", "StreamPlan"]


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """One column that a load would write.

    Attributes:
        name: its name in the table.
        type: its type in the table, in words such as `int64`.
        change: what happens to the table's column: empty for nothing, `new`, or a sentence.
    """

    name: str
    type: str
    change: str = ""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What a load would do to one table; rows and files are estimates, -1 when unknown."""

    stream: str
    table: str
    exists: bool
    columns: tuple[ColumnPlan, ...]
    partition_keys: tuple[str, ...] = ()
    rows: int = -1
    files: int = -1
    version: int = -1
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LandingPlan:
    """What a load would do to all its tables."""

    target: str
    file_type: str
    mode: str
    streams: tuple[StreamPlan, ...]
    warnings: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The plan as one JSON object on one line, with the attributes' names as keys."""
        return json.dumps({"plan": 1, **asdict(self)})
