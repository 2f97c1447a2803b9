"""A stream's micro-batches: each is landed as one batch of a run named by the query.

Spark gives a query an id that its checkpoint keeps, and its micro-batches numbers; a restarted
query repeats the micro-batch that it was in with the same number and the same rows. So query id
and number are what makes a batch land once, as the run id and the sequence are elsewhere.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from lakeport.config.base import (
    config_class,
    delta_destination,
    destination_for_scheme,
    user_facing_uri,
)
from lakeport.destinations import open_table
from lakeport.engine.failures import translate
from lakeport.engine.sql.frames import partitions_of, size_of
from lakeport.engine.sql.streaming import knows_scheme
from lakeport.errors import DestinationError, LakeportError
from lakeport.loading.batches import Policies
from lakeport.loading.builder import ReportBuilder
from lakeport.loading.report import LandingReport, Observer, fan_out
from lakeport.loading.stream import StreamLoader
from lakeport.model import Batch, Landed, Mode
from lakeport.sources.target import open_folder_storage
from lakeport.writers.delta.optimize import MANY_SMALL_FILES

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.config.base import DestinationConfig
    from lakeport.engine.base import DataFrame, Engine, SparkEngine
    from lakeport.model import Storage


_UNKNOWN = 1 << 60
_RATIO = 0.5
_KEPT = 100


class MicroBatches:
    """Lands the micro-batches of one query, one at a time.

    Args:
        config: the destination's, with the query's id as its `run_id`.
        storage: where the table is.
        engine: the Spark on which the query runs.
        stream: the stream's name.
        untyped: columns with places that have no type; see `Batch.untyped`.
        observer: is told of each micro-batch as of a load.

    Attributes:
        error: what ended the query, if a micro-batch did.
        last: the report of the newest micro-batch that held rows.
        number: the newest micro-batch's number; None before the first one.
    """

    def __init__(
        self,
        config: DestinationConfig,
        storage: Storage,
        engine: Engine,
        stream: str,
        untyped: Mapping[str, pa.DataType],
        observer: Observer | None,
    ) -> None:
        self.error: LakeportError | None = None
        self.last: LandingReport | None = None
        self.number: int | None = None
        self._config = config
        self._engine = engine
        self._stream = stream
        self._untyped = untyped
        self._observer = fan_out(*([] if observer is None else [observer]))
        self._target = storage.uri()
        self._policies = Policies(config)
        self._writer = open_table(config, storage, engine, stream)
        self._total = self._builder()
        self._loader = StreamLoader(
            self._writer,
            engine,
            self._policies,
            lambda *_: None,
            timeline=self._total.timeline,
        )
        self._bytes = -1
        self._untidied: list[int] = []
        # Spark interrupts its own thread to stop a query: a commit must not be hit by that.
        self._executor = ThreadPoolExecutor(1, "lakeport-micro-batch")

    @property
    def report(self) -> LandingReport:
        """What all micro-batches have landed since the query was started."""
        return self._total.finish(self.error)

    def land(self, frame: DataFrame, number: int) -> None:
        """Land one micro-batch; for `foreachBatch`.

        Raises:
            LakeportError: without a cause, since Spark logs what it gets; see `error`.
        """
        try:
            self._executor.submit(self._land, frame, number).result()
        except BaseException as error:
            self.error = translate(error, self._engine.secrets)
        if self.error is not None:
            raise LakeportError(self.error.message, self.error.hint) from None

    def close(self, error: LakeportError | None) -> LandingReport:
        """End: no micro-batch follows. Returns the report of them all."""
        self.error = self.error or error
        if self.error is None and self._untidied:
            with suppress(RuntimeError):  # the interpreter ends: no thread is to be had
                self._executor.submit(self._tidy).result()
        self._executor.shutdown(wait=False)
        return self.report

    def warn(self, text: str) -> None:
        """Add a sentence for the user to the report."""
        self._total.add_warning(text)
        self._observer.on_warning(text)

    def _land(self, frame: DataFrame, number: int) -> None:
        own, begin = self._builder(), time.monotonic()
        self.number = number
        try:
            for landed in self._loader.land([self._batch(frame, number)], None):
                self._record(own, landed, time.monotonic() - begin)
        except BaseException as error:
            self._finish(own, translate(error, self._engine.secrets))
            raise

    def _record(self, own: ReportBuilder, landed: Landed, seconds: float) -> None:
        for report in (own, self._total):
            report.add_landed(landed, seconds)
        if not landed.skipped:
            self._bytes = landed.bytes
        self._observer.on_landed(landed)
        if self._config.auto_optimize and landed.version is not None and not landed.skipped:
            self._untidied.append(landed.version)
            if len(self._untidied) >= MANY_SMALL_FILES:
                self._tidy()
        self._prune(landed.sequence)
        self._finish(own, None)

    def _prune(self, number: int) -> None:
        """Keep no more of the journal than Spark keeps of the checkpoint."""
        if number and number % _KEPT == 0:
            with suppress(DestinationError):  # whoever may not delete keeps it all
                self._writer.prune(number - _KEPT)

    def _tidy(self) -> None:
        """Merge small files that have piled up. The rows are durable: what fails is a warning."""
        versions, self._untidied = self._untidied, []
        try:
            with self._total.timeline.stage("optimizing", self._stream):
                self._writer.compact(versions)
        except Exception as error:
            reason = translate(error, self._engine.secrets).message
            self.warn(f"the small files of {self._writer.uri} were not merged: {reason}")

    def _finish(self, own: ReportBuilder, error: LakeportError | None) -> None:
        self.last = own.finish(error)
        self._observer.on_finished(self.last)

    def _batch(self, frame: DataFrame, number: int) -> Batch:
        if self._config.mode is Mode.APPEND:
            frame = self._packed(frame, number)
        return Batch(self._stream, number, frame=frame, optional=True, untyped=self._untyped)

    def _packed(self, frame: DataFrame, number: int) -> DataFrame:
        """The frame in no more partitions than it should become files.

        A shuffle is what it takes: merging partitions in place would have one task do the work
        of all tasks before it, state of windows and joins included.
        """
        most = self._policies.number_of_files(self._size(frame, number), self._engine.cores)
        return frame.repartition(most) if partitions_of(frame) > most else frame

    def _size(self, frame: DataFrame, number: int) -> int:
        """About how many bytes the micro-batch becomes; -1 if nothing tells.

        File sources tell what they read; otherwise a micro-batch is taken to be like the one
        before, of which a restarted query finds the journal's entry.
        """
        read = size_of(frame)
        if read < _UNKNOWN:
            return int(read * _RATIO)
        if self._bytes < 0 and number > 0:
            before = self._writer.landed_before(Batch(self._stream, number - 1))
            self._bytes = before.bytes if before is not None and before.bytes else -1
        return self._bytes

    def _builder(self) -> ReportBuilder:
        run_id = self._config.run_id or ""
        return ReportBuilder(run_id, self._target, secrets=self._config.secrets())


def connector(checkpoint: str | os.PathLike[str]) -> frozenset[str]:
    """Return the names in `spark.jvm.jars` of what Spark needs for a checkpoint there.

    >>> connector("s3a://lake/checkpoints/events"), connector("/var/checkpoints/events")
    (frozenset({'s3a'}), frozenset())
    """
    scheme, mark, _ = user_facing_uri(os.fspath(checkpoint)).partition("://")
    found = destination_for_scheme(scheme) if mark else ""
    return config_class(delta_destination(found)).connector_jars() if found else frozenset()


def reach(
    checkpoint: str | os.PathLike[str], config: DestinationConfig, engine: SparkEngine
) -> str:
    """Have Spark's session reach a checkpoint; waits for the session.

    A store of the target's cloud is reached with the target's credentials, any other one with
    those of the environment. A session that somebody else built reaches it as it is set up to.

    Returns:
        The checkpoint as Spark names it.

    Raises:
        ConfigError: the session lacks the connector; the hint has the settings to build it with.
    """
    name, needs = os.fspath(checkpoint), connector(checkpoint)
    if not needs:
        return name
    scheme = name.partition("://")[0]
    if engine.adopted:
        if not knows_scheme(engine.spark, scheme):
            engine.delta_session("look for the store's connector", needs)
        return name
    storage = open_folder_storage(config, user_facing_uri(name))
    if storage is None:
        return name
    engine.hand_over(storage.hadoop_uri(), storage.hadoop_settings(for_workers=not engine.is_local))
    return storage.hadoop_uri()
