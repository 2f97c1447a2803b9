"""Who is told how a run goes on, and how a load's own words reach them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakeport.loading.report import LandingReport
    from lakeport.model import Landed
    from lakeport.pipeline.report import LoadReport, PipelineReport


class PipelineObserver(Protocol):
    """Who wants to know how a run of a lake's file goes on. Called from several threads."""

    def on_begun(self, load: str) -> None:
        """A load begins."""

    def on_progress(self, load: str, stream: str, records: int, size: int) -> None:
        """So much of a stream was read so far: records and bytes, -1 if unknown."""

    def on_landed(self, load: str, landed: Landed) -> None:
        """A batch of a load is durable and visible, or was landed by the same run before."""

    def on_warning(self, load: str, text: str) -> None:
        """A sentence that the user has to read; `load` is empty where it concerns none."""

    def on_ended(self, report: LoadReport) -> None:
        """A load has ended, however, or will not begin."""

    def on_finished(self, report: PipelineReport) -> None:
        """The run is over."""


class Together:
    """Several observers as one.

    Args:
        observers: whom to tell, in order.
    """

    def __init__(self, observers: Iterable[PipelineObserver]) -> None:
        self._observers = tuple(observers)

    def on_begun(self, load: str) -> None:
        """Tell it to all."""
        for each in self._observers:
            each.on_begun(load)

    def on_progress(self, load: str, stream: str, records: int, size: int) -> None:
        """Tell it to all."""
        for each in self._observers:
            each.on_progress(load, stream, records, size)

    def on_landed(self, load: str, landed: Landed) -> None:
        """Tell it to all."""
        for each in self._observers:
            each.on_landed(load, landed)

    def on_warning(self, load: str, text: str) -> None:
        """Tell it to all."""
        for each in self._observers:
            each.on_warning(load, text)

    def on_ended(self, report: LoadReport) -> None:
        """Tell it to all."""
        for each in self._observers:
            each.on_ended(report)

    def on_finished(self, report: PipelineReport) -> None:
        """Tell it to all."""
        for each in self._observers:
            each.on_finished(report)


class OfLoad:
    """The observer of one load: hands on what it hears, with the load's name.

    Args:
        load: its name.
        run: who observes the run.

    Attributes:
        report: the load's, once it has ended.
    """

    def __init__(self, load: str, run: PipelineObserver) -> None:
        self._load = load
        self._run = run
        self.report: LandingReport | None = None

    def on_progress(self, stream: str, records: int, size: int) -> None:
        """Hand it on."""
        self._run.on_progress(self._load, stream, records, size)

    def on_landed(self, landed: Landed) -> None:
        """Hand it on."""
        self._run.on_landed(self._load, landed)

    def on_state(self, state: bytes) -> None:
        """Do nothing: the table's commits hold it."""

    def on_warning(self, text: str) -> None:
        """Hand it on."""
        self._run.on_warning(self._load, text)

    def on_finished(self, report: LandingReport) -> None:
        """Keep it."""
        self.report = report
