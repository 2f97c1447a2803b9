"""Mage's log lines, which its orchestrator takes apart for errors and metrics.

On standard error a line is `LEVEL [time] {json}`; with `--log_to_stdout` it is the bare JSON on
standard output. The orchestrator adds up the whole numbers among `tags` under `records`,
`records_inserted`, `records_updated`, so each is told once a batch; the last `error` and `state`
count. A bare line of level ERROR or EXCEPTION ends its run as failed, so warnings are WARNING.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, BinaryIO, Literal

from lakeport.scrub import scrub

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR", "EXCEPTION"]

_LIBRARY = logging.getLogger("lakeport")


def log_json(
    level: Level, message: str, tags: Mapping[str, Any], *, caller: str, now: datetime, name: str
) -> str:
    """What a log line holds, as JSON.

    Args:
        level: the line's level; EXCEPTION is a value of its own beside ERROR.
        message: what happened.
        tags: values for machines.
        caller: who speaks, such as `AmazonS3`.
        now: the moment, with its zone.
        name: the line's own name.

    Example:
        >>> now = datetime(2024, 3, 4, tzinfo=UTC)
        >>> log_json("INFO", "ok", {}, caller="AmazonS3", now=now, name="1")[:38]
        '{"caller": "AmazonS3", "level": "INFO"'
    """
    return json.dumps(
        {
            "caller": caller,
            "level": level,
            "message": message,
            "tags": dict(tags),
            "timestamp": int(now.timestamp()),
            "uuid": name,
            "type": "LOG",
        },
        default=str,
    )


class LogLines:
    """Writes log lines, secrets masked. Safe to call from several threads.

    Args:
        caller: who speaks, such as `AmazonS3`.
        out: where the lines go.
        bare: whether a line is the JSON alone.
        debug: whether lines of level DEBUG are written.
    """

    def __init__(
        self, caller: str, out: BinaryIO, *, bare: bool = False, debug: bool = False
    ) -> None:
        self.caller = caller
        self._out = out
        self._bare = bare
        self._debug = debug
        self._secrets: tuple[str, ...] = ()

    def protect(self, secrets: Iterable[str]) -> None:
        """Mask these values from now on."""
        self._secrets = (*self._secrets, *secrets)

    def log(self, level: Level, message: str, tags: Mapping[str, Any] | None = None) -> None:
        """Write one line, at once and in one piece."""
        if level == "DEBUG" and not self._debug:
            return
        now = datetime.now(UTC)
        line = log_json(
            level,
            scrub(message, self._secrets),
            self._masked(tags or {}),
            caller=self.caller,
            now=now,
            name=uuid.uuid4().hex,
        )
        if not self._bare:
            start = "ERROR" if level == "EXCEPTION" else level  # as Python's logging has it
            line = f"{start} [{now.isoformat()}] {line}"
        self._out.write(f"{line}\n".encode())
        self._out.flush()

    def _masked(self, value: Any) -> Any:
        """Nested values with secrets masked in every text; the JSON around them stays whole."""
        if isinstance(value, Mapping):
            return {scrub(str(key), self._secrets): self._masked(v) for key, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._masked(item) for item in value]
        return scrub(value, self._secrets) if isinstance(value, str) else value

    @contextmanager
    def library(self) -> Iterator[None]:
        """Meanwhile, what lakeport's modules log comes out as lines, and nowhere else."""
        before = _LIBRARY.handlers, _LIBRARY.level, _LIBRARY.propagate
        _LIBRARY.handlers, _LIBRARY.propagate = [_Handler(self)], False
        _LIBRARY.setLevel(logging.DEBUG if self._debug else logging.INFO)
        try:
            yield
        finally:
            _LIBRARY.handlers, level, _LIBRARY.propagate = before
            _LIBRARY.setLevel(level)


class _Handler(logging.Handler):
    """Writes records as lines; none above WARNING, since a tap's error is not this run's."""

    def __init__(self, lines: LogLines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        level: Level = "DEBUG"
        if record.levelno >= logging.WARNING:
            level = "WARNING"
        elif record.levelno >= logging.INFO:
            level = "INFO"
        self._lines.log(level, record.getMessage())
