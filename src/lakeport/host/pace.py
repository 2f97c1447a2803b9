"""How much was done by when, in a bounded number of steps."""

from __future__ import annotations

Point = tuple[float, int, int]
"""Seconds, rows, bytes."""


class Pace:
    """Rows and bytes over time. When the steps do not reach, each becomes twice as long.

    Attributes:
        step: how long each step is, in seconds.
    """

    def __init__(self, most: int, step: float = 0.05) -> None:
        """Begin with nothing; `most` is how many steps there are at the most, points one more."""
        self.step = step
        self._most = most
        self._steps: dict[int, tuple[int, int]] = {}

    def add(self, at: float, rows: int = 0, size: int = 0) -> None:
        """Add what was done since the last call, in any order.

        Args:
            at: when, in seconds since the beginning.
            rows: how many.
            size: bytes.
        """
        at = max(at, 0.0)
        while at >= self._most * self.step:
            self._halve()
        self._add(int(at / self.step), rows, size)

    def coarsen(self, step: float) -> None:
        """See that steps are at least so long, as what is added comes at such intervals."""
        while self.step < step:
            self._halve()

    def done(self) -> list[Point]:
        """What was done in each step, at its end; steps without anything are left out."""
        return [((step + 1) * self.step, *self._steps[step]) for step in sorted(self._steps)]

    def points(self) -> tuple[Point, ...]:
        """What was done in all, from nothing at 0, by the ends of steps; none if that is nothing.

        Lines from one to the next tell the rest.

        >>> pace = Pace(most=8, step=1.0)
        >>> pace.add(2.5, rows=10)
        >>> pace.add(4.5, rows=5)
        >>> pace.points()
        ((0.0, 0, 0), (2.0, 0, 0), (3.0, 10, 0), (4.0, 10, 0), (5.0, 15, 0))
        """
        found: list[Point] = [(0.0, 0, 0)] if self._steps else []
        rows = size = last = 0
        for step in sorted(self._steps):
            if step > last:
                found.append((round(step * self.step, 3), rows, size))
            more_rows, more_bytes = self._steps[step]
            rows, size, last = rows + more_rows, size + more_bytes, step + 1
            found.append((round(last * self.step, 3), rows, size))
        return tuple(found)

    def _halve(self) -> None:
        before, self._steps = self._steps, {}
        self.step *= 2
        for step, (rows, size) in before.items():
            self._add(step // 2, rows, size)

    def _add(self, step: int, rows: int, size: int) -> None:
        old_rows, old_bytes = self._steps.get(step, (0, 0))
        self._steps[step] = old_rows + rows, old_bytes + size
