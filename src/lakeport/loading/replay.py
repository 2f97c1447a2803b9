"""Records that were set aside: listed, and landed once they are right.

Of a lake's file, the load tells that has set them aside.
"""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from lakeport.config.files import parse_text, read_text
from lakeport.config.inputs import FilesSource
from lakeport.config.lake import read_lake
from lakeport.config.load import load_target
from lakeport.destinations import open_storage, open_table
from lakeport.engine.sql.frames import cast_to
from lakeport.errors import ConfigError, InputError, RunMismatch, SourceError
from lakeport.host.scratch import scratch
from lakeport.loading.prepare import prepare
from lakeport.loading.quarantine import QUARANTINE, RejectedKind
from lakeport.loading.run import land
from lakeport.loading.transform.function import function_named
from lakeport.model import Mode, Rejection, UnknownPolicy
from lakeport.schema.hints import format_command
from lakeport.schema.nested import has_untyped, is_json
from lakeport.shape import list_internal_columns
from lakeport.tables.records import PlainRecord
from lakeport.writers.naming import table_name

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.expectations import Expectation
    from lakeport.config.keys import StoreKeys, Target
    from lakeport.config.lake import Load
    from lakeport.engine.base import DataFrame
    from lakeport.loading.report import LandingReport, Observer
    from lakeport.model import Storage


_NAMED: Final[dict[Any, dict[str, Any]]] = {
    pa.string(): {"type": ["null", "string"]},
    pa.bool_(): {"type": ["null", "boolean"]},
    pa.float32(): {"type": ["null", "number"]},
    pa.float64(): {"type": ["null", "number"]},
    pa.date32(): {"type": ["null", "string"], "format": "date"},
    pa.timestamp("us", "UTC"): {"type": ["null", "string"], "format": "date-time"},
    pa.binary(): {"type": ["null", "string"], "contentEncoding": "base64"},
}

KEPT: Final = frozenset(RejectedKind) - {RejectedKind.SAMPLES}
"""Kinds of quarantine files that hold all that was set aside, not samples of it."""

_ENDINGS: Final = (RejectedKind.LINES, RejectedKind.ROWS, RejectedKind.SAMPLES)

_SUFFIXES: Final = (".yaml", ".yml", ".json")


def json_schema(fields: Iterable[pa.Field]) -> dict[str, Any]:
    """Return the JSON schema of records with these fields, without fields of types that it lacks.

    Example:
        >>> json_schema(pa.schema([("n", pa.int64()), ("v", pa.json_())]))
        {'type': 'object', 'properties': {'n': {'type': ['null', 'integer']}, 'v': {}}}
    """
    found = {field.name: _declared(field) for field in fields}
    properties = {name: declared for name, declared in found.items() if declared is not None}
    return {"type": "object", "properties": properties}


def _declared(field: pa.Field) -> dict[str, Any] | None:
    type_ = field.type
    if is_json(field):
        return {}
    if type_ in _NAMED:
        return _NAMED[type_]
    if pa.types.is_integer(type_):
        return {"type": ["null", "integer"]}
    if pa.types.is_decimal(type_):
        size = {"x-precision": type_.precision, "x-scale": type_.scale}
        return {"type": ["null", "number"], **size}
    if pa.types.is_struct(type_):
        return {**json_schema(type_), "type": ["null", "object"]}
    if pa.types.is_list(type_):
        items = _declared(type_.value_field)
        return {"type": ["null", "array"], **({} if items is None else {"items": items})}
    return None


@dataclass(frozen=True, slots=True)
class SetAside(PlainRecord):
    """What a run has set aside of one stream.

    Attributes:
        run_id: the run.
        stream: the stream's name; empty for lines that are of none.
        table: the name of its table.
        records: how many; samples of rows for which a load has failed are not among them.
        samples: how many rows were kept as samples of a load that has failed.
        reasons: why, the most frequent first.
        files: URIs of the files.
        expectations: the names of those that rows among the records did not meet.
        rows: how many of the records are such rows; the others are as the source had them, before
            `sql`.
    """

    run_id: str
    stream: str
    table: str
    records: int
    samples: int
    reasons: tuple[Rejection, ...]
    files: tuple[str, ...]
    expectations: tuple[str, ...] = ()
    rows: int = 0


def quarantined(
    to: Target | DestinationConfig,
    table: str = "",
    *,
    run: str = "",
    **keys: Unpack[StoreKeys],
) -> tuple[SetAside, ...]:
    """Tell what was set aside, by runs and streams; every quarantine file is read.

    Args:
        to: a folder, a URI, a config file, or the config itself.
        table: of this table alone, by its name or its stream's.
        run: of this run alone.
        keys: keys of the config, which win over those in `to`.

    Raises:
        LakeportError: the store can't be read.
    """
    config = load_target(to, keys)
    return set_aside(config, open_storage(config), table, run)


def set_aside(
    config: DestinationConfig, storage: Storage, table: str, run: str
) -> tuple[SetAside, ...]:
    """See `quarantined`."""
    found: dict[tuple[str, str], Counter[tuple[str, RejectedKind, str, str]]] = {}
    for key, run_id, of in _files(storage, run):
        for line in _lines(storage, key):
            stream = line["stream"]
            if not table or table in _names(config, stream):
                kind = key, of, str(line.get("column", "")), str(line.get("reason", ""))
                found.setdefault((run_id, stream), Counter())[kind] += 1
    return tuple(
        _summed(config, storage, run_id, stream, kinds)
        for (run_id, stream), kinds in sorted(found.items())
    )


def records(
    storage: Storage, found: SetAside, kinds: Collection[RejectedKind] = KEPT
) -> Iterator[bytes]:
    """The records of a run and stream as they came, one after the other; no samples."""
    for uri in found.files:
        key = uri.removeprefix(f"{storage.uri().rstrip('/')}/")
        if _kind(key) in kinds:
            for line in _lines(storage, key):
                if line["stream"] == found.stream:
                    yield _raw(line)


def _summed(
    config: DestinationConfig,
    storage: Storage,
    run_id: str,
    stream: str,
    kinds: Counter[tuple[str, RejectedKind, str, str]],
) -> SetAside:
    """Sum up the lines of a run and stream, counted by file, what it holds, column and reason."""
    reasons, of_kind = Counter[tuple[str, str]](), Counter[RejectedKind]()
    for (_, of, column, reason), count in kinds.items():
        of_kind[of] += count
        if of is not RejectedKind.SAMPLES:
            reasons[column, reason] += count
    return SetAside(
        run_id,
        stream,
        table_name(config.table_pattern, stream) if stream else "",
        records=reasons.total(),
        samples=of_kind[RejectedKind.SAMPLES],
        reasons=tuple(Rejection(stream, *kind, count) for kind, count in reasons.most_common()),
        files=tuple(dict.fromkeys(storage.uri(key) for key, *_ in kinds)),
        expectations=tuple(
            dict.fromkeys(why for _, of, _, why in kinds if of is RejectedKind.ROWS)
        ),
        rows=of_kind[RejectedKind.ROWS],
    )


def _names(config: DestinationConfig, stream: str) -> set[str]:
    return {stream, table_name(config.table_pattern, stream)} if stream else set()


def _files(storage: Storage, run: str) -> Iterator[tuple[str, str, RejectedKind]]:
    """Quarantine files with their runs, and what each holds."""
    for stored in storage.list(QUARANTINE):
        parts = stored.key.removeprefix(f"{QUARANTINE}/").split("/")
        if len(parts) != 2 or not parts[1].endswith(".jsonl"):
            continue
        first = next(_lines(storage, stored.key), {})
        run_id = str(first.get("run_id") or unquote(parts[0]))
        if not run or run == run_id:
            yield stored.key, run_id, _kind(stored.key)


def _kind(key: str) -> RejectedKind:
    name = key.rpartition("/")[2].removesuffix(".jsonl")
    base = name.rpartition("-")[0] if name.rpartition("-")[2].isdecimal() else name
    return next((of for of in _ENDINGS if base.endswith(of.value)), RejectedKind.RECORDS)


def _lines(storage: Storage, key: str) -> Iterator[dict[str, Any]]:
    """The lines of a quarantine file; what is none of ours is passed over."""
    with storage.open(key) as file:
        for line in file:
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and isinstance(found.get("stream"), str):
                yield found


def _raw(line: dict[str, Any]) -> bytes:
    if "raw" in line:
        return str(line["raw"]).encode("utf-8", "surrogatepass")
    return base64.b64decode(str(line.get("raw_base64", "")))


@dataclass(frozen=True, slots=True)
class Share:
    """Some of a run's records.

    Attributes:
        run_id: the run as which the table remembers that they have landed.
        records: how many they are.
        kinds: which files they are in.
        transforms: what is made of them: `sql` and `python` of `lakeport.land`.
        schema: with what types they are read for that; None where their values tell.
    """

    run_id: str
    records: int
    kinds: frozenset[RejectedKind] = KEPT
    transforms: Mapping[str, Any] = field(default_factory=dict)
    schema: str | Mapping[str, Any] | None = None


def plan_shares(one: SetAside, load: Load | None, *, edited: bool) -> list[Share]:
    """How a run's records land.

    Args:
        one: the records.
        load: makes rows of its source's records; None where it makes none, or the user says how.
        edited: whether a file of the user's stands for all of them.

    Raises:
        ConfigError: the file stands for records and rows, or `python` is not there.
    """
    run_id, raw = f"replay:{one.run_id}", one.records - one.rows
    if load is None or not (load.sql or load.python) or not raw:
        return [Share(run_id, one.records)]
    function = load.python and function_named(load.python, Path(load.folder))
    transforms = {"sql": load.sql, "python": function}
    source = load.source
    schema = source.columns_schema if isinstance(source, FilesSource) else None
    if not one.rows:
        return [Share(run_id, raw, KEPT, transforms, schema)]
    if edited:
        raise ConfigError(
            f"run {one.run_id!r} has set aside {raw} records as they came, and {one.rows} rows "
            "that `sql` or `python` has made: the file could stand for either",
            "say what is made of it: `--sql 'SELECT * FROM source'` where it has rows of the "
            "table, or the load's own query.",
        )
    return [
        Share(f"{run_id}:records", raw, KEPT - {RejectedKind.ROWS}, transforms, schema),
        Share(run_id, one.rows, frozenset({RejectedKind.ROWS})),
    ]


def load_settings(
    to: Target | DestinationConfig,
    one: SetAside,
    expect: Sequence[Mapping[str, Any] | Expectation] | None,
    keys: Mapping[str, Any],
) -> tuple[DestinationConfig, Sequence[Mapping[str, Any] | Expectation], Load | None]:
    """How the records of a run land: the target's config, what is expected of each row, the load.

    In a lake's file, these are the load's that writes the stream's table: one that merges by key
    would otherwise have its rows appended.

    Args:
        to: as for `load_target`.
        one: the records.
        expect: what is expected in place of that; None for that.
        keys: keys that win.

    Raises:
        ConfigError: as for `load_target`; also where loads write the table in different ways, or
            nothing says what was expected of rows that were set aside for that.
    """
    found = _loads(to, one.stream)
    ways = {(each.target.mode, tuple(each.target.merge_keys or ())) for each in found}
    if len(ways) > 1 and not keys.get("mode"):
        raise ConfigError(
            f"loads of the file write table {one.stream!r} in different ways",
            "say how the records land, such as `--set mode=append`.",
        )
    target = load_target(found[0].target if found else to, keys)
    names = set(one.expectations)
    named = (load for load in found if names <= {each.title for each in load.expect})
    load = next(named, found[0] if found else None)
    if expect is not None:
        return target, expect, load
    if one.expectations and not found:
        raise ConfigError(
            f"run {one.run_id!r} has set rows of {one.stream!r} aside that did not meet "
            f"{', '.join(one.expectations)}, and nothing says what is expected of them now",
            "give `--expect` (`expect`) once more, or `--no-expect` (`expect=[]`) to land them as "
            "they are; a lake's file in the target's place says it, too.",
        )
    own = load.expect if load is not None else ()
    return target, [each for each in own if not (each.rows or each.fresh)], load


def _loads(to: Target | DestinationConfig, stream: str) -> list[Load]:
    """The loads that write the stream's table, if this is a lake's file."""
    if not isinstance(to, (str, os.PathLike)) or Path(to).suffix.lower() not in _SUFFIXES:
        return []
    if not Path(to).is_file() or "loads" not in parse_text(read_text(Path(to)), str(to)):
        return []
    loads = [*read_lake(to).loads.values()]
    fixed = [load for load in loads if load.target.table_pattern == stream]
    open_ = [load for load in loads if "{stream}" in (load.target.table_pattern or "{stream}")]
    return fixed or open_


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of the records that a run had set aside.

    Attributes:
        run_id: that run.
        records: how many they are.
        before: they were replayed before, and were left alone.
        report: of the load that has landed them; None where they were left alone.
    """

    run_id: str
    records: int
    before: bool = False
    report: LandingReport | None = None

    @property
    def rows(self) -> int:
        """Rows that have landed now."""
        return 0 if self.report is None else self.report.rows

    @property
    def rejected(self) -> int:
        """Records that fail again: set aside anew, as of the run `replay:` and the run's id."""
        return 0 if self.report is None else self.report.rejected

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        names = ("run_id", "records", "before", "rows", "rejected")
        facts = {name: getattr(self, name) for name in names}
        return {**facts, "report": None if self.report is None else self.report.to_dict()}


def replay(
    to: Target | DestinationConfig,
    table: str,
    *,
    run: str = "",
    sql: str = "",
    python: str | Callable[[DataFrame], DataFrame] = "",
    records_from: str | Path = "",
    expect: Sequence[Mapping[str, Any] | Expectation] | None = None,
    observer: Observer | None = None,
    **keys: Unpack[StoreKeys],
) -> tuple[Replayed, ...]:
    """Land what was set aside of a table, each run's records once however often it is asked for.

    The table's commit remembers it as the run `replay:` and the run's id. What fails again is set
    aside as of that run, with its new reason.

    Args:
        to: a folder, a URI, a config file, or the config itself; of a lake's file, the table's load
            tells how its records land.
        table: the table, by its name or its stream's.
        run: the run whose records are landed; empty for all.
        sql: makes the records right: one query in Spark SQL on `source`, in which they have the
            types that their values show; what it gives is cast to the table's types.
        python: as for `lakeport.land`. Without both, what a load of a lake's file makes of its
            records is made of those that were set aside before that.
        records_from: a file of JSON lines with the corrected records of `run`, in place of those
            that were set aside.
        expect: what is expected of the rows, none for nothing. None: of a lake's file, what the
            load expects of each row; else it has to be given for rows that an expectation has set
            aside.
        observer: is told how the loads go on.
        keys: keys of the config, which win over those in `to`.

    Raises:
        SourceError: nothing was set aside, or the run is to be named.
        ConfigError: nothing says what is expected of such rows.
        InputError: the records are no JSON, as the lines of a CSV file are.
        LakeportError: as for `lakeport.land`.
    """
    config = load_target(to, keys)
    storage = open_storage(config)
    found = [one for one in set_aside(config, storage, table, run) if one.records]
    if not found:
        of_run = f" by run {run!r}" if run else ""
        shown = format_command("quarantine", "show", to if isinstance(to, str) else storage.uri())
        raise SourceError(
            f"nothing was set aside of table {table!r}{of_run}",
            f"{shown} lists what was.",
        )
    if records_from and len(found) > 1:
        runs = ", ".join(repr(one.run_id) for one in found)
        raise SourceError(f"table {table!r} has records of the runs {runs}", "name one: `run`.")
    given = {"sql": sql, "python": python}
    planned = []
    for one in found:
        target, expected, load = load_settings(to, one, expect, keys)
        made_by = None if sql or python else load
        for share in plan_shares(one, made_by, edited=bool(records_from)):
            planned.append((one, share, target, {**given, **share.transforms, "expect": expected}))
    done = []
    for one, share, target, asked in planned:
        edited = Path(records_from) if records_from else None
        lines = _edited(edited) if edited else records(storage, one, share.kinds)
        done.append(_replayed(one, share, lines, target, {**asked, "observer": observer}))
    return tuple(done)


def _replayed(
    one: SetAside,
    share: Share,
    lines: Iterator[bytes],
    config: DestinationConfig,
    transforms: Mapping[str, Any],
) -> Replayed:
    """Land one run's records, or a share of them."""
    with scratch("replay") as folder:
        source = folder / "records.jsonl"
        names = _write(source, lines)
        if names is None:
            raise InputError(
                f"what run {one.run_id!r} has set aside of {one.stream!r} are no JSON records",
                "as lines of a CSV file they don't tell their columns: write the corrected ones "
                "as JSON lines into a file, and give it with `--from`.",
            )
        asked = {
            "on_bad_record": "quarantine",
            "mode": Mode.APPEND if config.mode is Mode.OVERWRITE else config.mode,
            "run_id": share.run_id,
            "table": table_name(config.table_pattern, one.stream),
            "add_record_metadata": False,  # the messages of the records are gone
        }
        target = load_target(config, asked)
        now = _columns(target, one.stream)
        schema = share.schema
        if not (transforms["sql"] or transforms["python"]):
            schema = None
            if now is not None:
                schema = json_schema(_by_source(now, names, target))
                target = target.model_copy(update=_by_table(now, names, target))
        elif not transforms["python"]:
            known = pa.schema(column for column in now or () if not has_untyped(column.type))
            transforms = {**transforms, "python": lambda frame: cast_to(frame, known)}
        try:
            report = land(source, target, source_format="jsonl", schema=schema, **transforms)
        except RunMismatch:
            return Replayed(one.run_id, share.records, before=True)
    before = bool(report.streams) and all(s.skipped_batches for s in report.streams)
    return Replayed(one.run_id, share.records, before, None if before else report)


def _by_source(
    table: pa.Schema, names: Iterable[str], config: DestinationConfig
) -> Iterator[pa.Field]:
    """Yield a table's columns by the names that records have for them, with types to read by.

    Args:
        table: the columns.
        names: the names of the records' fields.
        config: renames and drops fields, and declares some; what is text by that, or dropped, may
            be of any type in the records.
    """
    there = {column.name.lower(): column for column in table}
    for name in dict.fromkeys([*names, *config.rename, *config.drop]):
        column = there.get(config.rename.get(name, name).lower())
        made_text = column and name in config.columns and pa.types.is_string(column.type)
        if name in config.drop or made_text:
            yield pa.field(name, pa.json_())
        elif column is not None and not has_untyped(column.type):
            yield column.with_name(name)


def _by_table(table: pa.Schema, names: Iterable[str], config: DestinationConfig) -> dict[str, Any]:
    """Return the keys of the config by which records land with the types of a table's columns.

    Columns that never had a value have none: fields for them are not declared, and known still.
    """
    there = {column.name.lower() for column in table}
    unknown = [name for name in names if config.rename.get(name, name).lower() not in there]
    keys: dict[str, Any] = {"columns": {}}
    if config.unknown_fields is UnknownPolicy.DROP or not unknown:
        keys |= {"unknown_fields": UnknownPolicy.EVOLVE, "drop": [*config.drop, *unknown]}
    return keys


def _write(file: Path, lines: Iterator[bytes]) -> dict[str, None] | None:
    """Write records as JSON lines, and what is no JSON as it came.

    Returns:
        The names of the records' fields; None where no line is a record.
    """
    names: dict[str, None] | None = None
    with file.open("wb") as out:
        for line in lines:
            record, fields = _record(line)
            if fields is not None:
                names = {**(names or {}), **dict.fromkeys(fields)}
            out.write(record.replace(b"\n", b" ") + b"\n")
    return names


def _record(line: bytes) -> tuple[bytes, Iterable[str] | None]:
    """Return a record without its Singer message, and its fields; None for what is no object."""
    try:
        found = json.loads(line)
    except ValueError:
        return line, None
    if not isinstance(found, dict):
        return line, None
    if found.get("type") == "RECORD" and isinstance(found.get("record"), dict):
        message = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        return bytes(message["record"]), found["record"]  # with its numbers as they are written
    return line, found


def _edited(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as lines:
            yield from (line.rstrip(b"\r\n") for line in lines if line.strip())
    except OSError as error:
        raise SourceError(f"file {str(file)!r}: {error.strerror}", "check its name.") from None


def _columns(config: DestinationConfig, stream: str) -> pa.Schema | None:
    """The table's columns, without those that lakeport adds; None where there is no table."""
    prepared = prepare(config, begin=False)
    with prepared.engine as engine:
        table = open_table(config, prepared.storage, engine, stream, writes=False).current()
    if table is None:
        return None
    own = list_internal_columns(config.internal_columns_prefix if config.internal_columns else None)
    return pa.schema(field for field in table.schema if field.name.lower() not in own)
