"""Read the logs of Delta tables: the one reader of writers, commands, pages and sources.

```
DeltaLog   one table's log: reads single commits by their keys
LogFiles   a listing of it ─▶ newest checkpoint + commits since ─▶ Contents at a version
```
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.delta_log.actions import (
    CLUSTERING_DOMAIN,
    Action,
    DataFile,
    DeletionVector,
    count_rows,
    parse_actions,
)
from lakeport.delta_log.state import TableState, logical_paths
from lakeport.delta_log.transactions import CommitMark, Transactions, last_transactions
from lakeport.errors import DestinationError, SourceError
from lakeport.model import Storage, StoredObject

if TYPE_CHECKING:
    import pyarrow.parquet as pq

R = TypeVar("R")
T = TypeVar("T")

STATE: Final = frozenset({"metaData", "protocol", "txn"})
"""Kinds of action with a table's schema, properties, protocol and `txn` numbers."""
TABLE: Final = frozenset({"metaData", "protocol", "add", "domainMetadata"})
"""Kinds of action with a table's data files, schema, properties and clustering."""
ALL: Final = STATE | TABLE
SCHEMA: Final = frozenset({"metaData", "protocol", "domainMetadata"})
"""Kinds of action with a table's schema, properties and clustering."""
_READERS: Final = 16
_TOGETHER: Final = 8
LOG_FILE = re.compile(
    r"/_delta_log/(\d{20})(?:\.(json)|\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet"
    r"|\.checkpoint\.([0-9A-Fa-f-]{36})\.(?:parquet|json))$"
)
"""A log file's key. Groups: version, `json` of a commit, part and parts, UUID of a checkpoint."""
_FILE = tuple(  # fields of a checkpoint's `add`, by their names there
    field.encode_name
    for field in msgspec.structs.fields(DataFile)
    if field.name not in ("deletion_timestamp", "extended_file_metadata", "data_change")
)


@dataclass(frozen=True, slots=True)
class Commit:
    """Summary of one commit: its info, and counts and partitions of the files added and removed.

    Attributes:
        info: the `commitInfo` action; empty if the writer wrote none.
        added: number of files added.
        removed: number of files removed.
        rows_added: rows in the files added; -1 if a file has no row count.
        transactions: application id -> number, of the commit's `txn` actions.
        added_partitions: partition values of the files added, each once, as the log spells them.
        changes_metadata: whether the commit changes the table's schema or properties.
        removed_partitions: partition values of the files removed; None if a file has none.
    """

    version: int
    info: Mapping[str, Any]
    added: int
    removed: int
    rows_added: int
    bytes_added: int
    transactions: Mapping[str, int]
    protocol: Mapping[str, Any] | None = None
    added_partitions: tuple[Mapping[str, str | None], ...] = ()
    changes_metadata: bool = False
    removed_partitions: tuple[Mapping[str, str | None], ...] | None = None

    @classmethod
    def of(cls, version: int, actions: Sequence[Action]) -> Commit:
        """Summarise the actions of a version's commit file."""
        info: Mapping[str, Any] = {}
        protocol: Mapping[str, Any] | None = None
        for action in actions:
            info = action.commit_info or info
            protocol = action.protocol or protocol
        added = [action.add for action in actions if action.add is not None]
        rows = count_rows(added)
        removed = [action.remove for action in actions if action.remove is not None]
        removed_partitions = [file.partition_values for file in removed]
        added_partitions = {tuple(sorted(file.partition.items())): file.partition for file in added}
        return cls(
            version,
            info,
            len(added),
            len(removed),
            -1 if rows is None else rows,
            sum(file.bytes for file in added),
            {a.txn["appId"]: a.txn["version"] for a in actions if a.txn is not None},
            protocol,
            tuple(added_partitions.values()),
            any(action.meta_data is not None for action in actions),
            None
            if None in removed_partitions
            else tuple(values for values in removed_partitions if values is not None),
        )

    @property
    def mark(self) -> CommitMark | None:
        """Mark that lakeport wrote into the commit; None for another program's commit."""
        return CommitMark.parse(self.info.get("userMetadata"))

    @property
    def restored_version(self) -> int | None:
        """Version that a RESTORE brought back; None for other commits."""
        if self.info.get("operation") != "RESTORE":
            return None
        version = str((self.info.get("operationParameters") or {}).get("version"))
        return int(version) if version.isdecimal() else None


@dataclass(frozen=True, slots=True)
class DeltaLog:
    """Reads one Delta table's log. Its methods raise DestinationError if the store fails.

    `folder` is the table's key in the storage, empty when it is the storage's root.
    """

    storage: Storage
    folder: str

    @property
    def uri(self) -> str:
        """The table, as users name it."""
        return self.storage.uri(self.folder)

    @property
    def hadoop_uri(self) -> str:
        """The table, as Spark names it."""
        return self.storage.hadoop_uri(self.folder)

    @property
    def home(self) -> str:
        """Key of the log's folder."""
        return f"{self.folder}/_delta_log" if self.folder else "_delta_log"

    def commit_key(self, version: int) -> str:
        """Return the key of a version's commit file."""
        return f"{self.home}/{version:020d}.json"

    def file_key(self, path: str) -> str:
        """Decode a data file's relative path in the log to its key in the storage.

        >>> DeltaLog(storage=None, folder="t").file_key("city=a%252Fb%20é/part-0.parquet")
        't/city=a%2Fb é/part-0.parquet'
        """
        return f"{self.folder}/{unquote(path)}".lstrip("/")

    def list_files(self) -> LogFiles:
        """List the log's commits and complete checkpoints; empty when there is no table."""
        return LogFiles.of_items(self, self.storage.list(self.home))

    def list_recent_files(self) -> LogFiles:
        """List the log files that the newest version needs; of a short log, all files."""
        storage, home = self.storage, self.home
        listing = storage.list(home)
        first = list(islice(listing, storage.listing_page_size))
        if len(first) == storage.listing_page_size:
            version = (self.read_last_checkpoint() or {}).get("version")
            if isinstance(version, int) and version >= 0:
                by_name = storage.listing_page_size == 0
                since = LogFiles.of_items(
                    self,
                    self._find_files_since(version)
                    if by_name
                    else storage.list(home, after=f"{home}/{version:020d}"),
                )
                if version in since.checkpoints:
                    return since
        return LogFiles.of_items(self, chain(first, listing))

    def find_newest_version(self) -> int:
        """Return the newest version; -1 when there is no table."""
        return self.list_recent_files().newest

    def read_last_checkpoint(self) -> Mapping[str, Any] | None:
        """Read the JSON object in `_last_checkpoint`; None if it is absent or damaged."""
        data = self.storage.get(f"{self.home}/_last_checkpoint")
        try:
            return None if data is None else dict(json.loads(data))
        except (ValueError, TypeError):
            return None

    def read_actions(self, version: int) -> list[Action] | None:
        """Read a version's commit file; None if there is none, DestinationError if damaged."""
        key = self.commit_key(version)
        data = self.storage.get(key)
        return None if data is None else parse_actions(data, self.storage.uri(key))

    def read_commit(self, version: int) -> Commit | None:
        """Read and sum up a version's commit; None if the log has no such file."""
        actions = self.read_actions(version)
        return None if actions is None else Commit.of(version, actions)

    def commits_since(self, version: int) -> Iterator[Commit]:
        """Read and yield the commits after a version, oldest first, up to the newest.

        Each is read by its key, as a listing may lag behind.
        """
        while (commit := self.read_commit(version := version + 1)) is not None:
            yield commit

    def commits_back_from(self, version: int) -> Iterator[Commit]:
        """Read and yield the commit of a version, then older ones, until one has no file."""
        while version >= 0 and (commit := self.read_commit(version)) is not None:
            yield commit
            version -= 1

    def read_state(self) -> TableState | None:
        """Read the newest state; None without a table, SourceError if the log lacks files."""
        contents = self.read_newest_contents(SCHEMA)
        return None if contents is None else contents.state

    def read_newest_contents(self, kinds: frozenset[str]) -> Contents | None:
        """Read the newest version's state, files and transactions; None if there is no table."""
        files = self.list_recent_files()
        if files.newest < 0:
            return None
        return self._replay(files, files.newest, kinds)

    def read_contents(self, version: int, kinds: frozenset[str] = TABLE) -> Contents:
        """Read a version's state, files and transactions; SourceError if the log is incomplete.

        Of a checkpoint only the `kinds` of action are read. A recent version needs a short listing.
        """
        return self._replay(self.list_recent_files(), version, kinds)

    def _replay(self, recent: LogFiles, version: int, kinds: frozenset[str]) -> Contents:
        """Return a version's contents from recent log files, or by a new listing from all files."""
        return recent.replay(version, kinds) or self.list_files().read_contents(version, kinds)

    def last_transactions(
        self, version: int, app_ids: Collection[str], in_log: Transactions | None = None
    ) -> dict[str, int]:
        """Return the last `txn` number of each application id at a table's version; -1 for none.

        `in_log` has the log's `txn` actions at that version; None reads them.
        """
        if in_log is None:
            in_log = self.read_contents(version, STATE).transactions
        return last_transactions(self.storage, self.folder, version, in_log, app_ids)

    def find_singer_state(self, version: int) -> Commit | None:
        """Find the newest commit with a Singer STATE, at or before a version; None if none has one.

        A RESTORE also restores the STATE of its version.
        """
        while version >= 0 and (commit := self.read_commit(version)) is not None:
            if commit.mark is not None and commit.mark.singer_state is not None:
                return commit
            restored = commit.restored_version
            version = version - 1 if restored is None else restored
        return None

    def adds_any(self, keys: Collection[str], after_version: int) -> bool:
        """Whether a commit after `after_version` (-1: any) adds a data file with one of `keys`."""
        version = after_version + 1
        while (actions := self.read_actions(version)) is not None:
            paths = (action.add.path for action in actions if action.add is not None)
            if any(self.file_key(path) in keys for path in paths):
                return True
            version += 1
        return False

    def find_mark(self, version: int, run_id: str, stream: str, sequence: int) -> CommitMark | None:
        """Search commits from `version` back for the mark of a run's batch; None if absent."""
        wanted = (run_id, stream, sequence)
        for commit in self.commits_back_from(version):
            mark = commit.mark
            if mark is not None and (mark.run_id, mark.stream, mark.sequence) == wanted:
                return mark
        return None

    def find_missing(self, files: Iterable[DataFile]) -> list[str]:
        """Look each data file up in the store; return the paths of those that do not exist.

        Files outside of the table's folder, as a clone's, are not checked.
        """
        paths = [file.path for file in files if "://" not in file.path]

        def is_missing(path: str) -> bool:
            key = self.file_key(path)
            return not any(item.key == key for item in self.storage.list(key))

        missing = _map_in_threads(is_missing, paths)
        return [unquote(path) for path, lost in zip(paths, missing, strict=True) if lost]

    def _find_files_since(self, version: int) -> list[StoredObject]:
        """Look up a version's checkpoint and the later commits by key; empty if one is missing."""
        found = list(self.storage.list(f"{self.home}/{version:020d}.checkpoint.parquet"))
        missing = 0
        while missing < 2:
            commit = list(self.storage.list(self.commit_key(version)))
            if commit and missing:
                return []  # another writer was fast, or the log has a gap: a listing decides
            found += commit
            missing += not commit
            version += 1
        return found


@dataclass(frozen=True, slots=True)
class LogFiles:
    """A table's log files from a listing: commits and complete checkpoints, by version.

    Attributes:
        log: the log.
        commits: version -> its commit file, oldest first.
        checkpoints: version -> the files of a complete checkpoint, oldest first; of a version with
            two, those of the classic one.
    """

    log: DeltaLog
    commits: Mapping[int, StoredObject]
    checkpoints: Mapping[int, tuple[StoredObject, ...]]

    @classmethod
    def of_items(cls, log: DeltaLog, items: Iterable[StoredObject]) -> LogFiles:
        """Sort objects of a log's folder into commits and complete checkpoints; ignore the rest."""
        commits: dict[int, StoredObject] = {}
        parts: dict[int, dict[int, StoredObject]] = {}
        expected: dict[int, int] = {}
        whole: dict[int, tuple[StoredObject, ...]] = {}
        for item in items:
            match = LOG_FILE.search(f"/{item.key}")
            if match is None:
                continue
            version = int(match[1])
            if match[2]:
                commits[version] = item
            elif match[5]:
                whole[version] = (item,)  # of the second kind, which has a UUID in its name
            else:
                parts.setdefault(version, {})[int(match[3] or 1)] = item
                expected[version] = int(match[4] or 1)
        for version, found in parts.items():
            if len(found) == expected[version]:
                whole[version] = tuple(found.values())
        return cls(log, dict(sorted(commits.items())), dict(sorted(whole.items())))

    @property
    def oldest(self) -> int:
        """Oldest version that can be read from these files; -1 if there is no table."""
        if 0 in self.commits:
            return 0
        return min((*self.checkpoints, *(() if self.checkpoints else self.commits)), default=-1)

    @property
    def newest(self) -> int:
        """Newest version, -1 when there is no table."""
        return max((*self.commits, *self.checkpoints), default=-1)

    def version_at(self, timestamp: float) -> int:
        """Return the newest version committed at or before a Unix time in seconds; -1 for none.

        A version counts as later than those before it, whatever its writer's clock said, as for
        Delta (`DeltaHistoryManager`).
        """
        versions = sorted(self.commits)
        by_then = takewhile(lambda version: self.commits[version].modified <= timestamp, versions)
        return max(by_then, default=-1)

    def read_contents(self, version: int, kinds: frozenset[str] = TABLE) -> Contents:
        """Replay the log up to a version; raise SourceError if files are missing or damaged."""
        contents = self.replay(version, kinds)
        if contents is None:
            start = max((v for v in self.checkpoints if v <= version), default=-1)
            lost = [v for v in range(start + 1, version + 1) if v not in self.commits]
            keys = [f"{v:020d}.json" for v in lost] or [
                f.key for f in self.checkpoints.get(start, ())
            ]
            named = f", such as {keys[0].rpartition('/')[2]}" if keys else ""
            raise SourceError(
                f"the log of {self.log.uri} does not tell what the table holds at version "
                f"{version}: files of it are missing or damaged{named}",
                "bring them back from a copy, or read another version.",
            )
        return contents

    def replay(self, version: int, kinds: frozenset[str] = TABLE) -> Contents | None:
        """Replay the log from a readable checkpoint up to a version; None if files are missing.

        Of the checkpoint only the `kinds` of action are read. A damaged commit raises
        DestinationError.
        """
        storage = self.log.storage
        for start in sorted((v for v in (-1, *self.checkpoints) if v <= version), reverse=True):
            wanted = range(start + 1, version + 1)
            if any(number not in self.commits for number in wanted):
                return None
            try:
                files = self.checkpoints.get(start)
                checkpoint = read_checkpoint(storage, files, kinds) if files else Checkpoint()
            except pa.ArrowException:
                continue
            keys = [self.commits[number].key for number in wanted]
            return _replay(version, checkpoint, read_commits(storage, keys))
        return None


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of a table at one version: its state, data files and `txn` actions.

    Attributes:
        files: the table's data files; of a checkpoint read without `add`, only those added since.
        removed: the files that were removed since the checkpoint.
        transactions: application id -> its `txn` action.
    """

    state: TableState
    files: tuple[DataFile, ...]
    removed: tuple[DataFile, ...] = ()
    transactions: Transactions = field(default_factory=dict)


def read_commits(storage: Storage, keys: Sequence[str]) -> Iterator[list[Action]]:
    """Yield each commit file's actions, read in threads; DestinationError if one is missing."""

    def read(part: Sequence[str]) -> list[list[Action]]:
        return [_read_actions(storage, key) for key in part]

    parts = [keys[start : start + _TOGETHER] for start in range(0, len(keys), _TOGETHER)]
    return chain.from_iterable(_map_in_threads(read, parts))


def _read_actions(storage: Storage, key: str) -> list[Action]:
    """Read a log file's actions; raise DestinationError if it is missing or damaged."""
    data = storage.get(key)
    if data is None:
        raise DestinationError(
            f"{storage.uri(key)} was there a moment ago, and is gone",
            "another program cleans the table's log: try again.",
        )
    return parse_actions(data, storage.uri(key))


def _map_in_threads(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Call a function for each item, in up to 16 threads; yield the results in order, or raise."""
    if len(items) < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(_READERS) as pool:
        yield from pool.map(function, items)


def _replay(
    version: int, start: Checkpoint, commits: Iterable[Sequence[Action]]
) -> Contents | None:
    """Apply commits to a checkpoint, which is mutated; None if schema or protocol is missing."""
    files = {file.identity: file for file in start.files}
    removed: dict[Any, DataFile] = {}
    for action in chain.from_iterable(commits):
        if action.add is not None:
            files[action.add.identity] = action.add
            removed.pop(action.add.identity, None)
        elif action.remove is not None:
            files.pop(action.remove.identity, None)
            removed[action.remove.identity] = action.remove
        else:
            start.apply(action)
    state = start.state(version)
    if state is None:
        return None
    return Contents(state, (*files.values(),), (*removed.values(),), start.transactions)


@dataclass(slots=True)
class Checkpoint:
    """A checkpoint's data files, metadata and transactions; later actions can be applied.

    `domains` maps a domain to its configuration, `transactions` an application id to its action.
    """

    files: list[DataFile] = field(default_factory=list)
    metadata: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None
    domains: dict[str, str] = field(default_factory=dict)
    transactions: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def apply(self, action: Action) -> None:
        """Update metadata, protocol, domains or transactions by an action; ignore data files."""
        if action.txn is not None:
            self.transactions[action.txn["appId"]] = action.txn
        elif (domain := action.domain_metadata) is not None:
            self.domains.pop(domain["domain"], None)
            if not domain.get("removed"):
                self.domains[domain["domain"]] = domain["configuration"]
        elif action.meta_data is not None:  # only one part of a checkpoint has it: no race
            self.metadata = action.meta_data
        elif action.protocol is not None:
            self.protocol = action.protocol

    def state(self, version: int) -> TableState | None:
        """Return the table's state at a version; None if its schema or protocol is unknown."""
        if self.metadata is None or self.protocol is None:
            return None
        listed = json.loads(self.domains.get(CLUSTERING_DOMAIN, "{}")).get("clusteringColumns", ())
        schema = json.loads(self.metadata["schemaString"]) if listed else {}
        return TableState(version, self.metadata, self.protocol, logical_paths(schema, listed))


def read_checkpoint(
    storage: Storage, files: Sequence[StoredObject], kinds: frozenset[str] = TABLE
) -> Checkpoint:
    """Read a checkpoint's actions of the given kinds, in threads; ArrowException if damaged.

    | kind | files |
    |---|---|
    | classic | one Parquet file, or several parts |
    | second version | one file, Parquet or JSON, that names sidecars in Parquet |

    `STATE` alone reads little of a large table. A damaged JSON file raises DestinationError.
    """
    checkpoint = Checkpoint()
    read = partial(_read_file, storage, kinds=kinds, checkpoint=checkpoint)
    keys = [item.key for item in files]
    home = f"{keys[0].rpartition('/')[0]}/_sidecars"
    sidecars = [*chain.from_iterable(_map_in_threads(read, keys))]
    if "add" in kinds:
        paths = [f"{home}/{unquote(name).rpartition('/')[2]}" for name in sidecars]
        for _ in _map_in_threads(read, paths):  # sidecars name no further ones
            pass
    return checkpoint


def _read_file(
    storage: Storage, key: str, *, kinds: frozenset[str], checkpoint: Checkpoint
) -> Sequence[str]:
    """Add one checkpoint file's actions to `checkpoint`; return the paths of its sidecars."""
    if key.endswith(".json"):
        actions = _read_actions(storage, key)
        checkpoint.files += (action.add for action in actions if action.add is not None)
        for action in actions:
            checkpoint.apply(action)
        return [str(action.sidecar["path"]) for action in actions if action.sidecar is not None]
    import pyarrow.parquet as pq

    with storage.open(key) as file:
        source = pq.ParquetFile(file)
        present = {column.name: column.type for column in source.schema_arrow}
        wanted = {*kinds, "sidecar"} & {*present}
        below = {child.name for child in present["add"]} if "add" in wanted else set()
        columns = [*(f"add.{name}" for name in _FILE if name in below), *(wanted - {"add"})]
        sidecars: list[str] = []
        for group in range(source.num_row_groups):
            if not may_have_actions(source.metadata, group, wanted):
                continue
            table = source.read_row_group(group, columns, use_threads=bool(below))
            typed_stats = None
            if "stats_parsed" in below and _lacks_stats_text(table):
                typed_stats = source.read_row_group(group, ["add.path", "add.stats_parsed"])
            checkpoint.files.extend(_parse_files(table, typed_stats))
            for kind in ("domainMetadata", "metaData", "protocol", "txn"):
                for body in _list_actions(table, kind):
                    checkpoint.apply(msgspec.convert({kind: body}, Action))
            sidecars += (str(row["path"]) for row in _list_actions(table, "sidecar"))
    return sidecars


def may_have_actions(
    metadata: pq.FileMetaData, group: int, kinds: frozenset[str] | set[str]
) -> bool:
    """Whether a checkpoint's row group may have actions of these kinds, by its null counts."""
    chunks = metadata.row_group(group)
    for place in range(chunks.num_columns):
        chunk = chunks.column(place)
        if chunk.path_in_schema.partition(".")[0] in kinds:
            stats = chunk.statistics
            if stats is None or not stats.has_null_count or stats.null_count < chunk.num_values:
                return True
    return False


def _list_actions(table: pa.Table, kind: str) -> Iterator[dict[str, Any]]:
    """Yield a checkpoint's actions of a kind, as dicts; nothing if it has no such column.

    Converting field by field takes half the time of row by row.
    """
    if kind not in table.column_names:
        return
    structs = table[kind].drop_null()
    names = [child.name for child in structs.type]
    columns = (pc.struct_field(structs, n).to_pylist(maps_as_pydicts="strict") for n in names)
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _lacks_stats_text(table: pa.Table) -> bool:
    """Whether an `add` in a checkpoint's rows has no statistics as JSON text."""
    adds = table["add"].drop_null()
    if len(adds) == 0:
        return False
    names = [child.name for child in adds.type]
    return "stats" not in names or pc.struct_field(adds, "stats").null_count > 0


def _parse_files(table: pa.Table, typed_stats: pa.Table | None) -> Iterator[DataFile]:
    """Yield the data files in a checkpoint's rows; typed statistics replace missing JSON text."""
    if "add" not in table.column_names:
        return
    adds = table["add"].drop_null()
    names = {child.name for child in adds.type}

    def column(name: str) -> list[Any]:
        values = pc.struct_field(adds, name) if name in names else None
        if values is None or values.null_count == len(adds):
            return [None] * len(adds)
        found: list[Any] = values.to_pylist(maps_as_pydicts="strict")
        return found

    fields = {name: column(name) for name in _FILE}
    fields["deletionVector"] = [
        msgspec.convert(vector, DeletionVector) if vector and vector.get("storageType") else None
        for vector in fields["deletionVector"]
    ]
    if typed_stats is not None:
        parsed = pc.struct_field(typed_stats["add"].drop_null(), "stats_parsed").to_pylist()
        fields["stats"] = [
            text or stats for text, stats in zip(fields["stats"], parsed, strict=True)
        ]
    for row in zip(*fields.values(), strict=True):
        yield DataFile(*row)
