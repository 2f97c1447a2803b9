"""Writes a load's progress as Mage's log lines.

On standard error a line is `LEVEL [time] {json}`; with `--log_to_stdout` it is the bare JSON on
standard output. Mage's orchestrator sums the tags `records`, `records_inserted` and
`records_updated`, so each batch logs them once; the last `error` and `state` count. A bare line of
level ERROR or EXCEPTION fails the orchestrator's run, so warnings have level WARNING.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, BinaryIO, Literal

from lakeport.loading.report import Failure, LandingReport
from lakeport.loading.telemetry import LOGGER
from lakeport.model import Landed
from lakeport.scrub import scrub

LogLevel = Literal["DEBUG", "INFO", "WARNING", "EXCEPTION"]

_LIBRARY = logging.getLogger("lakeport")


class LogLines:
    """Writes Mage's JSON log lines, with secrets masked; safe to call from several threads.

    Args:
        caller: the destination's name in the lines, such as `AmazonS3`.
        out: a stream, or a logger, which gets the bare JSON of each line at its level.
        bare: whether a line is only the JSON.
    """

    def __init__(
        self,
        caller: str,
        out: BinaryIO | logging.Logger,
        *,
        bare: bool = False,
        debug: bool = False,
    ) -> None:
        self.caller = caller
        self._out = out
        self._bare = bare
        self._debug = debug
        self._secrets: tuple[str, ...] = ()

    def protect(self, secrets: Iterable[str]) -> None:
        """Mask these values in all lines from now on."""
        self._secrets = (*self._secrets, *secrets)

    def log(self, level: LogLevel, message: str, tags: Mapping[str, Any] | None = None) -> None:
        """Write a log line and flush it; skip level DEBUG unless debugging is on."""
        if level == "DEBUG" and not self._debug:
            return
        now = datetime.now(UTC)
        facts = {
            "caller": self.caller,
            "level": level,  # EXCEPTION is a value of its own beside ERROR
            "message": scrub(message, self._secrets),
            "tags": self._mask(tags or {}),
            "timestamp": int(now.timestamp()),
            "uuid": uuid.uuid4().hex,
            "type": "LOG",
        }
        line = json.dumps(facts, default=str)
        if isinstance(self._out, logging.Logger):
            number = logging.getLevelNamesMapping().get(level, logging.ERROR)
            self._out.log(number, "%s", line)
            return
        if not self._bare:
            start = "ERROR" if level == "EXCEPTION" else level  # as Python's logging has it
            line = f"{start} [{now.isoformat()}] {line}"
        self._out.write(f"{line}\n".encode())
        self._out.flush()

    def _mask(self, value: Any) -> Any:
        """Return a nested value with secrets masked in all keys and strings."""
        if isinstance(value, Mapping):
            return {scrub(str(key), self._secrets): self._mask(v) for key, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._mask(item) for item in value]
        return scrub(value, self._secrets) if isinstance(value, str) else value

    @contextmanager
    def redirect_library_log(self) -> Iterator[None]:
        """Context manager that sends log records of lakeport's loggers to these lines only.

        It does nothing if `out` is a logger of lakeport's own, which would get its own lines.
        """
        if isinstance(self._out, logging.Logger) and f"{self._out.name}.".startswith("lakeport."):
            yield
            return
        before = _LIBRARY.handlers, _LIBRARY.level, _LIBRARY.propagate
        handler = _LineHandler(self)
        handler.addFilter(lambda record: record.name != LOGGER)  # `MageObserver` tells of loads
        _LIBRARY.handlers, _LIBRARY.propagate = [handler], False
        _LIBRARY.setLevel(logging.DEBUG if self._debug else logging.INFO)
        try:
            yield
        finally:
            _LIBRARY.handlers, level, _LIBRARY.propagate = before
            _LIBRARY.setLevel(level)


class _LineHandler(logging.Handler):
    """Log handler that writes Mage's lines; errors become WARNING, as the load may succeed."""

    def __init__(self, lines: LogLines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Write one log record as a Mage log line."""
        level: LogLevel = "DEBUG"
        if record.levelno >= logging.WARNING:
            level = "WARNING"
        elif record.levelno >= logging.INFO:
            level = "INFO"
        self._lines.log(level, record.getMessage())


class MageObserver:
    """Observer that writes a load's progress, report and errors as Mage's log lines."""

    def __init__(self, lines: LogLines) -> None:
        self.lines = lines
        self.landed = 0
        self.options = ""

    def on_progress(self, stream: str, records: int, size: int) -> None:
        """Log the records and bytes read, for `--debug`; Mage would sum a tag `records`."""
        self.lines.log("DEBUG", "Reading.", {"stream": stream, "read": records, "bytes": size})

    def on_landed(self, landed: Landed) -> None:
        """Count a batch and log its rows, which Mage adds up; log a skipped one without rows."""
        self.landed += 1
        tags: dict[str, Any] = {
            "stream": landed.stream,
            "table_name": landed.table.rstrip("/").rpartition("/")[2],
            "table": landed.table,
            "batch": landed.sequence,
        }
        if landed.skipped:
            self.lines.log("INFO", "Export data skipped: this run had landed it before.", tags)
            return
        tags |= {
            "records": landed.rows,
            "records_inserted": landed.rows,
            "files": len(landed.files),
            "bytes": landed.bytes,
        }
        if landed.version is not None:
            tags["version"] = landed.version
        self.lines.log("INFO", "Export data completed.", tags)

    def on_state(self, state: bytes) -> None:
        """Log a committed STATE."""
        tags = {"state": json.loads(state)}
        self.lines.log("INFO", "State for bookmark properties update completed.", tags)

    def on_warning(self, text: str) -> None:
        """Log a warning."""
        self.lines.log("WARNING", text)

    def on_finished(self, report: LandingReport) -> None:
        """Log rejected records, dropped fields and warnings, and a successful load's totals."""
        for stream in report.streams:
            tags = {"stream": stream.stream}
            if stream.rejected:
                text = f"Bad records that were set aside: {stream.rejected}."
                self.lines.log("WARNING", text, {**tags, "rejected": stream.rejected})
            for column, count in stream.dropped.items():
                text = f"Records from which the undeclared field {column!r} was dropped: {count}."
                self.lines.log("WARNING", text, {**tags, "dropped": count})
            for text in stream.notes:
                self.lines.log("INFO", text, tags)
            for text in stream.warnings:
                self.lines.log("WARNING", text, tags)
        if report.stray_lines:
            text = f"Lines that belong to no stream: {report.stray_lines}."
            self.lines.log("WARNING", text, {"stray_lines": report.stray_lines})
        for uri in report.quarantine:
            self.lines.log("WARNING", f"Bad records are in {uri}.", {"quarantine": uri})
        if report.ok:
            sums: dict[str, Any] = {
                "run_id": report.run_id,
                "rows": report.rows,
                "files": report.files,
                "seconds": round(report.seconds, 3),
            }
            self.lines.log("INFO", f"{self.lines.caller} process completed.", sums)

    def failure(self, failure: Failure, trace: str = "", value: str = "") -> None:
        """Log an error, with its traceback, if given, in the tag `errors`; without `value`."""
        tags: dict[str, Any] = {
            "error": failure.message + (f"\n\nHint: {failure.hint}" if failure.hint else ""),
            "error_type": failure.type,
            "message": failure.message,
        }
        if failure.hint:
            tags["hint"] = failure.hint
        if trace:
            tags["errors"] = trace.splitlines()
        message = failure.message.rstrip(".")
        text = f"{self.lines.caller} process failed with error {message}."
        self.lines.log("EXCEPTION", text, tags)

    def close(self) -> None:
        """Do nothing: each line was flushed."""
