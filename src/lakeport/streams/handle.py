"""A stream that is being landed, as the one who started it sees it."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeport.engine.failures import translate, translate_errors
from lakeport.errors import LakeportError
from lakeport.loading.report import LandingReport, save_report

if TYPE_CHECKING:
    from lakeport.engine.base import SparkEngine, StreamingQuery
    from lakeport.model import Storage
    from lakeport.streams.microbatches import MicroBatches


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How a stream goes on.

    Attributes:
        active: whether it runs.
        message: what Spark is doing for it, in Spark's words.
        batch: number of the newest micro-batch; None before the first one.
        rows: rows landed since the start.
    """

    active: bool
    message: str
    batch: int | None
    rows: int


class LandingStream:
    """A stream that is being landed; `with` stops it at the end of its block.

    Attributes:
        query: Spark's own handle.
        id: the query's id, which its checkpoint keeps: the run id of all that it lands.
    """

    def __init__(
        self,
        query: StreamingQuery,
        batches: MicroBatches,
        engine: SparkEngine,
        storage: Storage | None,
    ) -> None:
        """Take charge of a query that has been started; its report goes to `storage`."""
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
        """The query, whether it runs, and what has landed."""
        state = "active" if self.active else "ended"
        return f"LandingStream(id={self.id!r}, {state}, rows={self.report.rows})"

    def _repr_html_(self) -> str:
        """The stream as notebooks show it: what has landed since its start."""
        return self.report._repr_html_()

    @property
    def active(self) -> bool:
        """Whether the stream still runs."""
        return not self._done.is_set()

    @property
    def status(self) -> StreamStatus:
        """How the stream goes on.

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
        """What was landed since the start, all micro-batches together."""
        return self._batches.report

    @property
    def last_report(self) -> LandingReport | None:
        """The newest micro-batch that held rows; None before there is one."""
        return self._batches.last

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the stream's end.

        Args:
            timeout: seconds; without a limit if absent.

        Returns:
            Whether it has ended.

        Raises:
            LakeportError: what ended it, if it was not `stop` and the input has no end. What had
                landed stays; the same call with the same checkpoint goes on behind it.
        """
        ended = self._done.wait(timeout)
        if ended and self._batches.error is not None:
            raise self._batches.error
        return ended

    def stop(self) -> None:
        """End the stream when the micro-batch that is being landed is through, and wait for that.

        Fine if it has ended.

        Raises:
            LakeportError: it ended with an error before.
        """
        self._stopping = True
        threading.Thread(target=self._stop, name="lakeport-stop", daemon=True).start()
        self.wait()

    def __enter__(self) -> LandingStream:
        """Nothing to do: the stream runs."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Stop; an exception of the block goes before one of the stream's."""
        try:
            self.stop()
        except LakeportError:
            if kind is None:
                raise

    def _stop(self) -> None:
        with suppress(Exception):  # the watcher tells what is wrong
            self.query.stop()

    def _watch(self) -> None:
        """Body of the background thread: wait for the query's end, then write the report."""
        error: LakeportError | None = None
        try:
            self.query.awaitTermination()
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
