"""A Delta table's log, read from its files without Spark: the one reader of writers and commands.

```
LogFiles      which files there are, by a listing or by their names
parse_entries one commit ─▶ its actions, typed
read_checkpoint           any kind ─▶ what a table holds
replay        checkpoint + commits ─▶ Contents at a version
```
Actions are typed, which takes a tenth of the time of dictionaries; what nobody needs is skipped.

A partition value is a string in the log and part of a folder's name on the store. The log is what
counts for readers; the folder only has to be unique and a legal name:
```
value 2024-05-01 10:30   log "2024-05-01T10:30:00.000000Z"
folder on the store      at=2024-05-01T10%3A30%3A00.000000Z       Spark's escaping
path in the log          at=2024-05-01T10%253A30%253A00.000000Z   a URI, so escaped once more
```
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import ConfigError, DestinationError, SourceError
from lakeport.model import Storage, StoredObject
from lakeport.schema.sparktypes import NULL_FOLDER
from lakeport.writers.delta.schema import logical_paths
from lakeport.writers.delta.state import TableState

if TYPE_CHECKING:
    import pyarrow.parquet as pq


CLUSTERING_DOMAIN = "delta.clustering"
_NAME_LIMIT = 200
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | frozenset(map(chr, range(0x20)))
_URI_SAFE = "/-_.!~*'();:@&=+$,"


def check_partition_type(name: str, type_: pa.DataType) -> None:
    """Refuse column types that make no partitions.

    Raises:
        ConfigError: a nested, binary or floating-point column.
    """
    if pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_floating(type_):
        raise ConfigError(
            f"column {name!r} is {type_}, which can't be a partition column",
            "partition by text, whole numbers, decimals, booleans, dates or times.",
        )


def serialise_value(value: Any) -> str | None:
    """One partition value as the log holds it.

    The protocol reads an empty string as null, so one comes out as None here.

    Args:
        value: str, int, bool, Decimal, date, datetime, or None. A datetime without a zone is of
            a column without one.

    >>> serialise_value(datetime(2024, 5, 1, 10, 30, tzinfo=UTC))
    '2024-05-01T10:30:00.000000Z'
    >>> serialise_value(True), serialise_value(Decimal("1.50")), serialise_value("")
    ('true', '1.50', None)
    """
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.isoformat(" ", timespec="microseconds")
    if isinstance(value, datetime):
        text = value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}Z"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def parse_value(text: str | None, type_: pa.DataType) -> Any:
    """A partition value of any writer, typed, so that two spellings of it compare equal.

    Times without a zone are UTC.

    >>> at = pa.timestamp("us", "UTC")
    >>> parse_value("2024-05-01 10:30:00", at) == parse_value("2024-05-01T10:30:00.000000Z", at)
    True
    """
    if text is None or text == "":
        return None
    if pa.types.is_boolean(type_):
        return text.lower() == "true"
    if pa.types.is_integer(type_):
        return int(text)
    if pa.types.is_floating(type_):
        number = pa.scalar(float(text), type_).as_py()
        return math.nan if math.isnan(number) else number  # the same object equals itself in a key
    if pa.types.is_decimal(type_):
        return Decimal(text)
    if pa.types.is_date(type_):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(type_):
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return text


def partition_folder(values: Mapping[str, str | None]) -> str:
    """The folder of a partition below the table's, as it is named on the store.

    Names that a file system would refuse for their length are cut and told apart by a hash.

    >>> partition_folder({"day": "2024-05-01", "city": "a/b c"})
    'day=2024-05-01/city=a%2Fb c'
    >>> partition_folder({"city": None})
    'city=__HIVE_DEFAULT_PARTITION__'
    >>> partition_folder({"city": "Inc."})  # Azure has no folders that end with a dot
    'city=Inc%2E'
    >>> partition_folder({"city": NULL_FOLDER})  # a text like any other
    'city=%5F_HIVE_DEFAULT_PARTITION__'
    """
    return "/".join(
        _short(f"{_escape(name)}={NULL_FOLDER if value is None else _escape_value(value)}")
        for name, value in values.items()
    )


def uri_path(key: str) -> str:
    """A key below the table's folder as the log holds it: quoted as Java's `URI` does.

    >>> uri_path("city=a%2Fb é/part-0.parquet")
    'city=a%252Fb%20é/part-0.parquet'
    """
    return "".join(char if _stays(char) else quote(char, safe=_URI_SAFE) for char in key)


def parse_path(path: str) -> str:
    """The key that a log's path means.

    >>> parse_path("city=a%252Fb%20é/part-0.parquet")
    'city=a%2Fb é/part-0.parquet'
    """
    return unquote(path)


def metadata_action(
    table_id: str,
    schema: Mapping[str, Any],
    partition_columns: Sequence[str],
    properties: Mapping[str, str],
    created_ms: int,
) -> str:
    """The `metaData` action of a new table, as JSON text."""
    return action_line(
        "metaData",
        {
            "id": table_id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema, ensure_ascii=False, separators=(",", ":")),
            "partitionColumns": list(partition_columns),
            "configuration": dict(properties),
            "createdTime": created_ms,
        },
    )


def clustering_action(columns: Sequence[Sequence[str]]) -> str:
    """The `domainMetadata` action that names the columns by which a table is clustered, as JSON.

    Args:
        columns: each column's path in the data files.
    """
    body = {"clusteringColumns": [list(path) for path in columns], "domainName": CLUSTERING_DOMAIN}
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return action_line(
        "domainMetadata", {"domain": CLUSTERING_DOMAIN, "configuration": text, "removed": False}
    )


def add_action(
    path: str,
    partition: Mapping[str, str | None],
    size: int,
    modified_ms: int,
    stats: str,
    *,
    changes_rows: bool = True,
) -> str:
    """The `add` action of one data file, as JSON text.

    Args:
        path: the file's key below the table's folder, not quoted.
        partition: partition column -> serialised value.
        size: bytes.
        modified_ms: milliseconds since 1970.
        stats: Delta's statistics as JSON text.
        changes_rows: whether the table has other rows by its commit.
    """
    return action_line(
        "add",
        {
            "path": uri_path(path),
            "partitionValues": dict(partition),
            "size": size,
            "modificationTime": modified_ms,
            "dataChange": changes_rows,
            "stats": stats,
        },
    )


def parse_actions(data: bytes, name: str) -> list[dict[str, Any]]:
    """The actions of a commit file.

    Args:
        data: the file.
        name: the file, as users name it.

    Raises:
        DestinationError: it holds something else.

    >>> parse_actions(b'{"txn":{"appId":"a","version":1}}\\n', "0.json")
    [{'txn': {'appId': 'a', 'version': 1}}]
    """
    found: list[dict[str, Any]] = []
    for number, line in enumerate(data.splitlines(), 1):
        action: Any = None
        with suppress(ValueError):
            action = json.loads(line) if line.strip() else {}
        if not isinstance(action, dict):
            raise DestinationError(
                f"{name} is no commit of a Delta table: line {number} is no action",
                "the file is damaged, or something else wrote it: bring it back from a copy, or "
                "land in another table.",
            )
        found.append(action)
    return found


def transaction_action(app_id: str, version: int, updated_ms: int) -> str:
    """The `txn` action that records how far an application has come, as JSON text."""
    return action_line("txn", {"appId": app_id, "version": version, "lastUpdated": updated_ms})


def log_folder(folder: str) -> str:
    """The folder of a table's log; the table's may be empty, for the storage's root."""
    return f"{folder}/_delta_log" if folder else "_delta_log"


def action_line(kind: str, body: Mapping[str, Any]) -> str:
    """One action, as JSON text in a line."""
    return json.dumps({kind: body}, ensure_ascii=False, separators=(",", ":"))


def _escape(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def _escape_value(text: str) -> str:
    return f"%5F{text[1:]}" if text == NULL_FOLDER else _escape(text)


def _short(name: str) -> str:
    name = f"{name[:-1]}%2E" if name.endswith(".") else name
    encoded = name.encode()
    if len(encoded) <= _NAME_LIMIT:
        return name
    head = encoded[: _NAME_LIMIT - 33].decode(errors="ignore").rstrip("%")
    return f"{head}~{hashlib.sha256(encoded).hexdigest()[:32]}"


def _stays(char: str) -> bool:
    # Java's URI leaves characters outside ASCII as they are, except spaces and control characters.
    return char > "\x9f" and not char.isspace()


STATE: Final = frozenset({"metaData", "protocol", "txn"})
"""The kinds of action that tell a table's schema, properties, protocol and counters."""
TABLE: Final = frozenset({"metaData", "protocol", "add", "domainMetadata"})
"""Those that tell what a table holds."""
_READERS: Final = 16
_TOGETHER: Final = 8
_LOG_FILE = re.compile(
    r"/_delta_log/(\d{20})(?:\.(json)|\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet"
    r"|\.checkpoint\.([0-9A-Fa-f-]{36})\.(?:parquet|json))$"
)


class Vector(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True, gc=False):
    """A deletion vector: which rows of a file are deleted."""

    storage_type: str = ""
    path_or_inline_dv: str = ""
    offset: int | None = None
    size_in_bytes: int | None = None
    cardinality: int = 0


class DataFile(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A data file, as an `add` or a `remove` names it; see Delta's protocol.

    Attributes:
        path: its path, quoted.
        size: in bytes; None where a `remove` does not say.
        partition_values: physical column -> value as the log spells it.
        stats: its statistics, as JSON text, or typed from a checkpoint that has no text.
        deletion_vector: which rows are deleted.
    """

    path: str
    size: int | None = None
    partition_values: dict[str, str | None] | None = None
    stats: str | dict[str, Any] | None = None
    deletion_vector: Vector | None = None
    modification_time: int | None = None
    tags: dict[str, str | None] | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None
    deletion_timestamp: int | None = None
    extended_file_metadata: bool | None = None

    @property
    def ident(self) -> tuple[str, str, str, int | None] | str:
        """What tells a file of a table from others: its path, and which rows of it are deleted."""
        vector = self.deletion_vector
        if vector is None:
            return self.path
        return (self.path, vector.storage_type, vector.path_or_inline_dv, vector.offset)

    @property
    def bytes(self) -> int:
        """Its size; 0 where a `remove` does not say."""
        return self.size or 0

    @property
    def partition(self) -> dict[str, str | None]:
        """Its partition values; empty where there are none."""
        return self.partition_values or {}

    @property
    def rows(self) -> int | None:
        """Its rows, without the deleted ones; None where it does not say."""
        try:
            count = (
                _COUNT.decode(self.stats).num_records
                if isinstance(self.stats, str)
                else (self.stats or {}).get("numRecords")
            )
        except msgspec.DecodeError:
            return None
        vector = self.deletion_vector
        return count if count is None or vector is None else count - vector.cardinality

    def body(self, **more: Any) -> dict[str, Any]:
        """Return the action's fields by their names in the log, and further ones.

        Typed statistics are left out: they have lost the spelling that readers compare.
        """
        found: dict[str, Any] = {**msgspec.to_builtins(self), **more}
        if isinstance(self.stats, dict):
            del found["stats"]
        return found

    def add(self) -> str:
        """Return an `add` action that brings the file into a table, as JSON text."""
        body = self.body(dataChange=True, partitionValues=self.partition)
        for of_removal in ("deletionTimestamp", "extendedFileMetadata"):
            body.pop(of_removal, None)
        return action_line("add", body)

    @classmethod
    def of_add(cls, text: str) -> DataFile:
        """Return the file of an `add` action that is JSON text."""
        return msgspec.json.decode(text, type=_Add).add


class Entry(msgspec.Struct, rename="camel"):
    """One line of a commit; all but one field are None."""

    add: DataFile | None = None
    remove: DataFile | None = None
    meta_data: dict[str, Any] | None = None
    protocol: dict[str, Any] | None = None
    txn: dict[str, Any] | None = None
    commit_info: dict[str, Any] | None = None
    domain_metadata: dict[str, Any] | None = None
    sidecar: dict[str, Any] | None = None


class _Add(msgspec.Struct):
    add: DataFile


class _Count(msgspec.Struct, rename="camel"):
    num_records: int | None = None


_COUNT = msgspec.json.Decoder(_Count)
_ENTRY = msgspec.json.Decoder(Entry)
_FILE = tuple(  # what a checkpoint's `add` tells, by its name there
    field.encode_name
    for field in msgspec.structs.fields(DataFile)
    if field.name not in ("deletion_timestamp", "extended_file_metadata")
)


def row_count(files: Iterable[DataFile]) -> int | None:
    """Return the rows in files; None if one does not say."""
    counts = [file.rows for file in files]
    return None if None in counts else sum(filter(None, counts))


def apply_domain(domains: MutableMapping[str, str], action: Mapping[str, Any]) -> None:
    """Have a `domainMetadata` action change the texts: domain -> its text."""
    if action.get("removed"):
        domains.pop(action["domain"], None)
    else:
        domains[action["domain"]] = action["configuration"]


def cluster_columns(domains: Mapping[str, str], schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns by which a table is clustered, nested ones as dotted paths.

    Args:
        domains: domain -> its text.
        schema: the table's, as Delta's JSON.
    """
    listed = json.loads(domains.get(CLUSTERING_DOMAIN, "{}")).get("clusteringColumns", ())
    return logical_paths(schema, listed)


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of a table's log.

    Attributes:
        commits: version -> its commit file.
        checkpoints: version -> the files of a checkpoint, complete ones only; of a version that
            has two, those of the classic one.
    """

    commits: Mapping[int, StoredObject]
    checkpoints: Mapping[int, tuple[StoredObject, ...]]

    @classmethod
    def of(cls, storage: Storage, folder: str) -> LogFiles:
        """List a table's log; both mappings are empty when there is no table.

        Raises:
            DestinationError: the store refused.
        """
        return cls.of_items(storage.list(log_folder(folder)))

    @classmethod
    def recent(cls, storage: Storage, folder: str) -> LogFiles:
        """List what tells a table's newest version: of a long log, the files since its checkpoint.

        Raises:
            DestinationError: the store refused.
        """
        home = log_folder(folder)
        listing = storage.list(home)
        first = list(islice(listing, storage.listed_at_once))
        if len(first) == storage.listed_at_once:
            version = (last_checkpoint(storage, folder) or {}).get("version")
            if isinstance(version, int) and version >= 0:
                by_name = storage.listed_at_once == 0
                since = cls.of_items(
                    _named_since(storage, home, version)
                    if by_name
                    else storage.list(home, after=f"{home}/{version:020d}")
                )
                if version in since.checkpoints:
                    return since
        return cls.of_items(chain(first, listing))

    @classmethod
    def of_items(cls, items: Iterable[StoredObject]) -> LogFiles:
        """Sort objects of a log's folder by what they are."""
        commits: dict[int, StoredObject] = {}
        parts: dict[int, dict[int, StoredObject]] = {}
        expected: dict[int, int] = {}
        whole: dict[int, tuple[StoredObject, ...]] = {}
        for item in items:
            match = _LOG_FILE.search(f"/{item.key}")
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
        return cls(dict(sorted(commits.items())), dict(sorted(whole.items())))

    @property
    def oldest(self) -> int:
        """The oldest version that can be told from these files, -1 when there is no table."""
        if 0 in self.commits:
            return 0
        return min((*self.checkpoints, *(() if self.checkpoints else self.commits)), default=-1)

    @property
    def newest(self) -> int:
        """The newest version, -1 when there is no table."""
        return max((*self.commits, *self.checkpoints), default=-1)

    def at(self, moment: float) -> int:
        """The newest version that was committed by then, in seconds since 1970; -1 for none.

        A version counts as later than those before it, whatever its writer's clock said, as for
        Delta (`DeltaHistoryManager`).
        """
        versions = sorted(self.commits)
        by_then = takewhile(lambda version: self.commits[version].modified <= moment, versions)
        return max(by_then, default=-1)


def _named_since(storage: Storage, home: str, version: int) -> list[StoredObject]:
    """Look up a checkpoint and the commits since by their names; nothing where one is missing."""
    found = list(storage.list(f"{home}/{version:020d}.checkpoint.parquet"))
    gone = 0
    while gone < 2:
        commit = list(storage.list(f"{home}/{version:020d}.json"))
        if commit and gone:
            return []  # others are fast, or the log has a gap: a listing tells
        found += commit
        gone += not commit
        version += 1
    return found


def last_checkpoint(storage: Storage, folder: str) -> Mapping[str, Any] | None:
    """What `_last_checkpoint` says, which is a hint only; None where there is none.

    Raises:
        DestinationError: the store refused.
    """
    data = storage.get(f"{log_folder(folder)}/_last_checkpoint")
    try:
        return None if data is None else dict(json.loads(data))
    except (ValueError, TypeError):
        return None


def read_commits(storage: Storage, keys: Sequence[str]) -> Iterator[list[Entry]]:
    """Read commit files, several at once.

    Raises:
        DestinationError: the store refused, or a file is gone or no commit.
    """
    parts = [keys[start : start + _TOGETHER] for start in range(0, len(keys), _TOGETHER)]
    if len(parts) < 2:
        yield from _read(storage, keys)
        return
    with ThreadPoolExecutor(_READERS) as pool:
        for found in pool.map(lambda part: _read(storage, part), parts):
            yield from found


def _read(storage: Storage, keys: Sequence[str]) -> list[list[Entry]]:
    return [parse_entries(storage.get(key), storage.uri(key)) for key in keys]


def parse_entries(data: bytes | None, name: str) -> list[Entry]:
    """The entries of a commit, or of a checkpoint in JSON.

    Args:
        data: the file; None when it is gone.
        name: the file, as users name it.

    Raises:
        DestinationError: it is gone, or holds something else.
    """
    if data is None:
        raise DestinationError(
            f"{name} was there a moment ago, and is gone",
            "another program cleans the table's log: try again.",
        )
    try:
        return _ENTRY.decode_lines(data)
    except msgspec.DecodeError:
        found = parse_actions(data, name)  # tells the line that is none
    try:
        return msgspec.convert(found, list[Entry], strict=False)
    except msgspec.ValidationError as error:
        raise DestinationError(
            f"{name} is no commit of a Delta table: an action in it lacks a part",
            "the file is damaged, or something else wrote it: bring it back from a copy.",
        ) from error


@dataclass(slots=True)
class Checkpoint:
    """What a checkpoint tells of its table.

    Attributes:
        files: the data files.
        metadata: the `metaData` action.
        protocol: the `protocol` action.
        domains: domain -> its `domainMetadata` text.
        transactions: application id -> its `txn` action.
    """

    files: list[DataFile] = field(default_factory=list)
    metadata: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None
    domains: dict[str, str] = field(default_factory=dict)
    transactions: dict[str, Mapping[str, Any]] = field(default_factory=dict)


def read_checkpoint(
    storage: Storage, files: Sequence[StoredObject], kinds: frozenset[str] = TABLE
) -> Checkpoint:
    """Read a checkpoint of any kind.

    | kind | files |
    |---|---|
    | classic | one Parquet file, or several parts |
    | second version | one file, Parquet or JSON, that names sidecars in Parquet |

    Args:
        storage: where the table is.
        files: the checkpoint's.
        kinds: the kinds of action to read: `STATE` alone reads little, however large the table is.

    Raises:
        DestinationError: the store refused, or a JSON file is no checkpoint.
        pyarrow.ArrowException: a file is damaged.
    """
    found = Checkpoint()
    read = partial(_read_part, storage, kinds=kinds, into=found)
    keys = [item.key for item in files]
    home = f"{keys[0].rpartition('/')[0]}/_sidecars"
    named = [name for names in _at_once(read, keys) for name in names]
    if "add" in kinds:
        _at_once(read, [f"{home}/{parse_path(name).rpartition('/')[2]}" for name in named])
    return found


def _at_once(read: Any, keys: Sequence[str]) -> list[Sequence[str]]:
    if len(keys) < 2:
        return [read(key) for key in keys]
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(read, keys))


def _read_part(
    storage: Storage, key: str, *, kinds: frozenset[str], into: Checkpoint
) -> Sequence[str]:
    """Read one file; returns the sidecars that it names."""
    if key.endswith(".json"):
        return _read_json(storage, key, into)
    import pyarrow.parquet as pq

    with storage.open(key) as file:
        source = pq.ParquetFile(file)
        present = {column.name: column.type for column in source.schema_arrow}
        wanted = {*kinds, "sidecar"} & {*present}
        below = {child.name for child in present["add"]} if "add" in wanted else set()
        columns = [*(f"add.{name}" for name in _FILE if name in below), *(wanted - {"add"})]
        sidecars: list[str] = []
        for group in range(source.num_row_groups):
            if not may_have(source.metadata, group, wanted):
                continue
            table = source.read_row_group(group, columns, use_threads=bool(below))
            typed = None
            if "stats_parsed" in below and _lacks_text(table):
                typed = source.read_row_group(group, ["add.path", "add.stats_parsed"])
            into.files.extend(_files(table, typed))
            for domain in _rows(table, "domainMetadata"):
                into.domains[domain["domain"]] = domain["configuration"]
            for txn in _rows(table, "txn"):
                into.transactions[txn["appId"]] = txn
            for metadata in _rows(table, "metaData"):  # set by one part alone: others run beside it
                into.metadata = metadata
            for protocol in _rows(table, "protocol"):
                into.protocol = protocol
            sidecars += (str(row["path"]) for row in _rows(table, "sidecar"))
    return sidecars


def _read_json(storage: Storage, key: str, into: Checkpoint) -> list[str]:
    sidecars = []
    for entry in parse_entries(storage.get(key), storage.uri(key)):
        if entry.add is not None:
            into.files.append(entry.add)
        elif entry.domain_metadata is not None:
            apply_domain(into.domains, entry.domain_metadata)
        elif entry.txn is not None:
            into.transactions[entry.txn["appId"]] = entry.txn
        elif entry.sidecar is not None:
            sidecars.append(str(entry.sidecar["path"]))
        into.metadata = entry.meta_data or into.metadata
        into.protocol = entry.protocol or into.protocol
    return sidecars


def may_have(metadata: pq.FileMetaData, group: int, kinds: frozenset[str] | set[str]) -> bool:
    """Whether a row group of a checkpoint may have actions of one of these kinds."""
    chunks = metadata.row_group(group)
    for place in range(chunks.num_columns):
        chunk = chunks.column(place)
        if chunk.path_in_schema.partition(".")[0] in kinds:
            known = chunk.statistics
            if known is None or not known.has_null_count or known.null_count < chunk.num_values:
                return True
    return False


def _rows(table: pa.Table, kind: str) -> Iterator[dict[str, Any]]:
    """Yield a checkpoint's actions of a kind: field by field, in half the time of row by row."""
    if kind not in table.column_names:
        return
    structs = table[kind].drop_null()
    names = [child.name for child in structs.type]
    columns = (_child(structs, name).to_pylist(maps_as_pydicts="strict") for name in names)
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


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

    def column(name: str) -> list[Any]:
        values = _child(adds, name) if name in names else None
        if values is None or values.null_count == len(adds):
            return [None] * len(adds)
        found: list[Any] = values.to_pylist(maps_as_pydicts="strict")
        return found

    told = {name: column(name) for name in _FILE}
    told["deletionVector"] = [_vector(vector) for vector in told["deletionVector"]]
    if typed is not None:
        parsed = _child(typed["add"].drop_null(), "stats_parsed").to_pylist()
        told["stats"] = [text or known for text, known in zip(told["stats"], parsed, strict=True)]
    for row in zip(*told.values(), strict=True):
        yield DataFile(*row)


def _vector(told: Mapping[str, Any] | None) -> Vector | None:
    return msgspec.convert(told, Vector) if told and told.get("storageType") else None


def _child(structs: Any, name: str) -> Any:
    return pc.struct_field(structs, name)


@dataclass(frozen=True, slots=True)
class Contents:
    """A table at one version.

    Attributes:
        state: version, schema, properties and protocol.
        files: its data files; where nothing but `STATE` was read, those since the checkpoint.
        domains: domain -> its `domainMetadata` text.
        removed: the files that were removed since the checkpoint.
        transactions: application id -> its `txn` action.
    """

    state: TableState
    files: tuple[DataFile, ...]
    domains: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[DataFile, ...] = ()
    transactions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def cluster_columns(self) -> tuple[str, ...]:
        """The columns by which the table is clustered, nested ones as dotted paths."""
        return cluster_columns(self.domains, self.state.schema_json)


def read_contents(
    storage: Storage, folder: str, log: LogFiles, version: int, kinds: frozenset[str] = TABLE
) -> Contents:
    """Return what a table holds at a version.

    Args:
        storage: where the table is.
        folder: its key; empty when it is the storage's root.
        log: the files of its log.
        version: one that the table has.
        kinds: the kinds of action to read of a checkpoint.

    Raises:
        SourceError: files of the log are missing or damaged, so that they do not tell.
        DestinationError: the store refused, or a commit is damaged.
    """
    found = replay(storage, log, version, kinds)
    if found is None:
        raise SourceError(
            f"the log of {storage.uri(folder)} does not tell what the table holds at version "
            f"{version}: files of it are missing or damaged",
            "bring them back from a copy, or read another version.",
        )
    return found


def replay(
    storage: Storage, log: LogFiles, version: int, kinds: frozenset[str] = TABLE
) -> Contents | None:
    """Return a table's contents at a version, from the newest checkpoint that can be read.

    Args:
        storage: where the table is.
        log: the files of its log.
        version: one that the table has.
        kinds: the kinds of action to read of a checkpoint.

    Returns:
        None when the files that are there do not tell.

    Raises:
        DestinationError: the store refused, or a commit is damaged.
    """
    for start in sorted((v for v in (-1, *log.checkpoints) if v <= version), reverse=True):
        wanted = range(start + 1, version + 1)
        if any(number not in log.commits for number in wanted):
            return None
        try:
            files = log.checkpoints.get(start)
            found = read_checkpoint(storage, files, kinds) if files else Checkpoint()
        except pa.ArrowException:
            continue
        keys = [log.commits[number].key for number in wanted]
        return _replayed(version, found, read_commits(storage, keys))
    return None


def _replayed(
    version: int, start: Checkpoint, commits: Iterable[Sequence[Entry]]
) -> Contents | None:
    files = {file.ident: file for file in start.files}
    removed: dict[Any, DataFile] = {}
    for entry in chain.from_iterable(commits):
        if entry.add is not None:
            files[entry.add.ident] = entry.add
            removed.pop(entry.add.ident, None)
        elif entry.remove is not None:
            files.pop(entry.remove.ident, None)
            removed[entry.remove.ident] = entry.remove
        elif entry.txn is not None:
            start.transactions[entry.txn["appId"]] = entry.txn
        elif entry.domain_metadata is not None:
            apply_domain(start.domains, entry.domain_metadata)
        start.metadata = entry.meta_data or start.metadata
        start.protocol = entry.protocol or start.protocol
    if start.metadata is None or start.protocol is None:
        return None
    state = TableState(version, start.metadata, start.protocol)
    counted = start.transactions
    return Contents(state, (*files.values(),), start.domains, (*removed.values(),), counted)
