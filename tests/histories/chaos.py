"""A proxy that has requests fail at random, and shows listings as they were."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Mapping
from random import Random

from tests.faults.requests.faults import FAULTS, Fault
from tests.faults.requests.proxy import FaultProxy
from tests.histories.listings import first_key, lists, only

_UNSEEN = [FAULTS[name] for name in ("lost-before", "500-before", "503-thrice")]
_ANY = [*_UNSEEN, *(FAULTS[name] for name in ("lost-after", "500-after", "cut"))]
_DENIED = [FAULTS[name] for name in ("409-after", "412-after", "409-before", "412-before")]
_WORSE = 8  # times as often as other requests, those that change the log fail


class ChaosProxy(FaultProxy):
    """Has requests fail at random, those that change the log more often.

    Args:
        store: the server's address.
        dialect: `s3` or `azure`.
        seed: of the dice.
        often: how often a request fails, from 0 to 1.
        harsh: requests may fail after the store took them, too, and with untrue refusals.

    Attributes:
        known: the keys that listings show; None for all.
        failed: how many requests failed.
    """

    def __init__(
        self, store: str, dialect: str, seed: str, *, often: float = 0.01, harsh: bool = True
    ) -> None:
        super().__init__(store, dialect)
        self.known: Container[str] | None = None
        self.failed = 0
        self._random = Random(seed)
        self._often = often
        self._harsh = harsh
        self._lock = threading.Lock()

    def fault_of(self, method: str, target: str, headers: Mapping[str, str]) -> Fault | None:
        reads = method in ("GET", "HEAD")
        often = self._often if reads or "_delta_log" not in target else self._often * _WORSE
        with self._lock:
            if self._random.random() >= often:
                return None
            self.failed += 1
            if not self._harsh:
                return self._random.choice(_UNSEEN)
            return self._random.choice(_ANY if reads else [*_ANY, *_DENIED])

    def rewriter(self, target: str) -> Callable[[bytes], bytes] | None:
        known, first = self.known, first_key(target)
        if not lists(target) or (known is None and not first):
            return None

        def shown(key: str) -> bool:
            return key >= first and (known is None or key in known)

        return lambda body: only(body, shown)
