"""Which runs have which settings of stores: two that differ can't have one JVM at a time.

Hadoop keeps one file system object for a store, with the keys that it was opened with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import chain


class Claims:
    """Settings of stores, each claimed by the runs that set it.

    Args:
        close: called with a store and the names of its settings when nobody claims them any more;
            until it returns, nobody can claim anything.
    """

    def __init__(self, close: Callable[[str, list[str]], None]) -> None:
        self._close = close
        self._lock = threading.Lock()
        self._held: dict[str, dict[str, Mapping[str, str]]] = {}

    def take(self, run: str, store: str, settings: Mapping[str, str]) -> bool:
        """Claim a store's settings, instead of those that the run had claimed for it.

        Args:
            run: who claims them.
            store: its root, as Hadoop names it.
            settings: name -> anything that is the same for the same value.

        Returns:
            Whether no other run has different ones for the same store, or for the same names.
        """
        with self._lock:
            for other, stores in self._held.items():
                if other == run:
                    continue
                if stores.get(store, settings) != settings:
                    return False
                taken = dict(chain.from_iterable(each.items() for each in stores.values()))
                if any(taken.get(name, value) != value for name, value in settings.items()):
                    return False
            self._held.setdefault(run, {})[store] = dict(settings)
            return True

    def give_back(self, run: str) -> None:
        """End a run's claims."""
        with self._lock:
            stores = self._held.pop(run, {})
            others = [*chain.from_iterable(held.items() for held in self._held.values())]
            used = {name for _, settings in others for name in settings}
            for store, settings in stores.items():
                if all(store != other for other, _ in others):
                    self._close(store, [name for name in settings if name not in used])
