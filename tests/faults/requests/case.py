"""One case: an operation, one of whose requests fails; and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.requests.proxy import Point


@dataclass(frozen=True)
class Case:
    """What is tried.

    Attributes:
        site: destination.
        operation: what is done.
        run_id: whether it has a run id.
        point: the request that fails.
        fault: how.
    """

    site: str
    operation: str
    run_id: bool
    point: Point
    fault: str

    def __str__(self) -> str:
        kind = "run-id" if self.run_id else "no-run-id"
        return f"{self.site}:{self.operation}:{kind}:{self.point}:{self.fault}"

    @property
    def scenario(self) -> str:
        """The part of its id that many cases share."""
        return ":".join(str(self).split(":", 3)[:3])


@dataclass(frozen=True)
class Result:
    """What came out.

    Attributes:
        met: whether the request came at all.
        outlived: the operation came through without being repeated.
        wrong: what breaks a promise; empty if nothing does.
        words: what the operation said when it failed.
        seconds: how long the operation took.
    """

    met: bool
    outlived: bool
    wrong: tuple[str, ...]
    words: str
    seconds: float
