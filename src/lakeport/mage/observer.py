"""What a load tells, as Mage's log lines."""

from __future__ import annotations

import json
from typing import Any

from lakeport.loading.report import Failure, LandingReport
from lakeport.mage.log import LogLines
from lakeport.model import Landed


def explained(failure: Failure) -> str:
    """The one text that the orchestrator shows of an error.

    Example:
        >>> explained(Failure("ConfigError", "the key `bucket` is missing", "name it."))
        'the key `bucket` is missing\\n\\nHint: name it.'
    """
    return f"{failure.message}\n\nHint: {failure.hint}" if failure.hint else failure.message


class MageObserver:
    """Tells a load as log lines.

    Args:
        lines: writes them.
    """

    def __init__(self, lines: LogLines) -> None:
        self.lines = lines
        self.landed = 0
        self.options = ""

    def started(self) -> None:
        """Say that work begins."""
        self.lines.log("INFO", f"{self.lines.caller} process started.")

    def reading(self, path: str) -> None:
        """Say that the lines come from a file."""
        self.lines.log("INFO", f"Reading input from file path {path}.")

    def on_progress(self, stream: str, records: int, size: int) -> None:
        """Tell how much was read, for `--debug`; not as `records`, which are added up."""
        self.lines.log("DEBUG", "Reading.", {"stream": stream, "read": records, "bytes": size})

    def on_landed(self, landed: Landed) -> None:
        """Tell a batch, with the numbers that the orchestrator adds up."""
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
        """Log a STATE that went out."""
        tags = {"state": json.loads(state)}
        self.lines.log("INFO", "State for bookmark properties update completed.", tags)

    def on_warning(self, text: str) -> None:
        """Log a warning."""
        self.lines.log("WARNING", text)

    def on_finished(self, report: LandingReport) -> None:
        """Tell what was set aside or left out, and the sums of a load that came to its end."""
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

    def failure(self, failure: Failure, trace: str = "") -> None:
        """Log an error; its traceback goes into `errors`, if it was asked for."""
        tags: dict[str, Any] = {
            "error": explained(failure),
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
        """Do nothing: each line was written at once."""
