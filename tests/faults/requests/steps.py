"""The named steps of a load: functions of the driver between which a process may be killed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

STEPS = {
    "step spool": "lakeport.loading.run:_LoadRun._land_flush",
    "step stage": "lakeport.loading.stream:StreamLoader._stage",
    "step publish": "lakeport.writers.delta.commit:StagedFiles.publish",
    "step commit": "lakeport.writers.delta.commit:TableTransaction.commit",
    "step intend": "lakeport.writers.files.journal:Journal.write_intent",
    "step finish": "lakeport.writers.files.journal:Journal.write_done",
    "step state": "lakeport.loading.run:_LoadRun._emit_state",
    "step report": "lakeport.loading.run:_LoadRun._finish",
}
"""Where each step is."""


def is_step(name: str) -> bool:
    """Whether a point's name is that of a step, and not of a request."""
    return name in STEPS


@contextmanager
def around_steps(call: Callable[[str, Callable[[], Any]], Any]) -> Iterator[None]:
    """Have each step of loads in this process go through a function, within the block.

    Args:
        call: takes the step's name and the step; returns what that returns.
    """
    with ExitStack() as stack:
        for name, place in STEPS.items():
            module, _, path = place.partition(":")
            owner, _, function = path.partition(".")
            kind = getattr(importlib.import_module(module), owner)
            stack.enter_context(
                patch.object(kind, function, _through(call, name, getattr(kind, function)))
            )
        yield


def _through(call: Callable[[str, Callable[[], Any]], Any], name: str, step: Any) -> Any:
    def through(*arguments: Any, **keys: Any) -> Any:
        return call(name, lambda: step(*arguments, **keys))

    return through
