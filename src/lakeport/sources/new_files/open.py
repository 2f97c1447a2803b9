"""Open files as a source of what a table has not had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lakeport.errors import ConfigError
from lakeport.model import Mode
from lakeport.sources.files.discovery import check_format, stream_name
from lakeport.sources.files.places import Place
from lakeport.sources.input.unpacking import unpack_limits
from lakeport.sources.new_files.record import Record
from lakeport.sources.new_files.source import NewFiles
from lakeport.sources.remote import storage_of
from lakeport.sources.target import one_table

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.inputs import FilesSource
    from lakeport.model import Memory
    from lakeport.sources.options import ReadOptions


def open_new_files(
    source: FilesSource,
    options: ReadOptions,
    config: DestinationConfig,
    folder: Path,
    memory_of: Callable[[str], Memory],
) -> tuple[str, NewFiles]:
    """List what a description names, and find what is new.

    Args:
        source: the description.
        options: how to read the files.
        config: the target's.
        folder: takes long listings.
        memory_of: gives what the table of a stream remembers.

    Returns:
        The stream's name, and the files.

    Raises:
        ConfigError: the source or the target does not go with it.
        SourceError: see `NewFiles`.
        DestinationError: the record can't be read.
    """
    _check(source, options, config)
    places = [Place.of(name, partial(storage_of, config)) for name in source.names]
    stream = one_table(config) or _name_of(places)
    record = Record(memory_of(stream))
    limits = unpack_limits(config)
    return stream, NewFiles(source, places, record, folder, limits, options.format)


def _check(source: FilesSource, options: ReadOptions, config: DestinationConfig) -> None:
    if not source.names or "-" in source.names:
        raise ConfigError(
            "`new_only` is about files, and the source names "
            + ("standard input" if source.names else "none"),
            "name files, folders or globs.",
        )
    if config.mode is Mode.OVERWRITE:
        raise ConfigError(
            "`new_only` gives new files alone, and `mode: overwrite` would replace the table by "
            "them",
            "use `mode: append` or `merge`; leave `new_only` out to land all files each time.",
        )
    check_format(options.format)
    if options.format == "singer":
        raise singer_files()


def singer_files() -> ConfigError:
    """The error that a source has Singer files."""
    return ConfigError(
        "`new_only` is about files of one table, and Singer files may hold several streams",
        "land Singer files without it.",
    )


def _name_of(places: Sequence[Place]) -> str:
    """The stream's name, by what is named alone: the same whatever is new."""
    place = places[0]
    first = next(place.listed(), None) if len(places) == 1 and not place.wild else None
    files = [place.file(first)] if first is not None and first.uri == place.name else []
    return stream_name([place.source for place in places], files)
