"""Records that were set aside, landed: as they are now, made right by a query, or from a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from lakeport.config.load import load_target
from lakeport.destinations import open_storage, open_table
from lakeport.engine.spark.sql.frames import cast_to
from lakeport.errors import InputError, RunMismatch, SourceError
from lakeport.host.scratch import scratch
from lakeport.loading.prepare import prepare
from lakeport.loading.replay.declared import json_schema
from lakeport.loading.replay.set_aside import SetAside, records, set_aside
from lakeport.loading.replay.shares import Share, shares
from lakeport.loading.replay.target import wanted_of
from lakeport.loading.run import land
from lakeport.model import Mode
from lakeport.schema.named import command
from lakeport.schema.nested import is_open
from lakeport.shape import internal_names
from lakeport.writers.naming import table_name

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.expectations import Expectation
    from lakeport.config.keys import StoreKeys, Target
    from lakeport.engine.types import DataFrame
    from lakeport.loading.report import LandingReport, Observer


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
        return {
            "run_id": self.run_id,
            "records": self.records,
            "before": self.before,
            "rows": self.rows,
            "rejected": self.rejected,
            "report": None if self.report is None else self.report.to_dict(),
        }


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
        shown = command("quarantine", "show", to if isinstance(to, str) else storage.uri())
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
        target, expected, load = wanted_of(to, one, expect, keys)
        made_by = None if sql or python else load
        for share in shares(one, made_by, edited=bool(records_from)):
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
        if not _write(source, lines):
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
        }
        target = load_target(config, asked)
        now = _columns(target, one.stream)
        schema = share.schema
        if not (transforms["sql"] or transforms["python"]):
            schema = None if now is None else json_schema(now)
        elif not transforms["python"]:
            transforms = {**transforms, "python": _as_in(now or pa.schema([]))}
        try:
            report = land(source, target, source_format="jsonl", schema=schema, **transforms)
        except RunMismatch:
            return Replayed(one.run_id, share.records, before=True)
    before = bool(report.streams) and all(s.skipped_batches for s in report.streams)
    return Replayed(one.run_id, share.records, before, None if before else report)


def _write(file: Path, lines: Iterator[bytes]) -> bool:
    """Write records as JSON lines; what is no JSON is written as it came. Whether any is."""
    some = False
    with file.open("wb") as out:
        for line in lines:
            record, known = _record(line)
            some = some or known
            out.write(record.replace(b"\n", b" ") + b"\n")
    return some


def _record(line: bytes) -> tuple[bytes, bool]:
    """A record without the message of Singer's that it came in, and whether it is an object."""
    try:
        found = json.loads(line)
    except ValueError:
        return line, False
    if isinstance(found, dict) and found.get("type") == "RECORD":
        inner = found.get("record")
        if isinstance(inner, dict):
            return _inner(line), True
    return line, isinstance(found, dict)


def _inner(line: bytes) -> bytes:
    """The record of a message, with its numbers as they are written."""
    import msgspec

    return bytes(msgspec.json.decode(line, type=dict[str, msgspec.Raw])["record"])


def _edited(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as lines:
            yield from (line.rstrip(b"\r\n") for line in lines if line.strip())
    except OSError as error:
        raise SourceError(f"file {str(file)!r}: {error.strerror}", "check its name.") from None


def _as_in(table: pa.Schema) -> Callable[[DataFrame], DataFrame]:
    """Gives a frame's columns the types that the table has for them."""

    def cast(frame: DataFrame) -> DataFrame:
        return cast_to(frame, table)

    return cast


def _columns(config: DestinationConfig, stream: str) -> pa.Schema | None:
    """The table's columns, where they are known; the values tell the others' types."""
    prepared = prepare(config, begin=False)
    with prepared.engine as engine:
        table = open_table(config, prepared.storage, engine, stream, writes=False).current()
    if table is None:
        return None
    own = internal_names(config.internal_columns_prefix if config.internal_columns else None)
    return pa.schema(
        field for field in table.schema if field.name.lower() not in own and not is_open(field.type)
    )
