"""What a checkpoint of any kind tells of a table's files, read column by column.

| kind | files |
|---|---|
| classic | one Parquet file, or several parts |
| second version | one file, Parquet or JSON, that names sidecars in Parquet |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from lakeport.writers.delta.log.actions import log_folder, parse_path
from lakeport.writers.delta.log.entries import DataFile, Vector, parse_entries

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.model import Storage

__all__ = ["Checkpoint", "read_checkpoint"]

_READERS = 8
_PARTS = ("path", "size", "partitionValues", "stats", "deletionVector")
_WHOLE = ("metaData", "protocol", "domainMetadata", "sidecar")


@dataclass(slots=True)
class Checkpoint:
    """What a table holds at a checkpoint's version.

    Attributes:
        files: its data files.
        metadata: the `metaData` action.
        protocol: the `protocol` action.
        domains: domain -> its `domainMetadata` text.
    """

    files: list[DataFile] = field(default_factory=list)
    metadata: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None
    domains: dict[str, str] = field(default_factory=dict)


def read_checkpoint(storage: Storage, folder: str, keys: Sequence[str]) -> Checkpoint:
    """Read a checkpoint, with its sidecars where it has some.

    Args:
        storage: where the table is.
        folder: the table's key; empty when it is the storage's root.
        keys: the checkpoint's files.

    Raises:
        DestinationError: the store refused, or a JSON file is no checkpoint.
        pyarrow.ArrowException: a file is damaged.
    """
    found = Checkpoint()
    with ThreadPoolExecutor(_READERS) as pool:
        sidecars = [
            name for names in pool.map(partial(_read, storage, into=found), keys) for name in names
        ]
        home = f"{log_folder(folder)}/_sidecars"
        below = (f"{home}/{parse_path(name).rpartition('/')[2]}" for name in sidecars)
        for _ in pool.map(partial(_read, storage, into=found), below):
            pass
    return found


def _read(storage: Storage, key: str, *, into: Checkpoint) -> list[str]:
    """Read one file; returns the sidecars that it names."""
    if key.endswith(".json"):
        return _read_json(storage, key, into)
    import pyarrow.parquet as pq

    with storage.open(key) as file:
        source = pq.ParquetFile(file)
        present = source.schema_arrow
        below = (
            [child.name for child in present.field("add").type] if "add" in present.names else []
        )
        wanted = [f"add.{name}" for name in _PARTS if name in below]
        table = source.read(columns=[*wanted, *(n for n in _WHOLE if n in present.names)])
        typed = None
        if "stats_parsed" in below and _lacks_text(table):
            typed = source.read(columns=["add.path", "add.stats_parsed"])
    into.files.extend(_files(table, typed))
    whole = {name: _rows(table, name) for name in _WHOLE}
    for domain in whole["domainMetadata"]:
        into.domains[domain["domain"]] = domain["configuration"]
    into.metadata = next(iter(whole["metaData"]), into.metadata)
    into.protocol = next(iter(whole["protocol"]), into.protocol)
    return [str(row["path"]) for row in whole["sidecar"]]


def _read_json(storage: Storage, key: str, into: Checkpoint) -> list[str]:
    sidecars = []
    for entry in parse_entries(storage.get(key), storage.uri(key)):
        if entry.add is not None:
            into.files.append(entry.add)
        elif entry.domain_metadata is not None:
            domain = entry.domain_metadata
            into.domains[domain["domain"]] = domain["configuration"]
        elif entry.sidecar is not None:
            sidecars.append(str(entry.sidecar["path"]))
        into.metadata = entry.meta_data or into.metadata
        into.protocol = entry.protocol or into.protocol
    return sidecars


def _rows(table: pa.Table, name: str) -> list[dict[str, Any]]:
    if name not in table.column_names:
        return []
    rows: list[dict[str, Any]] = table[name].drop_null().to_pylist(maps_as_pydicts="strict")
    return rows


def _lacks_text(table: pa.Table) -> bool:
    adds = table["add"].drop_null()
    if len(adds) == 0:
        return False
    names = [child.name for child in adds.type]
    return "stats" not in names or _child(adds, "stats").null_count > 0


def _files(table: pa.Table, typed: pa.Table | None) -> Iterator[DataFile]:
    if "add" not in table.column_names:
        return
    adds = table["add"].drop_null()
    names = {child.name for child in adds.type}

    def column(name: str, source: Any = adds) -> list[Any]:
        if name not in names:
            return [None] * len(adds)
        values: list[Any] = _child(source, name).to_pylist(maps_as_pydicts="strict")
        return values

    stats = column("stats")
    if typed is not None:
        parsed = _child(typed["add"].drop_null(), "stats_parsed").to_pylist()
        stats = [text or known for text, known in zip(stats, parsed, strict=True)]
    rest = (column(name) for name in ("path", "size", "partitionValues", "deletionVector"))
    for path, size, values, vector, told in zip(*rest, stats, strict=True):
        yield DataFile(path, size, values or {}, told, _vector(vector))


def _vector(told: Mapping[str, Any] | None) -> Vector | None:
    if not told or not told.get("storageType"):
        return None
    return Vector(
        told["storageType"], told["pathOrInlineDv"], told.get("offset"), told["cardinality"]
    )


def _child(structs: Any, name: str) -> Any:
    import pyarrow.compute as pc

    return pc.struct_field(structs, name)
