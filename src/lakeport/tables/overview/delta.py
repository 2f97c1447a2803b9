"""What a page shows of a Delta table, from its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakeport.errors import SourceError
from lakeport.html.facts import MOST_PARTITIONS, TableFacts, VersionFacts
from lakeport.schema.named import command
from lakeport.tables.overview.changes import change_of
from lakeport.tables.overview.columns import column_facts
from lakeport.tables.overview.leaves import Leaf, leaves
from lakeport.tables.overview.partitions import PartitionNames, partition_facts
from lakeport.tables.views import optimize_hint, size_facts
from lakeport.writers.delta.log.commits import Mark
from lakeport.writers.delta.log.history import History, Version, read_history
from lakeport.writers.delta.optimize import SMALL_FILE_BYTES, target_bytes
from lakeport.writers.delta.plain import lacking_readers

if TYPE_CHECKING:
    from lakeport.model import Storage
    from lakeport.writers.delta.log.reader import LogFiles

_LOG_BYTES = 128 << 20
_PROGRAMS = ("Athena", "delta-rs", "DuckDB", "Spark", "Trino")


def delta_history(storage: Storage, folder: str, log: LogFiles) -> History:
    """Read a Delta table's log.

    Args:
        storage: where it is.
        folder: its key.
        log: the files of its log.

    Raises:
        SourceError: its log does not tell what it holds.
        DestinationError: the store refused, or a file of the log is damaged.
    """
    history = read_history(storage, log, most_bytes=_LOG_BYTES, most_partitions=MOST_PARTITIONS)
    if history is None:
        raise SourceError(
            f"the log of {storage.uri(folder)} lacks files, or is too large to be shown: "
            "it does not tell what the table holds",
            f"{command('table', 'show', storage.uri(folder))} reads a log of any size; files that "
            "are missing have to come back from a copy.",
        )
    return history


def delta_facts(
    storage: Storage, folder: str, name: str, log: LogFiles, history: History
) -> TableFacts:
    """Tell a Delta table.

    Args:
        storage: where it is.
        folder: its key.
        name: its name on the page.
        log: the files of its log.
        history: what these tell.
    """
    columns = [leaves(schema) for schema in history.schemas]
    newest = leaves(str(history.metadata["schemaString"]))
    names = PartitionNames(_partition_columns(history, newest))
    versions = [_version(version, names) for version in history.versions]
    files, partitions = partition_facts(
        [
            (names.name(known.file.partition_values), known.file.size or 0, known.rows)
            for known in history.files
        ]
    )
    rows = [known.rows for known in history.files]
    properties = dict(history.metadata.get("configuration") or {})
    protocol = history.protocol
    sizes = size_facts([file.bytes for file in files], optimize_hint(storage.uri(folder)))
    by = tuple(history.metadata.get("partitionColumns") or ())
    known = [frozenset(leaf.path for leaf in each) for each in columns]
    return TableFacts(
        name=name,
        uri=storage.uri(folder),
        format="delta",
        rows=None if None in rows else sum(count or 0 for count in rows),
        bytes=sizes["bytes"],
        files=files,
        small_files=sizes["small_files"],
        small_file_bytes=SMALL_FILE_BYTES,
        target_file_bytes=target_bytes(properties),
        warning=sizes.get("warning"),
        columns=column_facts(history.files, newest, known, by, history.cluster_columns),
        partitions=partitions,
        partition_columns=by,
        versions=versions,
        older_versions=log.newest + 1 - len(versions),
        schemas=[[(leaf.name, leaf.told) for leaf in each] for each in columns],
        protocol=f"reader {protocol['minReaderVersion']}, writer {protocol['minWriterVersion']}",
        features=_features(protocol),
        readers=_readers(protocol),
        properties=sorted(properties.items()),
        last_change=versions[-1].at if versions else None,
        notes=_notes(history, log),
    )


def _version(version: Version, names: PartitionNames) -> VersionFacts:
    info, held = version.info, version.held
    mark = Mark.parse(info.get("userMetadata"))
    state = mark.singer_state if mark else None
    return VersionFacts(
        number=version.number,
        at=version.at,
        change=change_of(version),
        operation=str(info.get("operation") or ""),
        rows=None if held is None else held.rows,
        bytes=None if held is None else held.bytes,
        files=None if held is None else held.files,
        rows_added=version.added.rows,
        rows_removed=version.removed.rows,
        bytes_added=version.added.known_bytes,
        bytes_removed=version.removed.bytes,
        files_added=version.added.files,
        files_removed=version.removed.files,
        schema=version.schema,
        partitions=tuple(dict.fromkeys(map(names.name, version.touched))),
        more_partitions=version.more_touched,
        run_id=(mark.run_id or mark.batch_id or None) if mark else None,
        writer=info.get("engineInfo"),
        state=None if state is None else state.decode("utf-8", "replace"),
    )


def _partition_columns(history: History, columns: list[Leaf]) -> list[Leaf]:
    by_name = {leaf.name: leaf for leaf in columns}
    return [by_name[name] for name in history.metadata.get("partitionColumns") or ()]


def _features(protocol: Mapping[str, Any]) -> tuple[str, ...]:
    listed = (protocol.get(f"{kind}Features") or () for kind in ("reader", "writer"))
    return tuple(sorted({str(name) for names in listed for name in names}))


def _readers(protocol: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Program -> why it can't read the table; empty where it can."""
    lacking = lacking_readers(protocol)
    programs = {*_PROGRAMS, *(name for names in lacking.values() for name in names)}
    told = []
    for program in sorted(programs, key=str.lower):
        features = [f"`{feature}`" for feature, names in lacking.items() if program in names]
        told.append((program, f"does not know {', '.join(features)}" if features else ""))
    return told


def _notes(history: History, log: LogFiles) -> tuple[str, ...]:
    notes = []
    silent = sum(known.rows is None for known in history.files)
    if silent:
        notes.append(
            f"{silent:,} of {len(history.files):,} data files have no statistics: how many rows "
            "the table has, the log does not tell."
        )
    read, there = len(history.versions), sum(1 for number in log.commits if number <= log.newest)
    if there > read:
        notes.append(
            f"The log has {there - read:,} further commits, which are too old, too many or too "
            "torn to be shown."
        )
    return tuple(notes)
