"""Quarantined records: list them, and land them once they are right.

In a lake file, the load that has quarantined records says how they land.
"""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from lakeport.config.files import parse_text, read_text
from lakeport.config.lake import read_lake
from lakeport.config.load import load_target
from lakeport.config.sources import FilesSource
from lakeport.destinations import open_storage, open_table
from lakeport.engine.sql.frames import cast_frame
from lakeport.errors import ConfigError, InputError, LakeportError, RunMismatch, SourceError
from lakeport.host.scratch import scratch_folder
from lakeport.lake.records import PlainRecord
from lakeport.loading.batches import Policies
from lakeport.loading.corrections import (
    RejectedRecord,
    correct_record,
    read_corrections,
    write_corrections,
)
from lakeport.loading.prepare import prepare
from lakeport.loading.quarantine import RejectedKind
from lakeport.loading.run import land
from lakeport.loading.transform.function import import_transform
from lakeport.model import Mode, Rejection, UnknownPolicy
from lakeport.schema.hints import format_command
from lakeport.schema.nested import has_untyped, is_json
from lakeport.shape import list_internal_columns
from lakeport.writers.naming import QUARANTINE, replayed_key, table_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.config.base import DestinationConfig
    from lakeport.config.expectations import Expectation
    from lakeport.config.keys import StoreKeys, Target
    from lakeport.config.lake import Load
    from lakeport.loading.report import LandingReport, Observer
    from lakeport.model import Storage


FindColumn = Callable[[str], "pa.Field | None"]
"""Returns the table's column for a field of a record; None where there is none."""

_JSON_TYPES: Final[dict[Any, dict[str, Any]]] = {
    pa.string(): {"type": ["null", "string"]},
    pa.bool_(): {"type": ["null", "boolean"]},
    pa.float32(): {"type": ["null", "number"]},
    pa.float64(): {"type": ["null", "number"]},
    pa.date32(): {"type": ["null", "string"], "format": "date"},
    pa.timestamp("us", "UTC"): {"type": ["null", "string"], "format": "date-time"},
    pa.binary(): {"type": ["null", "string"], "contentEncoding": "base64"},
}

COMPLETE_KINDS: Final = frozenset(RejectedKind) - {RejectedKind.SAMPLES}
"""Kinds of quarantine files that hold all rejected records, not samples."""

_MARKED_KINDS: Final = (RejectedKind.LINES, RejectedKind.ROWS, RejectedKind.SAMPLES)

_LAKE_FILE_SUFFIXES: Final = (".yaml", ".yml", ".json")


def to_json_schema(fields: Iterable[pa.Field]) -> dict[str, Any]:
    """Convert Arrow fields to a JSON schema of records; skip types that JSON schema lacks.

    >>> to_json_schema(pa.schema([("n", pa.int64()), ("v", pa.json_())]))
    {'type': 'object', 'properties': {'n': {'type': ['null', 'integer']}, 'v': {}}}
    """
    found = {field.name: _to_json_type(field) for field in fields}
    properties = {name: declared for name, declared in found.items() if declared is not None}
    return {"type": "object", "properties": properties}


def _to_json_type(field: pa.Field) -> dict[str, Any] | None:
    """Convert an Arrow field to its JSON schema; None if JSON schema lacks the type."""
    type_ = field.type
    if is_json(field):
        return {}
    if type_ in _JSON_TYPES:
        return _JSON_TYPES[type_]
    if pa.types.is_integer(type_):
        return {"type": ["null", "integer"]}
    if pa.types.is_decimal(type_):
        size = {"x-precision": type_.precision, "x-scale": type_.scale}
        return {"type": ["null", "number"], **size}
    if pa.types.is_struct(type_):
        return {**to_json_schema(type_), "type": ["null", "object"]}
    if pa.types.is_list(type_):
        item = type_.value_field  # texts may be mixed, see `Kind.MIXED`
        items = None if pa.types.is_string(item.type) else _to_json_type(item)
        return {"type": ["null", "array"], **({} if items is None else {"items": items})}
    return None


@dataclass(frozen=True, slots=True)
class SetAside(PlainRecord):
    """Summary of one stream's records that one run has quarantined: counts, reasons, files.

    Attributes:
        run_id: the run.
        stream: the stream's name; empty for lines that belong to none.
        table: the name of the stream's table.
        records: number of records; samples of rows for which a load has failed don't count.
        samples: number of rows that were kept as samples of a load that has failed.
        reasons: why they were rejected, the most frequent reason first.
        files: URIs of the files.
        expectations: the names of the expectations that rows among the records violate.
        rows: how many of the records are such rows; the others are as the source had them, before
            `sql`.
        replayed: whether a replay has taken them; what failed again is listed as of that replay.
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
    replayed: bool = False


def quarantined(
    to: Target | DestinationConfig | None = None,
    table: str = "",
    *,
    run: str = "",
    **keys: Unpack[StoreKeys],
) -> tuple[SetAside, ...]:
    """Summarise quarantined records by run and stream; reads every quarantine file.

    Args:
        to: a folder, a URI, a config file, or the config itself.
        table: only records of this table, by its name or its stream's; empty for all.
        run: only records of this run; empty for all.
        keys: keys of the config, which win over those in `to`.

    Raises:
        LakeportError: the store can't be read.
    """
    config = load_target(to, keys)
    return list_quarantined(config, open_storage(config), table, run)


def list_quarantined(
    config: DestinationConfig, storage: Storage, table: str, run: str
) -> tuple[SetAside, ...]:
    """Summarise quarantined records by run and stream; an empty `table` or `run` means all."""
    found: dict[tuple[str, str], Counter[tuple[str, RejectedKind, str, str]]] = {}
    keys = dict.fromkeys(stored.key for stored in storage.list(QUARANTINE))
    for key, run_id, of in _filter_files(storage, keys, run):
        for line in _read_lines(storage, key):
            stream = line["stream"]
            if not table or table in _names_of_stream(config, stream):
                kind = key, of, str(line.get("column", "")), str(line.get("reason", ""))
                found.setdefault((run_id, stream), Counter())[kind] += 1
    return tuple(
        replace(
            _summarise(config, storage, run_id, stream, kinds),
            replayed=replayed_key(run_id, stream) in keys,
        )
        for (run_id, stream), kinds in sorted(found.items())
    )


def read_records(
    storage: Storage, rejected: SetAside, kinds: Collection[RejectedKind] = COMPLETE_KINDS
) -> Iterator[RejectedRecord]:
    """Yield a stream's quarantined records of one run, from files of these kinds."""
    numbers = count(1)
    for uri in rejected.files:
        key = uri.removeprefix(f"{storage.uri().rstrip('/')}/")
        kind = _kind_of_file(key)
        for line in _read_lines(storage, key) if kind in COMPLETE_KINDS else ():
            if line["stream"] == rejected.stream:
                number = next(numbers)  # whatever the kinds
                if kind in kinds:
                    yield _parse_record(number, line)


def export_quarantined(
    to: Target | DestinationConfig,
    table: str,
    file: str | Path,
    *,
    run: str = "",
    **keys: Unpack[StoreKeys],
) -> int:
    """Write a table's quarantined records with their reasons to a CSV file; return their number.

    Once its cells are corrected, `replay(records_from=file)` lands them. Records that a replay has
    taken are left out, unless `run` names their run.

    Args:
        to: a folder, a URI, a config file, or the config itself.
        table: the table, by its name or its stream's.
        file: a new file, which only its owner may read.
        run: only records of this run; empty for all.
        keys: keys of the config, which win over those in `to`.

    Raises:
        SourceError: nothing was quarantined, all of it was replayed, or the file can't be written.
        ConfigError: the file exists.
    """
    config = load_target(to, keys)
    storage = open_storage(config)
    found = _find_rejected(to, config, storage, table, run)
    runs = ", ".join(rejected.run_id for rejected in found)
    found = [rejected for rejected in found if run or not rejected.replayed]
    if not found:
        raise SourceError(
            f"all records that were set aside of table {table!r} were replayed",
            f"`--run` (`run`) exports those of a run all the same: {runs}.",
        )
    records = (
        (rejected.run_id, record)
        for rejected in found
        for record in read_records(storage, rejected)
    )
    return write_corrections(Path(file), records)


def _find_rejected(
    to: object, config: DestinationConfig, storage: Storage, table: str, run: str
) -> list[SetAside]:
    """Return summaries of a table's records by run; SourceError if it has none."""
    found = [one for one in list_quarantined(config, storage, table, run) if one.records]
    if found:
        return found
    of_run = f" by run {run!r}" if run else ""
    shown = format_command("quarantine", "show", to if isinstance(to, str) else storage.uri())
    raise SourceError(
        f"nothing was set aside of table {table!r}{of_run}", f"{shown} lists what was."
    )


def _summarise(
    config: DestinationConfig,
    storage: Storage,
    run_id: str,
    stream: str,
    counts: Counter[tuple[str, RejectedKind, str, str]],
) -> SetAside:
    """Build one stream's summary; `counts` are records by key, kind, column and reason."""
    reasons, of_kind = Counter[tuple[str, str]](), Counter[RejectedKind]()
    for (_, of, column, reason), number in counts.items():
        of_kind[of] += number
        if of is not RejectedKind.SAMPLES:
            reasons[column, reason] += number
    return SetAside(
        run_id,
        stream,
        table_name(config.table_pattern, stream) if stream else "",
        records=reasons.total(),
        samples=of_kind[RejectedKind.SAMPLES],
        reasons=tuple(Rejection(stream, *kind, number) for kind, number in reasons.most_common()),
        files=tuple(dict.fromkeys(storage.uri(key) for key, *_ in counts)),
        expectations=tuple(
            dict.fromkeys(why for _, of, _, why in counts if of is RejectedKind.ROWS)
        ),
        rows=of_kind[RejectedKind.ROWS],
    )


def _names_of_stream(config: DestinationConfig, stream: str) -> set[str]:
    """Return the names of a stream and its table; nothing for lines without a stream."""
    return {stream, table_name(config.table_pattern, stream)} if stream else set()


def _filter_files(
    storage: Storage, keys: Iterable[str], run: str
) -> Iterator[tuple[str, str, RejectedKind]]:
    """Yield (key, run ID, kind) of a run's quarantine files; of all runs if `run` is empty."""
    for key in keys:
        parts = key.removeprefix(f"{QUARANTINE}/").split("/")
        if len(parts) != 2 or not parts[1].endswith(".jsonl"):
            continue
        first = next(_read_lines(storage, key), {})
        run_id = str(first.get("run_id") or unquote(parts[0]))
        if not run or run == run_id:
            yield key, run_id, _kind_of_file(key)


def _kind_of_file(key: str) -> RejectedKind:
    """Return the kind of rejected records in a quarantine file, by the suffix of its name."""
    name = key.rpartition("/")[2].removesuffix(".jsonl")
    base = name.rpartition("-")[0] if name.rpartition("-")[2].isdecimal() else name
    return next((of for of in _MARKED_KINDS if base.endswith(of.value)), RejectedKind.RECORDS)


def _read_lines(storage: Storage, key: str) -> Iterator[dict[str, Any]]:
    """Yield the parsed lines of a quarantine file; skip lines that lakeport did not write."""
    with storage.open(key) as file:
        for line in file:
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and isinstance(found.get("stream"), str):
                yield found


def _parse_record(number: int, line: dict[str, Any]) -> RejectedRecord:
    """Parse a quarantine file's line; its bytes are in `raw` or `raw_base64`."""
    if "raw" in line:
        raw = str(line["raw"]).encode("utf-8", "surrogatepass")
    else:
        raw = base64.b64decode(str(line.get("raw_base64", "")))
    column, reason = str(line.get("column", "")), str(line.get("reason", ""))
    return RejectedRecord(
        number, int(line.get("line", 0)), column, reason, raw, line.get("texts", {})
    )


@dataclass(frozen=True, slots=True)
class ReplayPart:
    """Quarantined records that one load lands: all of a run, only raw records, or only rows.

    Attributes:
        run_id: the run id of their commit, by which they land once.
        kinds: kinds of the files that hold them.
        transforms: their transform, as `sql` and `python` of `lakeport.land`.
        schema: the types that they are read with; None: types are inferred from the values.
    """

    run_id: str
    records: int
    kinds: frozenset[RejectedKind] = COMPLETE_KINDS
    transforms: Mapping[str, Any] = field(default_factory=dict)
    schema: str | Mapping[str, Any] | None = None


def plan_parts(rejected: SetAside, load: Load | None, *, edited: bool) -> list[ReplayPart]:
    """Split a run's records into one load, or two: raw records with the transform, then rows.

    Args:
        load: the load whose transform they take; None for none, or if the user gives one.
        edited: whether a file of the user's stands for all of them.

    Raises:
        ConfigError: the file stands for both records and rows, or `python` does not exist.
    """
    run_id, raw = f"replay:{rejected.run_id}", rejected.records - rejected.rows
    if load is None or not (load.sql or load.python) or not raw:
        return [ReplayPart(run_id, rejected.records)]
    transforms = {"sql": load.sql, "python": import_transform(load)}
    source = load.source
    schema = source.columns_schema if isinstance(source, FilesSource) else None
    if not rejected.rows:
        return [ReplayPart(run_id, raw, COMPLETE_KINDS, transforms, schema)]
    if edited:
        raise ConfigError(
            f"run {rejected.run_id!r} has set aside {raw} records as they came, and "
            f"{rejected.rows} rows that `sql` or `python` has made: the file could stand for "
            "either",
            "say what is made of it: `--sql 'SELECT * FROM source'` where it has rows of the "
            "table, or the load's own query.",
        )
    return [
        ReplayPart(
            f"{run_id}:records", raw, COMPLETE_KINDS - {RejectedKind.ROWS}, transforms, schema
        ),
        ReplayPart(run_id, rejected.rows, frozenset({RejectedKind.ROWS})),
    ]


def choose_settings(
    to: Target | DestinationConfig,
    rejected: SetAside,
    expect: Sequence[Mapping[str, Any] | Expectation] | None,
    keys: Mapping[str, Any],
) -> tuple[DestinationConfig, Sequence[Mapping[str, Any] | Expectation], Load | None]:
    """Return config, expectations, and a lake file's load or None, to replay records with.

    In a lake file, they land as by the load that writes the stream's table. A load that merges by
    key would otherwise have its rows appended.

    Args:
        expect: expectations in place of the load's; None: the load's.
        keys: keys of the config that win.

    Raises:
        ConfigError: as for `load_target`; loads write the table in different ways; or rows violated
            expectations that neither a load nor the user gives.
    """
    loads = _find_loads(to, rejected.stream)
    ways = {(each.target.mode, tuple(each.target.merge_keys or ())) for each in loads}
    if len(ways) > 1 and not keys.get("mode"):
        raise ConfigError(
            f"loads of the file write table {rejected.stream!r} in different ways",
            "say how the records land, such as `--set mode=append`.",
        )
    target = load_target(loads[0].target if loads else to, keys)
    names = set(rejected.expectations)
    named = (load for load in loads if names <= {each.title for each in load.expect})
    load = next(named, loads[0] if loads else None)
    if expect is not None:
        return target, expect, load
    if rejected.expectations and not loads:
        raise ConfigError(
            f"run {rejected.run_id!r} has set rows of {rejected.stream!r} aside that did not meet "
            f"{', '.join(rejected.expectations)}, and nothing says what is expected of them now",
            "give `--expect` (`expect`) once more, or `--no-expect` (`expect=[]`) to land them as "
            "they are; a lake's file in the target's place says it, too.",
        )
    own = load.expect if load is not None else ()
    return target, [each for each in own if not (each.rows or each.fresh)], load


def _find_loads(to: Target | DestinationConfig, stream: str) -> list[Load]:
    """Return the loads of a lake file that may write a stream's table; none for other targets."""
    if not isinstance(to, (str, os.PathLike)) or Path(to).suffix.lower() not in _LAKE_FILE_SUFFIXES:
        return []
    if not Path(to).is_file() or "loads" not in parse_text(read_text(Path(to)), str(to)):
        return []
    loads = [*read_lake(to).loads.values()]
    fixed = [load for load in loads if load.target.table_pattern == stream]
    open_ = [load for load in loads if "{stream}" in (load.target.table_pattern or "{stream}")]
    return fixed or open_


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of landing one run's quarantined records again.

    Attributes:
        run_id: that run.
        records: number of these records.
        before: whether they were replayed before, so that nothing was done now.
        report: the report of the load that has landed them; None where nothing was done.
    """

    run_id: str
    records: int
    before: bool = False
    report: LandingReport | None = None

    @property
    def rows(self) -> int:
        """Number of rows that have landed now."""
        return 0 if self.report is None else self.report.rows

    @property
    def rejected(self) -> int:
        """Number of records that were rejected again, as of the run `replay:` and the run's id."""
        return 0 if self.report is None else self.report.rejected

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dict of JSON values, with the load's report."""
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
    """Land a table's quarantined records, each once; SourceError if there are none.

    The table's commit remembers them as the run `replay:` and the run's id, so that another replay
    adds nothing. What fails again is quarantined as of that run, with its new reason.

    Args:
        to: a folder, a URI, a config file, or the config itself. In a lake file, the table's load
            says how its records land.
        table: the table, by its name or its stream's.
        run: the run whose records are landed; empty for all.
        sql: one query in Spark SQL on `source` that corrects the records. There they have the types
            that their values show; the result is cast to the table's types.
        python: as for `lakeport.land`. Without `sql` and `python`, records that were quarantined
            before a load's transform take the transform of the lake file's load.
        records_from: a file with corrected records, in place of the quarantined ones: a CSV file
            of `export`, or JSON lines, which stand for all records of `run`. A record whose line
            was deleted from a CSV file is not landed, and counts as replayed with the others.
        expect: expectations of the rows; empty for none. None: in a lake file, the load's on single
            rows; elsewhere they are required for rows that violated an expectation.
        observer: hears how the loads go on.
        keys: keys of the config, which win over those in `to`.

    Raises:
        SourceError: nothing was quarantined, or a run has to be named.
        ConfigError: `expect` is required.
        InputError: the records are no JSON, such as lines of a CSV file.
        LakeportError: as for `lakeport.land`.
    """
    config = load_target(to, keys)
    storage = open_storage(config)
    found = _find_rejected(to, config, storage, table, run)
    is_csv = Path(records_from).suffix.lower() == ".csv"
    corrected = read_corrections(Path(records_from)) if is_csv else None
    edited = None if is_csv or not records_from else Path(records_from)
    if corrected is not None:
        _check_corrected(corrected, found, table)
        found = [rejected for rejected in found if rejected.run_id in corrected]
    if edited and len(found) > 1:
        runs = ", ".join(repr(rejected.run_id) for rejected in found)
        raise SourceError(f"table {table!r} has records of the runs {runs}", "name one: `run`.")
    given = {"sql": sql, "python": python}
    planned = []
    for rejected in found:
        target, expected, load = choose_settings(to, rejected, expect, keys)
        transformed_by = None if sql or python else load
        for part in plan_parts(rejected, transformed_by, edited=bool(edited)):
            planned.append(
                (rejected, part, target, {**given, **part.transforms, "expect": expected})
            )
    results = []
    for rejected, part, target, settings in planned:
        make_lines = partial(_iterate_lines, storage, rejected, part.kinds, None)
        if edited:
            make_lines = partial(_read_corrected, edited)
        elif corrected is not None:
            cells = corrected[rejected.run_id]
            make_lines = partial(_iterate_lines, storage, rejected, part.kinds, cells)
            records = read_records(storage, rejected, part.kinds)
            part = replace(part, records=sum(record.number in cells for record in records))
        if part.records:
            settings["observer"] = observer
            results.append(_replay_part(rejected, part, make_lines, target, settings))
    for rejected in found:
        with suppress(LakeportError):  # a mark for `show` and `export`; the table's commit decides
            storage.put(replayed_key(rejected.run_id, rejected.stream), b"")
    return tuple(results)


def _iterate_lines(
    storage: Storage,
    rejected: SetAside,
    kinds: Collection[RejectedKind],
    corrected: Mapping[int, Mapping[str, str]] | None,
    find_column: FindColumn,
) -> Iterator[bytes]:
    """Yield records as lines of JSON: those in `corrected`, with its cells; if None all, as is."""
    for record in read_records(storage, rejected, kinds):
        if corrected is None:
            yield correct_record(record, None, find_column)
        elif record.number in corrected:
            yield correct_record(record, corrected[record.number], find_column)


def _check_corrected(
    corrected: Mapping[str, Mapping[int, object]], found: Sequence[SetAside], table: str
) -> None:
    """Raise InputError if a CSV file names runs or records that a table's quarantine lacks."""
    known = {rejected.run_id: rejected.records for rejected in found}
    for run, numbers in corrected.items():
        strange = [number for number in numbers if not 0 < number <= known.get(run, 0)]
        if strange or not numbers:
            raise InputError(
                f"run {run!r} has set aside no record {strange[0]} of table {table!r}",
                "give the file to the table that it was exported for, with _run and _record as "
                "they were.",
            )


def _replay_part(
    rejected: SetAside,
    part: ReplayPart,
    make_lines: Callable[[FindColumn], Iterator[bytes]],
    config: DestinationConfig,
    transforms: Mapping[str, Any],
) -> Replayed:
    """Land one part of a run's records as JSON lines; do nothing if they have landed before.

    `make_lines` takes a function that finds a field's column. Records that are no JSON raise
    InputError.
    """
    with scratch_folder("replay") as folder:
        overrides = {
            "on_bad_record": "quarantine",
            "mode": Mode.APPEND if config.mode is Mode.OVERWRITE else config.mode,
            "run_id": part.run_id,
            "table": table_name(config.table_pattern, rejected.stream),
            "add_record_metadata": False,  # the messages of the records are gone
        }
        target = load_target(config, overrides)
        now = _table_columns(target, rejected.stream)
        source = folder / "records.jsonl"
        by_query = bool(transforms["sql"] or transforms["python"])
        names = _write_records(source, make_lines(_make_finder(None if by_query else now, target)))
        if names is None:
            raise InputError(
                f"what run {rejected.run_id!r} has set aside of {rejected.stream!r} are no JSON "
                "records",
                "`lakeport quarantine export` writes them into a CSV file: correct them there, or "
                "write them as JSON lines into a file, and give it with `--from`.",
            )
        schema = part.schema
        if not by_query:
            schema = None
            if now is not None:
                schema = to_json_schema(_source_fields(now, names, target))
                target = target.model_copy(update=_table_keys(now, names, target))
        elif not transforms["python"]:
            known = pa.schema(column for column in now or () if not has_untyped(column.type))
            transforms = {**transforms, "python": lambda frame: cast_frame(frame, known)}
        try:
            report = land(source, target, source_format="jsonl", schema=schema, **transforms)
        except RunMismatch:
            return Replayed(rejected.run_id, part.records, before=True)
    before = bool(report.streams) and all(s.skipped_batches for s in report.streams)
    return Replayed(rejected.run_id, part.records, before, None if before else report)


def _make_finder(table: pa.Schema | None, config: DestinationConfig) -> FindColumn:
    """Return a function that returns the table's column for a record's field; None for none."""
    there = {column.name.lower(): column for column in table or ()}
    table_column = Policies(config).name_in_table
    return lambda name: there.get(table_column(name).lower())


def _source_fields(
    table: pa.Schema, names: Iterable[str], config: DestinationConfig
) -> Iterator[pa.Field]:
    """Yield the records' fields with their table columns' types; skip fields without a column.

    A field that the config drops, or declares as text, may have any type in the records.
    """
    there = {column.name.lower(): column for column in table}
    table_column = Policies(config).name_in_table
    for name in dict.fromkeys([*names, *config.rename, *config.drop]):
        column = there.get(table_column(name).lower())
        made_text = column and name in config.columns and pa.types.is_string(column.type)
        if name in config.drop or made_text:
            yield pa.field(name, pa.json_())
        elif column is not None and not has_untyped(column.type):
            yield column.with_name(name)


def _table_keys(
    table: pa.Schema, names: Iterable[str], config: DestinationConfig
) -> dict[str, Any]:
    """Return config keys for reading records with the table's types; may drop unknown fields.

    Fields for columns that never had a value have no type to declare, and yet are not unknown.
    """
    there = {column.name.lower() for column in table}
    table_column = Policies(config).name_in_table
    unknown = [name for name in names if table_column(name).lower() not in there]
    keys: dict[str, Any] = {"columns": {}}
    if config.unknown_fields is UnknownPolicy.DROP or not unknown:
        keys |= {"unknown_fields": UnknownPolicy.EVOLVE, "drop": [*config.drop, *unknown]}
    return keys


def _write_records(file: Path, lines: Iterator[bytes]) -> dict[str, None] | None:
    """Write a file of JSON lines for a replay; return field names, None if no line is a record."""
    names: dict[str, None] | None = None
    with file.open("wb") as out:
        for line in lines:
            record, fields = _unwrap_message(line)
            if fields is not None:
                names = {**(names or {}), **dict.fromkeys(fields)}
            out.write(record.replace(b"\n", b" ") + b"\n")
    return names


def _unwrap_message(line: bytes) -> tuple[bytes, Iterable[str] | None]:
    """Return a record, without its Singer message, and its fields; None if it is not JSON."""
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


def _read_corrected(file: Path, _: FindColumn) -> Iterator[bytes]:
    """Yield the lines of a user's file that are not blank; SourceError if it can't be read."""
    try:
        with file.open("rb") as lines:
            yield from (line.rstrip(b"\r\n") for line in lines if line.strip())
    except OSError as error:
        raise SourceError(f"file {str(file)!r}: {error.strerror}", "check its name.") from None


def _table_columns(config: DestinationConfig, stream: str) -> pa.Schema | None:
    """Return the table's columns without lakeport's internal ones; None if it does not exist."""
    prepared = prepare(config, start_engine=False)
    with prepared.engine as engine:
        table = open_table(config, prepared.storage, engine, stream, writes=False).read_existing()
    if table is None:
        return None
    own = list_internal_columns(Policies(config).internal_prefix)
    return pa.schema(field for field in table.schema if field.name.lower() not in own)
