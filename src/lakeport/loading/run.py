"""A whole load: read a source, land its flushes in a target, report.

```
config ─▶ source ─Flush─▶ stream loaders ─Landed─▶ report, and only then STATE
```
The source spools the next flush while a flush lands. Spark starts while the source spools the
first.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack

from lakeport.config.load import load_target
from lakeport.config.sources import ConfigPart, FilesSource
from lakeport.destinations import check_place
from lakeport.engine.failures import is_spark_error, mask_causes, translate_jvm_errors
from lakeport.errors import (
    BadRecord,
    DestinationError,
    LakeportError,
    PermissionRefused,
    Unreachable,
)
from lakeport.host.activity import activity, load_initializer
from lakeport.loading.builder import ReportBuilder
from lakeport.loading.cancellation import Cancellation, wait_unless_interrupted
from lakeport.loading.prepare import PreparedLoad, check_streams, prepare
from lakeport.loading.progress import share_progress, show_progress
from lakeport.loading.quarantine import Quarantine, RejectedKind, check_limit
from lakeport.loading.report import Failure, LandingReport, Observer, fan_out, save_report
from lakeport.loading.telemetry import watch_load
from lakeport.model import Mode
from lakeport.sources.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.config.base import DestinationConfig
    from lakeport.config.expectations import Expectation
    from lakeport.config.keys import Target, TargetKeys
    from lakeport.loading.progress import Hook
    from lakeport.loading.stream import StreamLoader
    from lakeport.loading.transform.rules import RowRules
    from lakeport.model import Batch, Flush, Landed, Storage
    from lakeport.sources.csv.dialect import CsvOptions
    from lakeport.sources.files.declared_columns import ColumnDeclaration
    from lakeport.sources.open import OpenedSource


_TABLELESS: Final = (DestinationError, PermissionRefused, Unreachable)
"""Errors of Spark's way to a store that don't name the table."""
_FEWEST_AT_ONCE: Final = 4  # streams
_AT_ONCE_BYTES: Final = 64 << 20


def land(
    source: Any,
    to: Target | DestinationConfig | None = None,
    *,
    source_format: str = "",
    csv: CsvOptions | None = None,
    schema: ColumnDeclaration | None = None,
    stray_lines: Literal["fail", "skip"] = "fail",
    records_path: str = "",
    sheet: str = "",
    sheet_column: str = "",
    infer_dates: bool = False,
    observer: Observer | None = None,
    on_state: Callable[[bytes], None] | None = None,
    progress: bool | Hook | None = None,
    sql: str = "",
    python: str | Callable[[DataFrame], DataFrame] = "",
    views: Mapping[str, DataFrame] | None = None,
    expect: Sequence[Mapping[str, Any] | Expectation] = (),
    full_refresh: bool = False,
    **keys: Unpack[TargetKeys],
) -> LandingReport:
    """Land a source in a target, and return the report.

    Args:
        source: a path, glob, folder or list of them (CSV, JSON, JSON lines, Parquet, Arrow, ORC,
            Avro, Excel, Singer); a binary stream of Singer lines; a Spark, pandas or Polars frame,
            an Arrow table or reader, or anything with `__arrow_c_stream__`; records as mappings, in
            a list or from a generator.
        to: a folder, a URI, a YAML or JSON config file, or the config itself. None: the target in
            the environment, which LAKEPORT_TO names, or LAKEPORT_DESTINATION with its keys.
        source_format: csv, tsv, json, jsonl, parquet, arrow, orc, avro, xlsx or singer; by the
            files' names when empty.
        csv: the dialect of CSV files.
        schema: a JSON schema of the records, or column -> type name, such as `decimal(10,2)`; or
            the path of a JSON or YAML file that holds one.
        stray_lines: whether a Singer line that is no JSON object fails the run or is skipped.
        records_path: of JSON, where in a document the records are: `data`, `result.items`, or a
            JSON pointer such as `/result/a.b`.
        sheet: of Excel workbooks, the sheet's name, or `*` for all that show, each in a table of
            its own; the first that shows when empty.
        sheet_column: of Excel workbooks, a column that gets the sheet's name; with `*`, all sheets
            land in one table then.
        infer_dates: of JSON, whether texts that are all ISO dates or times become dates and
            timestamps, nested ones, too.
        observer: hears of progress, landed batches, STATEs and warnings.
        on_state: takes each STATE value, as the raw bytes that came, once everything before it is
            durable.
        progress: whether to show progress, below a notebook's cell or on standard error; or a
            function that takes a tuple of `lakeport.Activity` five times a second, in a thread of
            its own. None: in notebooks, if there is no `observer`.
        sql: one query in Spark SQL on `source`, whose result is landed in place of the source.
        python: `module:function`, or a function. It takes a Spark DataFrame, the source or the
            result of `sql`, and returns the one that is landed.
        views: name -> another Spark DataFrame that `sql` and `expect` may name.
        expect: expectations of the rows, checked before they are committed.
        full_refresh: replace a Delta table by what the source has now, whatever the table
            remembers of it.
        keys: keys of the config, which win over those in `to`, such as `table`, `mode`,
            `partition_keys`, `file_type` or `run_id`.

    Returns:
        The report of what was landed.

    Raises:
        LakeportError: with what failed and what to do; see `lakeport.errors`. Batches that had
            landed before stay landed, and no STATE behind them goes out.

    Example:
        >>> import lakeport, pyarrow as pa
        >>> people = pa.table({"id": [1, 2], "name": ["Ada", None]})
        >>> report = lakeport.land(people, "./lake", table="people")  # doctest: +SKIP
        >>> report.rows  # doctest: +SKIP
        2
    """
    visible = False if progress is None and observer is not None else progress
    with show_progress(visible, "landing"):
        prepared = prepare(load_target(to, keys), observer=observer, source=source)
        with prepared.engine:
            prepared = prepared.for_full_refresh() if full_refresh else prepared
            # These imports load pyarrow, while Java starts.
            from lakeport.loading.transform.rules import RowRules
            from lakeport.sources.files.declared_columns import load_declaration

            declared = load_declaration(schema)
            options = ReadOptions(
                source_format,
                csv,
                declared,
                stray_lines,
                records_path,
                sheet,
                sheet_column,
                infer_dates,
            )
            rules = RowRules.from_arguments(prepared, sql, python, views, expect)
            secrets = source.secrets() if isinstance(source, ConfigPart) else ()
            run = _LoadRun(prepared, observer, on_state, rules, secrets)
            return run.land(source, options)


class _LoadRun:
    """One load: lands the flushes of its source in a thread, and builds the report."""

    def __init__(
        self,
        prepared: PreparedLoad,
        observer: Observer | None,
        on_state: Callable[[bytes], None] | None,
        rules: RowRules,
        secrets_of_source: tuple[str, ...] = (),
    ) -> None:
        self.prepared = prepared
        self.rules = rules
        self.config = prepared.config
        self.secrets = (*self.config.secrets(), *secrets_of_source)
        self.storage: Storage = prepared.storage
        self.engine = prepared.engine
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        self.name = self.config.run_id or f"{stamp}-{secrets.token_hex(3)}"
        self.engine.run = self.name
        self.report = ReportBuilder(self.name, self.storage.uri(), secrets=self.secrets)
        self.observer = fan_out(observer)
        self.on_state = on_state
        self.cancellation = Cancellation.of_this_thread()
        self._landing: Future[None] | None = None
        self._loaders: dict[str, StreamLoader] = {}
        self._hinted: dict[str, str] = {}
        self._versions: dict[str, list[int]] = {}
        self._lowest: dict[str, set[int | None]] = {}
        self._flushes = self._records = self._bad = 0
        self._lock = threading.Lock()

    def land(self, source: Any, options: ReadOptions) -> LandingReport:
        """Land the source; return the report, which is saved even if the load fails."""
        target, what = self.storage.uri(), _describe_source(source)
        engine, retries = self.config.engine, self.storage.count_retries
        watch = watch_load(self.name, target, what, engine, self.secrets, retries)
        self.observer = fan_out(self.observer, watch)
        for text in self.prepared.warnings:
            self.report.add_warning(text)
            watch.on_warning(text)
        error: BaseException | None = None
        try:
            try:
                with share_progress(self.name, self.storage.uri(), self.engine.report):
                    self._land(source, options)
            except KeyboardInterrupt:  # no retries of what is still asked, such as for the report
                self.cancellation.cancel(None, self.engine, self.storage)
                raise
        except BaseException as caught:
            error = caught
            mask_causes(caught, (*self.secrets, *self.engine.secrets))
            if self.cancellation.unknown_commits() and isinstance(caught, KeyboardInterrupt):
                caught.add_note(self.cancellation.unknown_commits())
            raise
        finally:
            report = self._finish(error)
        return report

    def _land(self, source: Any, options: ReadOptions) -> None:
        """Open the source, land its flushes, then compact the tables if the config says so."""
        check_place(self.config, self.storage)
        with translate_jvm_errors(self.engine.secrets), ExitStack() as stack:
            with self.report.timeline.stage("opening"):
                check = self.cancellation.check
                opening = self.prepared.open_source(source, options, self._on_progress, check)
                opened, ready = stack.enter_context(opening)
            self.prepared, self.storage = ready, ready.storage
            for text in ready.worker_warnings:
                self._warn(text)
            try:
                self._land_flushes(opened)
                if self.config.auto_optimize:
                    self._compact_tables()
            except KeyboardInterrupt:
                self.cancellation.cancel(self._landing, self.engine, self.storage)
                raise

    def _land_flushes(self, source: OpenedSource) -> None:
        """Land flushes one by one in a thread while the source reads the next one."""
        with wait_unless_interrupted(
            ThreadPoolExecutor(1, "lakeport-flush", load_initializer())
        ) as executor:
            landing: Future[None] | None = None
            if self.rules:
                self.rules, source = self.rules.bind(source)
                landing = self._landing = executor.submit(self.rules.check)
            with activity("reading", source.name, total=source.bytes):
                for flush in self.report.timeline.time_items("reading", source):
                    if landing is not None:
                        self.cancellation.wait_for(landing)
                    self.cancellation.check()
                    landing = self._landing = executor.submit(self._land_flush, flush, source)
            if landing is not None:
                self.cancellation.wait_for(landing)
        if not self._loaders:  # not even a schema came
            self._check_empty_stream(source.name)
        check_streams(self.config, source.streams(), bool(self.rules))
        self.report.add_stray_lines(source.count_stray_lines())

    def _on_progress(self, stream: str, records: int, size: int) -> None:
        """Report how far a stream was read; raise if the load is to end or a flush has failed."""
        self.cancellation.check()
        landing = self._landing
        if landing is not None and landing.done():
            landing.result()  # a failure ends the run without waiting for the flush to fill
        self.report.timeline.add_progress(stream, records, size)
        self.observer.on_progress(stream, records, size)

    def _land_flush(self, flush: Flush, source: OpenedSource) -> None:
        """Land a flush's batches, remove rows of older stream versions, and emit its STATEs."""
        sequence, self._flushes = self._flushes, self._flushes + 1
        self._records += len(flush.bad)
        self._quarantine(flush.bad, sequence, RejectedKind.LINES)
        for stream, count in Counter(record.stream for record in flush.bad).items():
            if stream:
                self.report.add_rejected(stream, count)
            else:
                self.report.add_stray_lines(count)
        check_limit(self._bad, self._records, self.config.max_bad_records)
        streams = [*source.streams(), *(batch.stream for batch in flush.batches)]
        check_streams(self.config, streams, bool(self.rules))
        by_stream: dict[str, list[Batch]] = {}
        for batch in flush.batches:
            if not batch.schema_only or self._makes_empty_table(batch):
                by_stream.setdefault(batch.stream, []).append(batch)
            elif batch.stream not in flush.quiet:
                self._check_empty_stream(batch.stream)
        if len(by_stream) == 1:
            self._land_stream(*by_stream.popitem(), flush.state)
        elif by_stream:
            size = sum(max(0, batch.bytes) for batch in flush.batches)
            threads = _streams_at_once(len(by_stream), size, self.engine.most_streams)
            with ThreadPoolExecutor(threads, "lakeport-stream", load_initializer()) as executor:
                each = [
                    executor.submit(self._land_stream, stream, batches, flush.state)
                    for stream, batches in by_stream.items()
                ]
            _raise_first(dict(zip(by_stream, each, strict=True)), self.secrets, self._warn)
        for stream, version in flush.versions.items():
            self._retire_versions(stream, version)
        for stream, text in flush.notes.items():
            self.report.add_note(stream, self._get_loader(stream).writer.uri, text)
        for stream in flush.quiet:
            self._check_empty_stream(stream, only_fresh=True)
        source.discard(flush)
        for state in flush.states:
            self._emit_state(state)

    def _makes_empty_table(self, batch: Batch) -> bool:
        """Whether to create an empty table for a stream without records; warns if it overwrites."""
        if self.config.mode is Mode.OVERWRITE:
            self._warn(f"stream {batch.stream!r} brought no record: its table stays as it is.")
        appends = self.config.mode is Mode.APPEND and self.config.file_type == "delta"
        columns = batch.reader.schema if appends and batch.reader else ()
        return len(columns) > 0 and self._get_loader(batch.stream).writer.read_existing() is None

    def _check_empty_stream(self, stream: str, *, only_fresh: bool = False) -> None:
        """Check a stream without rows; raise ExpectationFailed if a check fails the load.

        `only_fresh`: check freshness alone, as a bookmark says that nothing is new.
        """
        if self.rules.expected and (checks := self._get_loader(stream).checks) is not None:
            checks.enforce_without_rows(stream, only_fresh=only_fresh)

    def _land_stream(self, stream: str, batches: Sequence[Batch], state: bytes | None) -> None:
        """Land a stream's batches of one flush, and record each commit."""
        with self.report.timeline.stage("planning", stream):
            loader = self._get_loader(stream)
        begin = time.monotonic()
        with _name_table_in_errors(loader.writer.uri):
            for landed in loader.land(batches, state):
                seconds, begin = time.monotonic() - begin, time.monotonic()
                self._record_landed(replace(landed, seconds=seconds))
        self.report.add_dropped(stream, loader.take_dropped())

    def _record_landed(self, landed: Landed) -> None:
        """Report a commit; keep its version to compact or retire rows later."""
        with self._lock:
            self.report.add_landed(landed)
            if landed.version is not None and not landed.skipped:
                self._versions.setdefault(landed.stream, []).append(landed.version)
            if landed.rows or landed.skipped:
                self._lowest.setdefault(landed.stream, set()).add(landed.lowest_version)
            self.observer.on_landed(landed)

    def _retire_versions(self, stream: str, version: int) -> None:
        """Delete a stream's rows of versions below this; warn if the table has no versions."""
        if self.config.mode is Mode.OVERWRITE or not self.config.process_activate_version_messages:
            return
        writer = self._get_loader(stream).writer
        timed = self.report.timeline.stage("committing", stream)
        with timed, self.cancellation.track_commit(writer.uri):
            retired = writer.retire(version, self._lowest.get(stream, ()))
        if retired is None:
            self._warn(
                f"stream {stream!r}: rows of earlier versions stay, as nothing tells them apart: "
                "that takes a Delta table with the columns of `add_record_metadata: true`."
            )
            return
        for text in retired.warnings:
            self.report.add_warning(text, stream)
            self.observer.on_warning(f"{stream}: {text}")
        if retired.version is not None:
            self.report.add_commit(retired)

    def _get_loader(self, stream: str) -> StreamLoader:
        """Return a stream's loader; open its table at the first call."""
        from lakeport.loading.batches import Policies
        from lakeport.loading.stream import StreamLoader

        with self._lock:
            if stream not in self._loaders:
                writer = self.prepared.open_table(stream, self.name)
                policies = Policies(self.config)
                reject_rows = partial(self._on_bad_records, kind=RejectedKind.ROWS)
                self._loaders[stream] = StreamLoader(
                    writer,
                    self.engine,
                    policies,
                    self._on_bad_records,
                    self.cancellation,
                    self.report.timeline,
                    self.rules.transform,
                    self.rules.checks(self.prepared, stream, self.report, reject_rows),
                    self._hinted,
                )
            return self._loaders[stream]

    def _on_bad_records(
        self,
        batch: Batch,
        bad: Sequence[BadRecord],
        records: int,
        kind: RejectedKind = RejectedKind.RECORDS,
    ) -> None:
        """Quarantine and count bad records of a batch; raise InputError if the run has too many.

        `records` is the number of all records of the batch.
        """
        with self._lock:
            self._records += records
            self._quarantine(bad, batch.sequence, kind)
            self.report.add_rejected(batch.stream, len(bad))
            check_limit(self._bad, self._records, self.config.max_bad_records)

    def _quarantine(self, bad: Sequence[BadRecord], sequence: int, kind: RejectedKind) -> None:
        """Count bad records and write them to the quarantine; write no file if there are none."""
        self._bad += len(bad)
        if bad:
            quarantine = Quarantine(self.storage, self.name)
            self.report.add_quarantined(bad, quarantine.write(bad, sequence, kind))

    def _emit_state(self, state: bytes) -> None:
        """Pass a Singer STATE to the caller and the observer, then set it in the report."""
        if self.on_state is not None:
            self.on_state(state)
        self.observer.on_state(state)
        self.report.set_state(state)

    def _compact_tables(self) -> None:
        """Merge small files of the tables that this run wrote; only warn if that fails."""
        for stream, versions in self._versions.items():
            table = self._loaders[stream].writer
            try:
                with self.report.timeline.stage("optimizing", stream):
                    table.compact(versions)
            except LakeportError as error:
                self._warn(f"the small files of {table.uri} were not merged: {error.message}")

    def _warn(self, text: str) -> None:
        """Add a warning to the report, and tell the observer."""
        self.report.add_warning(text)
        self.observer.on_warning(text)

    def _finish(self, error: BaseException | None) -> LandingReport:
        """Finish and save the report, remove old staged objects, and notify the observer.

        After a second interrupt, save and sweep nothing.
        """
        self.report.timeline.add_stage("starting Spark", *self.engine.start_up)
        self.report.engine = self.engine.report()
        report = self.report.finish(error)
        if not self.cancellation.at_once:
            if self.config.manifest:
                save_report(report, self.storage)
            with suppress(LakeportError):
                self.storage.sweep()
        self.observer.on_finished(report)
        return report


def _describe_source(source: object) -> str:
    """Return the path of files, with the number of further ones; else the kind of the source."""
    files = source.files if isinstance(source, FilesSource) else source
    if isinstance(files, (list, tuple)) and files and isinstance(files[0], (str, os.PathLike)):
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        return f"{os.fspath(files[0])}{more}"
    return os.fspath(files) if isinstance(files, (str, os.PathLike)) else type(source).__name__


@contextmanager
def _name_table_in_errors(table: str) -> Iterator[None]:
    """Add the table's URI to store errors that Spark raises; the wait, too, if unreachable."""
    begin = time.monotonic()
    try:
        yield
    except DestinationError as error:
        if type(error) not in _TABLELESS or not is_spark_error(error):
            raise
        message = f"{table}: {error.message}"
        if isinstance(error, Unreachable):
            message += f"; Spark gave it up after {time.monotonic() - begin:.0f} s"
        raise type(error)(message, error.hint) from error.__cause__


def _raise_first(
    landings: Mapping[str, Future[None]], secrets: Sequence[str], warn: Callable[[str], None]
) -> None:
    """Raise the first error of the streams' futures, if any; pass the others to `warn`.

    The secrets are masked in the warnings.
    """
    errors = {name: error for name, done in landings.items() if (error := done.exception())}
    for name, error in list(errors.items())[1:]:
        words = Failure.of(error).scrubbed(secrets).message
        warn(f"stream {name!r} failed, too: {words}")
    for error in errors.values():
        raise error


def _streams_at_once(streams: int, total_bytes: int, max_streams: int) -> int:
    """Return how many streams to land in parallel: about 64 MB of input, within limits.

    Small streams mostly wait for a store or a shared job, so at least four land at once.
    `total_bytes` is the size of all streams' input, `max_streams` the engine's limit.

    >>> [_streams_at_once(1000, mb << 20, 64) for mb in (36, 4_000, 100_000)]
    [64, 16, 4]
    """
    fitting = _AT_ONCE_BYTES * streams // max(1, total_bytes)
    return min(streams, max(_FEWEST_AT_ONCE, min(max_streams, fitting)))
