"""Log lines of a command as JSON, with `--log-format json`: one object a line on standard error.

Nothing else goes to standard error then: no progress, no text, and the final error is a line, too.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TextIO

from lakeport.errors import ConfigError
from lakeport.loading.telemetry import log_event

if TYPE_CHECKING:
    from lakeport.loading.report import Failure

OPTION: Final = "--log-format"
VARIABLE: Final = "LAKEPORT_LOG_FORMAT"
_FORMATS: Final = ("", "text", "json")
_STANDARD: Final = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_LIBRARY: Final = logging.getLogger("lakeport")


class _JsonLines(logging.StreamHandler[TextIO]):
    """Writes each log record as a JSON object: time, level, event, message, and its values."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write a record: not one whose text may hold a record's values."""
        return not hasattr(record, "shows_data")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname,
            "event": "log",
            "message": record.getMessage(),
            "logger": record.name,
        }
        values = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        return json.dumps({**line, **values}, default=str)


def is_wanted(arguments: Sequence[str]) -> bool:
    """Whether a command line, or else the environment, asks for JSON."""
    wanted = os.environ.get(VARIABLE, "")
    for name, following in zip(arguments, [*arguments[1:], ""], strict=False):
        option, equals, value = name.partition("=")
        if option == OPTION:
            wanted = value if equals else following
    return wanted.lower() == "json"


def is_on() -> bool:
    """Whether this process writes its log as JSON."""
    return any(isinstance(handler, _JsonLines) for handler in _LIBRARY.handlers)


def check_variable() -> None:
    """Raise ConfigError if the environment names another format than text or JSON."""
    given = os.environ.get(VARIABLE, "")
    if given.lower() not in _FORMATS:
        raise ConfigError(f"{VARIABLE} is {given!r}", "write text or json, or unset it.")


@contextmanager
def write_lines(arguments: Sequence[str], err: TextIO) -> Iterator[None]:
    """Context manager that writes log records and Python's warnings to `err`, if wanted."""
    if not is_wanted(arguments):
        yield
        return
    handler = _JsonLines(err)
    loggers = (_LIBRARY, logging.getLogger("py.warnings"))
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


def log_failure(failure: Failure, exit_code: int, trace: str) -> None:
    """Log the error that ends a command."""
    log_event(
        logging.ERROR,
        "error",
        failure.message,
        error_type=failure.type,
        hint=failure.hint,
        exit_code=exit_code,
        trace=trace or None,
    )
