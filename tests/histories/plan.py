"""What a writer does next, drawn by a seed: the same seed gives the same steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Literal

from tests.histories.checker import Intent, Row

Doing = Literal["append", "merge", "replace", "optimize", "vacuum", "undo"]

_PARTS = 3
_SHARED_KEYS = 9  # those that every writer merges, so that writers meet
_STEPS_APART = 100  # keys that a step has to itself
_WRITERS_APART = 1_000_000

LAKEPORT: Mapping[Doing, int] = {
    "append": 5,
    "merge": 5,
    "replace": 3,
    "undo": 3,
    "optimize": 2,
    "vacuum": 1,
}
"""How often a writer of ours does what; another writer does not undo."""
DELTA_RS = {doing: often for doing, often in LAKEPORT.items() if doing != "undo"}


@dataclass(frozen=True)
class Step:
    """One change of the table.

    Attributes:
        name: unique in the history; the run's id.
        doing: what.
        rows: to append, merge or put in place of a partition.
        run: to undo.
    """

    name: str
    doing: Doing
    rows: tuple[Row, ...] = ()
    run: str = ""

    @property
    def intent(self) -> Intent:
        """What it does to the rows."""
        if self.doing in ("optimize", "vacuum"):
            return Intent("keep")
        return Intent(self.doing, self.rows, self.run)

    def as_json(self) -> dict[str, Any]:
        """The step as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Step:
        """The step of plain values."""
        return cls(**{**values, "rows": tuple(Row(*row) for row in values["rows"])})


def draw(
    seed: str, writer: int, ordinal: int, often: Mapping[Doing, int], undoable: str = ""
) -> Step:
    """A writer's step of this ordinal, from 0.

    Args:
        seed: of the history.
        writer: its number.
        ordinal: the step's.
        often: how often it does what.
        undoable: the run that an undo takes back; empty for none, which makes it an append.
    """
    random = Random(f"{seed} {writer} {ordinal}")
    name = f"w{writer}-{ordinal}"
    doing = random.choices(list(often), list(often.values()))[0]
    if doing == "undo" and undoable:
        return Step(name, doing, run=undoable)
    if doing in ("optimize", "vacuum"):
        return Step(name, doing)
    own = writer * _WRITERS_APART + ordinal * _STEPS_APART + _SHARED_KEYS
    fresh = list(range(own, own + random.randint(1, 4)))
    shared = random.sample(range(_SHARED_KEYS), random.randint(1, 4))
    if doing == "merge":
        return Step(name, doing, _rows([*shared, *fresh[:2]], name))
    if doing == "replace":
        part = random.randrange(_PARTS)
        keys = [key for key in [*shared, *fresh, own + _PARTS + 1] if key % _PARTS == part]
        return Step(name, doing, _rows(keys or [part], name))
    return Step(name, "append", _rows(fresh, name))


def _rows(keys: list[int], value: str) -> tuple[Row, ...]:
    return tuple(Row(key, value, f"p{key % _PARTS}") for key in keys)
