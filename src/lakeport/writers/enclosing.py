"""Folders around a table: VACUUM of a Delta table there would delete the table's files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lakeport.errors import ConfigError

_NEAREST = 2  # looking into a folder of a store is a request that the load waits for


def enclosing_folders(place: str) -> Iterator[str]:
    """Yield the folders at and above a place that may be a Delta table's.

    Args:
        place: a folder's path, of which all are told, by its name and by where links lead; or its
            URI in a store, of which the nearest are told that are not a table's partitions.

    Raises:
        ConfigError: it lies in a table's log.

    >>> list(enclosing_folders("s3://bucket/lake/outer/day=1/more"))
    ['s3://bucket/lake/outer/day=1/more', 's3://bucket/lake/outer']
    >>> list(enclosing_folders("s3://bucket"))
    ['s3://bucket']
    """
    head, found, _ = f"{place}/".partition("/_delta_log/")
    if found:
        raise enclosed_error(place, head)
    if "://" not in place:
        path, real = Path(place), Path(place).resolve()
        yield from map(str, dict.fromkeys((path, *path.parents, real, *real.parents)))
        return
    scheme, _, rest = place.rstrip("/").partition("://")
    bucket, *names = rest.split("/")
    counts = [count for count in range(len(names), 0, -1) if "=" not in names[count - 1]]
    for count in [*counts, 0][:_NEAREST]:
        yield f"{scheme}://{'/'.join((bucket, *names[:count]))}"


def enclosed_error(place: str, outer: str) -> ConfigError:
    """The error for what would lie in the folder of a Delta table."""
    above, _, name = outer.rpartition("/")
    return ConfigError(
        f"what lands in {place} would lie in the folder of the Delta table {outer}, whose VACUUM "
        "deletes what its log does not name",
        f"to add rows to that table itself, land in {above or '/'} with `table: {name}`; for "
        f"another table choose a folder outside of {outer}.",
    )
