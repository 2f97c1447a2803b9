"""Mage's connection test: answered before its orchestrator gives up, with one error for all."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lakeport.errors import DestinationError
from lakeport.loading.check import check

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.mage.observer import LogLines

SECONDS = 6.0
"""From a command's begin. A busy machine needs the rest of Mage's 10 s to start and end Python."""

_SPARK_SECONDS = 8.0


def test_connection(
    config: DestinationConfig, lines: LogLines, *, since: float | None = None
) -> None:
    """Test the connection, and log what was found.

    Args:
        config: the destination's config.
        lines: takes a line for each thing that was looked at.
        since: the moment (`time.monotonic`) from which the time counts; default: now.

    Raises:
        DestinationError: all that would make a load fail, and what to change.
        MissingDependency: the destination's SDK is not installed.
    """
    begun = time.monotonic() if since is None else since
    lines.log("INFO", "Testing connection...")
    store, spark = (
        max(1.0, round(begun + seconds - time.monotonic(), 1))
        for seconds in (SECONDS, _SPARK_SECONDS)
    )
    report = check(config, store, spark)
    for item in report.items:
        if item.status != "failed":
            text = f"{item.name}: {item.detail}" + (f" ({item.hint})" if item.hint else "")
            lines.log("INFO", text, {"item": item.name, "status": item.status})
    failed = [item for item in report.items if item.status == "failed"]
    if failed:
        raise DestinationError(
            f"{report.target}: " + "; ".join(f"{item.name}: {item.detail}" for item in failed),
            " ".join(dict.fromkeys(item.hint for item in failed if item.hint)),
        )
    lines.log("INFO", f"{report.target} can be landed in.", {"target": report.target})
