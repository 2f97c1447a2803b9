"""Which loads can begin: those whose own loads have ended well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Schedule:
    """The order of loads that need each other.

    Args:
        needs: load -> the loads that it uses, without cycles; in the file's order, which those keep
            that can begin together. What is no key itself is taken to be there.
        tables: load -> its table, in which no two of them run at once; empty, or none: any may.
        reached: load -> store -> how Spark reaches it. Its file systems know one way to each store,
            so that loads which have others take turns.

    Example:
        >>> schedule = Schedule({"flights": [], "airports": [], "delays": ["flights"]})
        >>> schedule.ready()
        ['flights', 'airports']
        >>> schedule.ended("flights", well=False)
        {'delays': 'needs flights, which failed'}
        >>> schedule.ready(), schedule.waiting
        ([], ())
    """

    def __init__(
        self,
        needs: Mapping[str, Sequence[str]],
        tables: Mapping[str, str] | None = None,
        reached: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        self._waiting = {
            name: {used for used in uses if used in needs} for name, uses in needs.items()
        }
        self._tables = tables or {}
        self._reached = reached or {}
        self._running: set[str] = set()

    @property
    def waiting(self) -> tuple[str, ...]:
        """Those that have not begun."""
        return tuple(self._waiting)

    def ready(self) -> list[str]:
        """Those that can begin now; each is told once."""
        found = []
        for name in [name for name, uses in self._waiting.items() if not uses]:
            if not any(self._clash(name, other) for other in self._running):
                del self._waiting[name]
                self._running.add(name)
                found.append(name)
        return found

    def _clash(self, one: str, other: str) -> bool:
        """Whether two loads can't run at once."""
        table = self._tables.get(one)
        if table and table == self._tables.get(other):
            return True
        mine, others = self._reached.get(one, {}), self._reached.get(other, {})
        return any(mine[store] != others[store] for store in mine.keys() & others.keys())

    def ended(self, name: str, *, well: bool) -> dict[str, str]:
        """Take down that a load has ended.

        Returns:
            Those that will never begin for that, and why.
        """
        self._running.discard(name)
        if well:
            for uses in self._waiting.values():
                uses.discard(name)
            return {}
        return self._skipped(name, "failed")

    def _skipped(self, name: str, became: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for other in [other for other, uses in self._waiting.items() if name in uses]:
            if other in self._waiting:
                del self._waiting[other]
                found[other] = f"needs {name}, which {became}"
                found |= self._skipped(other, "was skipped")
        return found
