"""Flushes of several streams: which may land together, how many at once, how they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from lakeport.errors import ConfigError
from lakeport.loading.report import Failure

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig

_FEWEST: Final = 4  # streams at once
_AT_ONCE_BYTES: Final = 64 << 20


def check_streams(config: DestinationConfig, streams: Iterable[str], wanted: bool) -> None:
    """Refuse what is meant for one stream, and one table for several, where there are more.

    Args:
        config: the target's.
        streams: the names seen so far.
        wanted: whether rows are transformed, or something is expected of them.

    Raises:
        ConfigError: naming the streams.
    """
    names = list(dict.fromkeys(streams))
    if len(names) < 2:
        return
    told = ", ".join(map(repr, names))
    if wanted:
        raise ConfigError(
            f"`sql`, `python` and `expect` are about one stream, and the source has {told}",
            "land the streams one by one.",
        )
    ruled = next((key for key in ("columns", "rename", "drop") if getattr(config, key)), "")
    if ruled:
        raise ConfigError(
            f"`{ruled}` is about the columns of one stream, and the source has {told}",
            "land the streams one by one (`catalog` takes a schema for each of many).",
        )
    pattern = config.table_pattern
    if pattern is not None and "{stream}" not in pattern:
        raise ConfigError(
            f"streams {names[0]!r} and {names[1]!r} would both land in table {pattern!r}",
            "leave `table` out, so that each stream has its own table, or write `{stream}` "
            "in it, such as `raw_{stream}`.",
        )


def raise_first(
    landings: Mapping[str, Future[None]], secrets: Sequence[str], warn: Callable[[str], None]
) -> None:
    """Raise the first stream's error; those of the others become warnings, so none hides.

    Args:
        landings: stream -> how it has landed.
        secrets: are left out of what is said.
        warn: takes a sentence for the user.
    """
    errors = {name: error for name, done in landings.items() if (error := done.exception())}
    for name, error in list(errors.items())[1:]:
        words = Failure.of(error).scrubbed(secrets).message
        warn(f"stream {name!r} failed, too: {words}")
    for error in errors.values():
        raise error


def streams_at_once(streams: int, size: int, most: int) -> int:
    """Return how many streams to land at once: as many as have 64 MB together, within bounds.

    Small streams mostly wait, for a store or for a job that they share; at least four go together.

    Args:
        streams: how many a flush has.
        size: bytes of all of them.
        most: how many the engine takes; see `Engine`.

    >>> [streams_at_once(1000, mb << 20, 64) for mb in (36, 4_000, 100_000)]
    [64, 16, 4]
    """
    fitting = _AT_ONCE_BYTES * streams // max(1, size)
    return min(streams, max(_FEWEST, min(most, fitting)))
