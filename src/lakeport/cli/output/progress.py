"""A bar for each stream on a terminal: rows, size read, rate, batches landed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from lakeport.cli.output.formatting import count, shown, size

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from lakeport.model import Landed

__all__ = ["Bars"]


class Bars:
    """Live bars; drawn when the first stream is heard of.

    Args:
        stream: the terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._batches: dict[str, int] = {}

    def read(self, stream: str, records: int, bytes_read: int) -> None:
        """Show how much of a stream was read so far."""
        progress, task = self._task(stream)
        elapsed = progress.tasks[list(self._tasks).index(stream)].elapsed or 0.0
        rate = f"{size(bytes_read / elapsed)}/s" if elapsed > 0 and bytes_read > 0 else ""
        progress.update(task, rows=count(records), size=size(bytes_read), rate=rate)

    def landed(self, landed: Landed) -> None:
        """Count a batch."""
        progress, task = self._task(landed.stream)
        self._batches[landed.stream] = self._batches.get(landed.stream, 0) + 1
        progress.update(task, batches=self._batches[landed.stream])

    def line(self, text: str) -> bool:
        """Print a line above the bars; False when there are none."""
        if self._progress is None:
            return False
        self._progress.console.print(text, markup=False, highlight=False)
        return True

    def close(self) -> None:
        """Leave the bars as they are and free the terminal."""
        if self._progress is None:
            return
        for task in self._tasks.values():
            self._progress.update(task, total=1, completed=1)
        self._progress.stop()
        self._progress = None

    def _task(self, stream: str) -> tuple[Progress, TaskID]:
        progress = self._progress or self._start()
        if stream not in self._tasks:
            self._tasks[stream] = progress.add_task(
                shown(stream, 40), total=None, rows="?", size="?", rate="", batches=0
            )
        return progress, self._tasks[stream]

    def _start(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._tasks.clear()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[rows]} rows"),
            TextColumn("{task.fields[size]}"),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[batches]} batches landed"),
            console=Console(file=self._stream),
        )
        self._progress.start()
        return self._progress
