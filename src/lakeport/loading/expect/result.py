"""What came of an expectation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakeport.units import count, counted


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """What came of an expectation, for a stream.

    Attributes:
        name: the expectation's.
        otherwise: what its failure leads to: `fail`, `quarantine` or `warn`.
        checked: rows that were looked at.
        failed: rows that fail it; of one that is of all rows together, 1 where it is not met.
        detail: what was found, in words, of one that is of all rows together.
    """

    name: str
    otherwise: str
    checked: int
    failed: int
    detail: str = ""

    @property
    def in_words(self) -> str:
        """What fails it."""
        if self.detail:
            return f"{self.name}: {self.detail}"
        return f"{self.name} by {count(self.failed)} of {counted(self.checked, 'row')}"


def added(
    one: tuple[ExpectationResult, ...], two: tuple[ExpectationResult, ...]
) -> tuple[ExpectationResult, ...]:
    """The results of two batches together, by name."""
    found = {result.name: result for result in one}
    for result in two:
        old = found.get(result.name)
        found[result.name] = (
            result
            if old is None
            else replace(
                result, checked=old.checked + result.checked, failed=old.failed + result.failed
            )
        )
    return tuple(found.values())
