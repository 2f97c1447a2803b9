"""Scan a stream's batches before they land: count bad records, type undeclared fields.

A policy that counts before anything is written (`quarantine`, `drop`) needs a scan of each batch.
Other loads stage at once, and scan only once a record with an undeclared field has stopped them.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.errors import BadRecord, BadRecords
from lakeport.loading.batches import Policies
from lakeport.loading.report import Timeline
from lakeport.loading.tasks import scan_split
from lakeport.model import Batch, Mode, Reader, Scan, UnknownPolicy
from lakeport.schema.nested import replace_untyped_columns
from lakeport.schema.types import (
    TIMESTAMP,
    check_column_count,
    get_logical_type,
    kind_to_arrow_type,
    merge_kinds,
)
from lakeport.shape import list_internal_columns

if TYPE_CHECKING:
    from lakeport.engine.base import Engine
    from lakeport.writers.base import TableWriter


@dataclass(frozen=True)
class ScannedBatch:
    """A batch with the reader of its good records, after a scan or without one.

    Attributes:
        reader: reads its good records; None for a frame.
        bad: number of its bad records.
        unreported: with `once`, the scan of each split, whose bad records are not reported yet.
    """

    batch: Batch
    reader: Reader | None
    bad: int = 0
    unreported: tuple[Scan, ...] = ()


@dataclass
class StreamScanner:
    """Scans a stream's batches for bad records, and keeps the types of undeclared fields.

    Attributes:
        on_bad: takes a batch, its bad records and the number of all its records; raises when the
            run has too many bad ones.
        notes: lines for the report about undeclared fields that become text.
    """

    writer: TableWriter
    engine: Engine
    policies: Policies
    on_bad: Callable[[Batch, Sequence[BadRecord], int], None]
    timeline: Timeline
    notes: tuple[str, ...] = ()
    _dropped: Counter[str] = field(default_factory=Counter)
    _undeclared: dict[str, pa.DataType] = field(default_factory=dict)

    @property
    def counts_before(self) -> bool:
        """Whether a policy counts bad records or undeclared fields before anything is written."""
        config = self.policies.config
        return config.on_bad_record != "fail" or config.unknown_fields is UnknownPolicy.DROP

    def is_needed(self, batches: Sequence[Batch]) -> bool:
        """Whether to scan before staging: a policy, or a rule on undeclared fields, needs it."""
        if self.counts_before:
            return True
        if self.policies.config.unknown_fields is not UnknownPolicy.EVOLVE:
            return False
        rules = self.policies.rules
        ruled = {*rules.types, *rules.rename, *rules.drop}
        known = {*self._undeclared}
        for batch in batches:
            known |= {*(batch.reader.schema.names if batch.reader else ruled)}
        return not ruled <= known

    def scan(self, batch: Batch) -> ScannedBatch:
        """Scan a batch: report or raise bad records, type undeclared fields, count dropped ones.

        With `once`, bad records are not reported: files that the table has are left out first.

        Raises:
            BadRecords: there are some, and the policy is to fail.
            InputError: the run has more bad records than it may.
        """
        if batch.reader is None:
            return ScannedBatch(batch, None)
        config = self.policies.config
        scans = self._run_scan(batch)
        if config.unknown_fields is UnknownPolicy.DROP:
            for scan in scans:
                self._dropped.update(scan.unknown_values)
        elif config.unknown_fields is UnknownPolicy.EVOLVE and (kinds := _merge_unknown(scans)):
            new = pa.schema([(name, pa.null()) for name in kinds])
            known = self.extend(batch.reader).schema
            check_column_count(batch.stream, pa.schema([*known, *new]), config.max_columns)
            self._undeclared.update(self._choose_types(kinds))
            scans = self._run_scan(batch)  # their values may not fit their new types
        bad = tuple(record for scan in scans for record in scan.bad)
        if bad and config.on_bad_record == "fail":
            raise BadRecords(bad, len(bad))
        if not config.once:
            self.report_bad(batch, scans)
        reader = batch.reader.skip_bad_records() if bad else batch.reader
        return ScannedBatch(batch, reader, len(bad), scans if config.once else ())

    def report_bad(
        self, batch: Batch, scans: Sequence[Scan], left_out: Collection[str] = ()
    ) -> None:
        """Pass a batch's bad records to `on_bad`, except those of the files `left_out` (URIs).

        `scans` has one scan for each split of the batch.
        """
        pairs = zip(batch.splits, scans, strict=True)
        kept = [scan for split, scan in pairs if split.uri not in left_out]
        bad = [record for scan in kept for record in scan.bad]
        self.on_bad(batch, bad, sum(scan.rows for scan in kept) + len(bad))

    def recount_bad(self, batch: Batch) -> None:
        """Scan a skipped batch again, to count its bad records against the run's limit.

        With `once` they don't count: nothing says which of its files were left out at first.
        """
        config = self.policies.config
        if batch.reader is not None and config.on_bad_record != "fail" and not config.once:
            self.report_bad(batch, self._run_scan(batch))

    def extend(self, reader: Reader) -> Reader:
        """Return the reader with the stream's undeclared fields as further columns."""
        known = {*reader.schema.names} if self._undeclared else ()
        new = {name: type_ for name, type_ in self._undeclared.items() if name not in known}
        return reader.add_columns(new) if new else reader

    def take_dropped(self) -> Mapping[str, int]:
        """Return undeclared field -> records that landed without it, since the last call."""
        dropped, self._dropped = self._dropped, Counter()
        return dropped

    def _run_scan(self, batch: Batch) -> tuple[Scan, ...]:
        """Scan a batch's splits in tasks; return a scan for each."""
        assert batch.reader is not None
        scan = partial(scan_split, self.extend(batch.reader))
        with self.timeline.show_stage("checking", batch.stream, batch.bytes):
            step = f"check {batch.stream}, batch {batch.sequence}"
            return tuple(self.engine.run_tasks(step, scan, batch.splits))

    def _choose_types(self, unknown: Mapping[str, str]) -> dict[str, pa.DataType]:
        """Choose types of undeclared fields: from a rule, from the table, or from their values.

        Notes the fields that become text.
        """
        now = None if self.policies.config.mode is Mode.OVERWRITE else self.writer.read_existing()
        typed = now.schema if now is not None and now.typed else ()
        columns = pa.schema([f for f in typed if not pa.types.is_null(f.type)])
        in_table = {f.name: get_logical_type(f) for f in replace_untyped_columns(columns)}
        internal = list_internal_columns(self.policies.internal_prefix)
        declared = self.policies.rules.types
        types = {
            name: TIMESTAMP
            if name in internal
            else declared.get(name)
            or in_table.get(self.policies.name_in_table(name), kind_to_arrow_type(kind))
            for name, kind in unknown.items()
        }
        self.notes += tuple(
            f"{name!r} is not declared and becomes text: strings as they are, other values as the "
            f"text of their JSON; `--column {shlex.quote(f'{name}=json')}` makes it JSON"
            for name, type_ in types.items()
            if pa.types.is_string(type_) and name not in declared
        )
        return types


def _merge_unknown(scans: Sequence[Scan]) -> dict[str, str]:
    """Return each undeclared field's kind of values, merged over all scans."""
    kinds = dict[str, str]()
    for scan in scans:
        for name, kind in scan.unknown.items():
            kinds[name] = merge_kinds(kinds[name], kind) if name in kinds else kind
    return kinds
