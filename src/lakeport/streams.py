"""Structured streams: a streaming DataFrame, landed micro-batch by micro-batch, exactly once.

```
source ─micro-batch─▶ foreachBatch ─▶ loader (as for any frame) ─Landed─▶ report ─▶ checkpoint
```
Spark gives a query an id that its checkpoint keeps, and numbers its micro-batches. A restarted
query repeats the micro-batch that it was in, with the same number and the same rows. So the query's
id is the run id, and the micro-batch's number the sequence, by which each batch lands once.
"""

from __future__ import annotations

import math
import os
import pickle
import threading
import time
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Unpack
from urllib.parse import urlsplit

from lakeport.config.base import (
    config_class,
    delta_destination,
    destination_for_scheme,
    user_facing_uri,
)
from lakeport.config.load import load_target, read_sink_interval
from lakeport.destinations import check_place, open_table
from lakeport.engine.base import SessionRequest, is_connect
from lakeport.engine.failures import translate, translate_errors
from lakeport.engine.sql.frames import (
    UNKNOWN_BYTES,
    count_partitions,
    estimate_bytes,
    normalise_frame,
    void_marked,
)
from lakeport.engine.sql.streaming import (
    bind_checkpoint,
    has_file_system,
    read_query_id,
    start_query,
)
from lakeport.engine.threads import choose_engine, require_jobs, require_spark
from lakeport.errors import ConfigError, DestinationError, LakeportError
from lakeport.loading.batches import Policies
from lakeport.loading.builder import ReportBuilder
from lakeport.loading.prepare import PreparedLoad, prepare
from lakeport.loading.report import Failure, LandingReport, Observer, fan_out, save_report
from lakeport.loading.stream import StreamLoader
from lakeport.loading.telemetry import watch_load
from lakeport.model import Batch, Landed, Mode
from lakeport.sources.frames import is_spark_frame
from lakeport.sources.target import fixed_table_name, open_folder_storage
from lakeport.writers.delta.optimize import MANY_SMALL_FILES

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import Target, TargetKeys
    from lakeport.engine.base import Engine
    from lakeport.engine.spark.engine import JobEngine
    from lakeport.model import Storage

_OUTPUT_RATIO: Final = 0.5  # bytes of Parquet per byte that a file source reads
_KEPT_MESSAGES: Final = 100
_POLL_SECONDS: Final = 0.5
_KEPT_BATCHES: Final = 100  # micro-batches that the journal keeps, as many as Spark's checkpoint


def land_stream(
    frame: DataFrame | Callable[[SparkSession], DataFrame],
    to: Target | DestinationConfig | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: str | float | None = None,
    available_now: bool = False,
    observer: Observer | None = None,
    **keys: Unpack[TargetKeys],
) -> LandingStream:
    """Start a streaming query that lands each micro-batch in one table; return its handle.

    Each micro-batch is one commit, or one set of files. It lands once, however often the query is
    killed and restarted with the same checkpoint. A micro-batch without rows leaves nothing.

    Args:
        frame: a streaming DataFrame, or a function that makes one in the session that it is
            given: the active one, or one that lakeport starts with what the target needs.
        to: as for `lakeport.land`; also the YAML of one of Mage's streaming sinks, whose
            `buffer_timeout_seconds` is the trigger unless another one is given.
        checkpoint: folder in which Spark keeps how far the query has come: one for each table, on
            storage that outlives the machine if the query has to. A store of the target's cloud
            is reached with the target's credentials, others with those of the environment; a
            session that somebody else built reaches it as it is set up to.
        trigger: seconds between the starts of two micro-batches, or Spark's text for that, such
            as `1 minute`; by default the next one follows at once.
        available_now: land what is there, in as many micro-batches as the source's options say,
            and end.
        observer: hears of each micro-batch as of a load, on another thread.
        keys: keys of the config, which win over those in `to`; `table` names the table.

    Returns:
        A handle on the query.

    Raises:
        ConfigError: the frame is no stream, a setting is wrong or not offered for streams, or
            the checkpoint is another table's.
        LakeportError: the target, the checkpoint or Spark refused.

    Example:
        >>> import lakeport
        >>> stream = lakeport.land_stream(  # doctest: +SKIP
        ...     lambda spark: spark.readStream.schema("id long").json("in/"),
        ...     "./lake", table="events", checkpoint="./checkpoint", available_now=True,
        ... )
        >>> stream.wait()  # doctest: +SKIP
        True
    """
    config = load_target(to, keys)
    if trigger is None and not available_now:
        trigger = read_sink_interval(to)
    timing = _trigger_arguments(trigger, available_now)
    _check_settings(config, checkpoint)
    prepared = prepare(
        config,
        keep_context=_spark_context(frame),
        optional_needs=_checkpoint_jars(checkpoint or ""),
        warm=False,
        source=frame,
    )
    try:
        engine = require_jobs(prepared.engine, "a stream")
        streaming = _open_frame(frame, engine)
        check_place(prepared.config, prepared.storage)
        prepared = prepared.check_workers()
        return _start_landing(prepared, engine, streaming, checkpoint or "", timing, observer)
    except BaseException:
        prepared.engine.close()
        raise


def _start_landing(
    prepared: PreparedLoad,
    engine: JobEngine,
    streaming: DataFrame,
    checkpoint: str | os.PathLike[str],
    timing: Mapping[str, Any],
    observer: Observer | None,
) -> LandingStream:
    """Start the query that lands a streaming frame; return its handle. Stop it after an error."""
    config, storage, name = prepared.config, prepared.storage, prepared.config.table or ""
    frame, untyped, notes = normalise_frame(void_marked(streaming), name)
    engine.begin()
    table = open_table(config, storage, engine, name)
    folder = _reach_checkpoint(checkpoint, config, engine)
    bind_checkpoint(frame.sparkSession, folder, table.uri)
    mode = "update" if config.mode is Mode.MERGE else "append"
    template = Batch(name, 0, optional=True, untyped=dict(untyped), notes=notes)
    reports = storage if config.manifest else None
    if is_connect(frame):
        session: Any = frame.sparkSession
        lander = RemoteLander(
            config, storage, template, folder, prepared.warnings, session.session_id
        )
        query = start_query(frame, folder, mode, timing, lander, engine.secrets)
        relayed = RelayedBatches(lander, query, frame.sparkSession, observer)
        return LandingStream(query, relayed, engine, reports)
    ready: Future[MicroBatches] = Future()

    def land(batch: DataFrame, number: int) -> None:
        ready.result().land(batch, number)

    query = start_query(frame, folder, mode, timing, land, engine.secrets)
    try:
        named = config.model_copy(update={"run_id": str(query.id)})
        batches = MicroBatches(named, storage, engine, template, observer)
        for text in prepared.warnings:
            batches.warn(text)
        stream = LandingStream(query, batches, engine, reports)
    except BaseException as error:
        ready.set_exception(error)
        query.stop()
        raise
    ready.set_result(batches)
    return stream


def _check_settings(config: DestinationConfig, checkpoint: str | os.PathLike[str] | None) -> None:
    """Raise ConfigError for a missing checkpoint or table, or a setting not for streams."""
    if checkpoint is None or not os.fspath(checkpoint).strip():
        raise ConfigError(
            "a stream needs a checkpoint: without one, a restart lands everything again",
            "give `checkpoint`, a folder that is kept as long as the table.",
        )
    if fixed_table_name(config) is None:
        raise ConfigError("a stream has no name of its own", "give `table`.")
    if config.mode is Mode.OVERWRITE:
        what = "the partitions that it touches" if config.partition_keys else "the table"
        raise ConfigError(
            f"`mode: overwrite` can't be had for a stream: each micro-batch would replace {what}, "
            "with the rows that earlier ones had landed there",
            "use `mode: append`, or `mode: merge` to replace single rows.",
        )
    if config.mode is Mode.MERGE and not config.merge_keys:
        raise ConfigError(
            "`mode: merge` lacks the columns that identify a row",
            "give `merge_keys`: a frame does not tell them.",
        )
    if config.run_id is not None:
        raise ConfigError(
            "`run_id` can't be had for a stream: its checkpoint names the run", "leave it out."
        )


def _trigger_arguments(trigger: str | float | None, available_now: bool) -> dict[str, Any]:
    """Return the arguments for `DataStreamWriter.trigger`; ConfigError for a bad trigger."""
    if available_now:
        if trigger is not None:
            raise ConfigError(
                "`trigger` and `available_now` are both given",
                "give one of them: `available_now` lands what is there and ends.",
            )
        return {"availableNow": True}
    if trigger is None:
        return {}
    if isinstance(trigger, str):
        if trigger.strip().lower() == "once":
            raise ConfigError(
                "the trigger `once` is not offered: it takes everything in one micro-batch",
                "use `available_now=True`, which keeps to the limits of the source's options.",
            )
        return {"processingTime": trigger}
    number = isinstance(trigger, (int, float)) and not isinstance(trigger, bool)
    if not number or not 0 <= trigger < math.inf:
        raise ConfigError(
            f"`trigger` is {trigger!r}", "give seconds, 0 or more, or text such as '5 minutes'."
        )
    return {"processingTime": f"{round(trigger * 1000)} milliseconds"}


def _spark_context(given: object) -> SparkContext | None:
    """Return a frame's SparkContext; None for a function or Spark Connect; or ConfigError."""
    if is_spark_frame(given):
        session = given.sparkSession  # type: ignore[attr-defined]
        context: SparkContext | None = getattr(session, "sparkContext", None)
        return context
    if not callable(given):
        raise ConfigError(
            f"{type(given).__name__} is no streaming DataFrame",
            "give one, or a function that makes one in the session that it is given.",
        )
    return None


def _open_frame(
    given: DataFrame | Callable[[SparkSession], DataFrame], engine: JobEngine
) -> DataFrame:
    """Return the given streaming frame, or the one that the given function makes.

    ConfigError for a frame that is no stream, or not of the engine's session.
    """
    frame: Any = given if is_spark_frame(given) else given(engine.spark)  # type: ignore[operator]
    if not is_spark_frame(frame) or not frame.isStreaming:
        raise ConfigError(
            "the frame is no stream", "read with `spark.readStream`, or use `lakeport.land`."
        )
    if not engine.owns(frame):
        raise ConfigError(
            "the frame's Spark session was stopped", "make the frame anew, in a running session."
        )
    streaming: DataFrame = frame
    return streaming


def _checkpoint_jars(checkpoint: str | os.PathLike[str]) -> frozenset[str]:
    """Return the connector jars that Spark needs for a checkpoint; none for local folders.

    >>> _checkpoint_jars("s3a://lake/checkpoints/a"), _checkpoint_jars("/var/checkpoints/a")
    (frozenset({'s3a'}), frozenset())
    """
    scheme, mark, _ = user_facing_uri(os.fspath(checkpoint)).partition("://")
    found = destination_for_scheme(scheme) if mark else ""
    return config_class(delta_destination(found)).connector_jars() if found else frozenset()


def _reach_checkpoint(
    checkpoint: str | os.PathLike[str], config: DestinationConfig, engine: JobEngine
) -> str:
    """Configure Spark's access to a checkpoint's store; return the path for Spark.

    Waits for the session. A store of the target's cloud gets the target's credentials, another
    store those of the environment. A session that the user built keeps its own settings, and so
    does a Spark Connect server.

    Raises:
        ConfigError: the session lacks the connector; the hint has the settings to build it with.
    """
    name, needs = os.fspath(checkpoint), _checkpoint_jars(checkpoint)
    scheme = urlsplit(name).scheme
    if not scheme and engine.is_local:  # the JVM may have another current folder
        name = os.path.abspath(name)  # noqa: PTH100  # without `..`, and links as they are
    if not needs or engine.name == "connect":
        return name
    engine = require_spark(engine, "a checkpoint in a store")
    if engine.adopted:
        if not has_file_system(engine.spark, scheme):
            engine.delta_session("look for the store's connector", needs)
        return name
    storage = open_folder_storage(config, user_facing_uri(name))
    if storage is None:
        return name
    engine.configure_store(
        storage.hadoop_uri(), storage.hadoop_settings(for_workers=not engine.is_local)
    )
    return storage.hadoop_uri()


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """Status of a stream at one time.

    Attributes:
        active: whether the stream runs.
        message: what Spark is doing for the stream, in Spark's words.
        batch: number of the newest micro-batch; None before the first one.
        rows: rows landed since the start.
    """

    active: bool
    message: str
    batch: int | None
    rows: int


class LandingStream:
    """Handle on a stream that is being landed; as a context manager, it stops the stream.

    Attributes:
        query: Spark's own handle.
        id: the query's id, which its checkpoint keeps; the run id of all its commits.
    """

    def __init__(
        self,
        query: StreamingQuery,
        batches: MicroBatches | RelayedBatches,
        engine: JobEngine,
        storage: Storage | None,
    ) -> None:
        """Watch a query that was started; save its report in `storage`, unless that is None."""
        self.query = query
        self._batches = batches
        self._engine = engine
        self._storage = storage
        self.id = str(query.id)
        self._stopping = False
        self._done = threading.Event()
        engine.count_streams(1)
        threading.Thread(target=self._watch, name="lakeport-stream", daemon=True).start()

    def __repr__(self) -> str:
        """Return id, state and rows in one line."""
        state = "active" if self.active else "ended"
        return f"LandingStream(id={self.id!r}, {state}, rows={self.report.rows})"

    def _repr_html_(self) -> str:
        """Return the stream's report as notebooks show it."""
        return self.report._repr_html_()

    @property
    def active(self) -> bool:
        """Whether the stream still runs."""
        return not self._done.is_set()

    @property
    def status(self) -> StreamStatus:
        """The stream's status now.

        Raises:
            SparkFailure: Spark is gone.
        """
        message = "Stopped"
        if self.active:
            with translate_errors(self._engine.secrets):
                message = str(self.query.status["message"])
        return StreamStatus(self.active, message, self._batches.number, self.report.rows)

    @property
    def report(self) -> LandingReport:
        """The report of all micro-batches since the start."""
        return self._batches.report

    @property
    def last_report(self) -> LandingReport | None:
        """The report of the newest micro-batch that held rows; None before there is one."""
        return self._batches.last

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the stream's end, at most `timeout` seconds; return whether it has ended.

        Args:
            timeout: seconds; without a limit if absent.

        Raises:
            LakeportError: the error that ended the stream. What had landed stays; the same call
                with the same checkpoint goes on behind it.
        """
        ended = self._done.wait(timeout)
        if ended and self._batches.error is not None:
            raise self._batches.error
        return ended

    def stop(self) -> None:
        """Let the current micro-batch land, then stop the stream; wait until it has ended.

        Do nothing if the stream has ended.

        Raises:
            LakeportError: it ended with an error before.
        """
        self._stopping = True
        threading.Thread(target=self._stop, name="lakeport-stop", daemon=True).start()
        self.wait()

    def __enter__(self) -> LandingStream:
        """Return the stream, which runs already."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Stop the stream; raise its error unless the block has raised one."""
        try:
            self.stop()
        except LakeportError:
            if kind is None:
                raise

    def _stop(self) -> None:
        """Stop the query; errors are left to `_watch`."""
        with suppress(Exception):  # the watcher reports them
            self._batches.stop(self.query)

    def _watch(self) -> None:
        """Wait for the query's end, in a thread; then save the report and release the engine."""
        error: LakeportError | None = None
        try:
            self._batches.follow(self.query)
        except Exception as caught:
            error = None if self._stopping else translate(caught, self._engine.secrets)
        finally:
            try:
                report = self._batches.close(error)
                if self._storage is not None:
                    save_report(report, self._storage)
            finally:
                self._engine.count_streams(-1)
                self._engine.close()
                self._done.set()


class MicroBatches:
    """Lands the micro-batches of one streaming query one by one; builds one report of all.

    The config has the query's id as its `run_id`.

    Attributes:
        error: the error of the micro-batch that ended the query; None for none.
        last: the report of the newest micro-batch that held rows.
        number: the newest micro-batch's number; None before the first one.
    """

    def __init__(
        self,
        config: DestinationConfig,
        storage: Storage,
        engine: Engine,
        template: Batch,
        observer: Observer | None,
    ) -> None:
        """Land batches as `template`, each with its own frame and number."""
        self.error: LakeportError | None = None
        self.last: LandingReport | None = None
        self.number: int | None = None
        self._config = config
        self._engine = engine
        self._stream = stream = template.stream
        self._template = template
        self._observer = fan_out(observer)
        self._target = storage.uri()
        self._policies = Policies(config)
        self._writer = open_table(config, storage, engine, stream)
        self._total = self._new_report()
        self._watch = _watch_stream(config, storage)
        self._loader = StreamLoader(
            self._writer,
            engine,
            self._policies,
            lambda *_: None,
            timeline=self._total.timeline,
        )
        self._bytes = -1
        self._uncompacted: list[int] = []
        # Spark interrupts its own thread to stop a query: a commit must not be hit by that.
        self._executor = ThreadPoolExecutor(1, "lakeport-micro-batch")

    @property
    def report(self) -> LandingReport:
        """The report of all micro-batches since the query was started."""
        return self._total.finish(self.error)

    def land(self, frame: DataFrame, number: int) -> None:
        """Land one micro-batch, as `foreachBatch` calls it; set `error` and raise if it fails.

        Raises:
            LakeportError: without its cause, since Spark logs what is raised; see `error`.
        """
        try:
            self._executor.submit(self._land, frame, number).result()
        except BaseException as error:
            self.error = translate(error, self._engine.secrets)
        if self.error is not None:
            raise LakeportError(self.error.message, self.error.hint) from None

    def follow(self, query: StreamingQuery) -> None:
        """Wait for the query's end; raise its error."""
        query.awaitTermination()

    def stop(self, query: StreamingQuery) -> None:
        """Stop the query; Spark waits for the micro-batch that is landing."""
        query.stop()

    def close(self, error: LakeportError | None) -> LandingReport:
        """Compact the last commits unless the query failed; return the report of all batches."""
        self.error = self.error or error
        if self.error is None and self._uncompacted:
            with suppress(RuntimeError):  # the interpreter ends: no thread is to be had
                self._executor.submit(self._compact).result()
        self._executor.shutdown(wait=False)
        report = self.report
        self._watch.on_finished(report)
        return report

    def warn(self, text: str) -> None:
        """Add a warning to the report, and tell the observer."""
        self._total.add_warning(text)
        for observer in (self._observer, self._watch):
            observer.on_warning(text)

    def _land(self, frame: DataFrame, number: int) -> None:
        """Land one micro-batch and finish its own report; runs in the executor's thread."""
        own, begin = self._new_report(), time.monotonic()
        self.number = number
        try:
            for landed in self._loader.land([self._to_batch(frame, number)], None):
                self._record_landed(own, replace(landed, seconds=time.monotonic() - begin))
        except BaseException as error:
            self._finish(own, translate(error, self._engine.secrets))
            raise

    def _record_landed(self, own: ReportBuilder, landed: Landed) -> None:
        """Report a commit; compact if small files have piled up, and prune the journal."""
        for report in (own, self._total):
            report.add_landed(landed)
        if not landed.skipped:
            self._bytes = landed.bytes
        for observer in (self._observer, self._watch):
            observer.on_landed(landed)
        if self._config.auto_optimize and landed.version is not None and not landed.skipped:
            self._uncompacted.append(landed.version)
            if len(self._uncompacted) >= MANY_SMALL_FILES:
                self._compact()
        self._prune(landed.sequence)
        self._finish(own, None)

    def _prune(self, number: int) -> None:
        """Every 100 micro-batches, delete journal entries that Spark's checkpoint lacks.

        Do nothing if the store refuses.
        """
        if number and number % _KEPT_BATCHES == 0:
            with suppress(DestinationError):  # whoever may not delete keeps it all
                self._writer.prune(number - _KEPT_BATCHES)

    def _compact(self) -> None:
        """Merge small files of commits since the last time; only warn if that fails."""
        versions, self._uncompacted = self._uncompacted, []
        try:
            with self._total.timeline.stage("optimizing", self._stream):
                self._writer.compact(versions)
        except Exception as error:
            reason = translate(error, self._engine.secrets).message
            self.warn(f"the small files of {self._writer.uri} were not merged: {reason}")

    def _finish(self, own: ReportBuilder, error: LakeportError | None) -> None:
        """Finish a micro-batch's report, and tell the observer."""
        self.last = own.finish(error)
        self._observer.on_finished(self.last)

    def _to_batch(self, frame: DataFrame, number: int) -> Batch:
        """Convert a micro-batch to a batch; in mode `append`, limit its partitions."""
        if self._config.mode is Mode.APPEND:
            frame = self._limit_partitions(frame, number)
        return replace(self._template, sequence=number, frame=frame)

    def _limit_partitions(self, frame: DataFrame, number: int) -> DataFrame:
        """Repartition the frame if it would become more files than its size needs.

        Without a shuffle one task would do the work of all tasks before it, including the state of
        windows and joins.
        """
        most = self._policies.number_of_files(
            self._estimate_bytes(frame, number), self._engine.cores
        )
        return frame.repartition(most) if count_partitions(frame) > most else frame

    def _estimate_bytes(self, frame: DataFrame, number: int) -> int:
        """Estimate the bytes that a micro-batch takes in the table; -1 if unknown.

        Spark knows the size of files that it reads. Otherwise the size is that of the micro-batch
        before, which a restarted query finds in the journal.
        """
        read = estimate_bytes(frame)
        if read < UNKNOWN_BYTES:
            return int(read * _OUTPUT_RATIO)
        if self._bytes < 0 and number > 0:
            before = self._writer.find_landed(Batch(self._stream, number - 1))
            self._bytes = before.bytes if before is not None and before.bytes else -1
        return self._bytes

    def _new_report(self) -> ReportBuilder:
        """Return an empty report of this run."""
        run_id = self._config.run_id or ""
        return ReportBuilder(run_id, self._target, secrets=self._config.secrets())


def _watch_stream(config: DestinationConfig, storage: Storage) -> Observer:
    """Return the observer that logs and traces a query as one load, named by its `run_id`."""
    named = config.run_id or ""
    secrets, retries = config.secrets(), storage.count_retries
    return watch_load(named, storage.uri(), "a stream", config.engine, secrets, retries)


class _Events(list[tuple[str, Any]], Observer):
    """An observer that keeps what it hears: names of methods, and their argument."""

    def on_landed(self, landed: Landed) -> None:
        self.append(("on_landed", landed))

    def on_warning(self, text: str) -> None:
        self.append(("on_warning", text))

    def on_finished(self, report: LandingReport) -> None:
        self.append(("on_finished", report))


@dataclass(frozen=True, slots=True)
class _Message:
    """Message of a `RemoteLander` about one micro-batch.

    Attributes:
        index: number of the message since the query's start.
        batch: number of the micro-batch.
        report: the report of all micro-batches since the start; None if landing never began.
        events: what an observer of the query hears.
        error: the error that ends the query; None for a micro-batch that has landed.
    """

    index: int
    batch: int
    report: LandingReport | None
    events: tuple[tuple[str, Any], ...]
    error: LakeportError | None


class RemoteLander:
    """Lands micro-batches where a Spark Connect server runs `foreachBatch`: beside its driver.

    Spark pickles it. It sends a message about each micro-batch by a setting of the session, of
    which there are a hundred in turn, as the client may be gone.
    """

    def __init__(
        self,
        config: DestinationConfig,
        storage: Storage,
        template: Batch,
        checkpoint: str,
        warnings: Sequence[str],
        session_id: str,
    ) -> None:
        """Land batches as `template`; send messages to the client's session, by its id."""
        self.config, self.storage = config, storage
        self._session_id = session_id
        self._session: SparkSession | None = None
        self._template, self._checkpoint, self._warnings = template, checkpoint, warnings
        self._prefix = f"lakeport.stream.{uuid.uuid4().hex}"
        self._sent = 0
        self._events = _Events()
        self._batches: MicroBatches | None = None

    def setting(self, index: int) -> str:
        """Return the name of the setting that carries a message."""
        return f"{self._prefix}.{index % _KEPT_MESSAGES}"

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Land a micro-batch, as `foreachBatch` asks; see `MicroBatches.land`."""
        error: LakeportError | None = None
        try:
            batches = self._batches = self._batches or self._open(frame)
            batches.land(frame, number)
        except BaseException as caught:
            known = self._batches.error if self._batches else None
            error = known or translate(caught, self.config.secrets())
            raise LakeportError(error.message, error.hint) from None
        finally:
            self._send(frame, number, error)

    def _open(self, frame: DataFrame) -> MicroBatches:
        """Return what lands the query's micro-batches, by jobs of the same session."""
        run_id = read_query_id(frame.sparkSession, self._checkpoint)
        config = self.config.model_copy(update={"run_id": run_id})
        engine = choose_engine(config.engine, SessionRequest(frame=frame))
        batches = MicroBatches(config, self.storage, engine, self._template, self._events)
        for text in self._warnings:
            batches.warn(text)
        return batches

    def _send(self, frame: DataFrame, number: int, error: LakeportError | None) -> None:
        """Send a message about a micro-batch, unless the session takes no settings."""
        report = self._batches.report if self._batches else None
        message = _Message(self._sent, number, report, tuple(self._events), error)
        with suppress(Exception):
            self._session = self._session or self._find_session(frame)
            text = b64encode(pickle.dumps(message)).decode()
            self._session.conf.set(self.setting(self._sent), text)
        self._sent += 1
        self._events.clear()

    def _find_session(self, frame: DataFrame) -> SparkSession:
        """Return the client's session, of which Spark 4.3 gives a frame here a copy."""
        own: Any = frame.sparkSession
        if own.session_id != self._session_id:
            url = f"{os.environ['SPARK_CONNECT_LOCAL_URL']};session_id={self._session_id}"
            own = type(own).builder.remote(url).create()
        session: SparkSession = own
        return session


class RelayedBatches:
    """Reports the micro-batches that a `RemoteLander` lands; see `MicroBatches`."""

    def __init__(
        self,
        lander: RemoteLander,
        query: StreamingQuery,
        spark: SparkSession,
        observer: Observer | None,
    ) -> None:
        self.error: LakeportError | None = None
        self.last: LandingReport | None = None
        self.number: int | None = None
        self._lander, self._spark = lander, spark
        self._observer = fan_out(observer)
        uri, secrets = lander.storage.uri(), lander.config.secrets()
        self._report = ReportBuilder(str(query.id), uri, secrets=secrets).finish()
        named = lander.config.model_copy(update={"run_id": str(query.id)})
        self._watch = _watch_stream(named, lander.storage)
        self._taken = 0

    @property
    def report(self) -> LandingReport:
        """The report of all micro-batches since the query was started."""
        return replace(self._report, error=Failure.of(self.error) if self.error else None)

    def follow(self, query: StreamingQuery) -> None:
        """Take messages until the query's end; raise its error, or stop it for an observer's."""
        try:
            while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
                self._take_messages()
            self._take_messages()
        except BaseException:
            for last in (query.stop, self._take_messages):
                with suppress(Exception):  # the server may be gone
                    last()
            raise

    def stop(self, query: StreamingQuery) -> None:
        """Stop the query when the micro-batch that is landing has landed: a stop would cut it."""
        before = self.number
        while query.isActive and query.status["isTriggerActive"] and self.number == before:
            time.sleep(_POLL_SECONDS)
        query.stop()

    def close(self, error: LakeportError | None) -> LandingReport:
        """Return the report of all batches; `error` is the query's own."""
        self.error = self.error or error
        self._watch.on_finished(self.report)
        return self.report

    def _take_messages(self) -> None:
        """Take new messages, and tell the observer."""
        while (message := self._next_message()) is not None:
            self._taken, self.number = message.index + 1, message.batch
            self.error = message.error
            if message.report is not None:
                self._report = replace(message.report, command=self._report.command)
            for event, value in message.events:
                if event == "on_finished":
                    self.last = value
                else:
                    getattr(self._watch, event)(value)
                getattr(self._observer, event)(value)

    def _next_message(self) -> _Message | None:
        """Return the next message and unset its setting; None if there is none yet."""
        name = self._lander.setting(self._taken)
        text = self._spark.conf.get(name, None)
        message: _Message | None = pickle.loads(b64decode(text)) if text else None  # noqa: S301
        if message is None or message.index < self._taken:
            return None
        self._spark.conf.unset(name)
        return message
