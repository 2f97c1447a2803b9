"""The work of Mage's targets: land Singer messages, keep their schemas, test the connection.

A test of the connection ends within the 10 seconds that Mage's orchestrator waits.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from lakeport.errors import DestinationError, InputError
from lakeport.loading import run
from lakeport.loading.check import check
from lakeport.sources.input.decompression import STDIN, open_input, unpack_limits
from lakeport.sources.singer.messages import SchemaMessage, decode_message
from lakeport.sources.singer.state import StateOutput

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lakeport.config.base import DestinationConfig
    from lakeport.loading.report import LandingReport
    from lakeport.mage.flags import Flags
    from lakeport.mage.observer import LogLines, MageObserver

_WORD = b'"SCHEMA"'
_LONGEST = 4 << 20

SECONDS = 6.0
"""Limit of the store's test from the command's start; starting Python may take the rest of 10 s."""

_SPARK_SECONDS = 8.0


def land(
    config: DestinationConfig,
    flags: Flags,
    observer: MageObserver,
    source: BinaryIO | None = None,
) -> LandingReport:
    """Land Singer messages of the flag's file, `source` or stdin; skip lines that are not JSON.

    Such lines are counted and logged. STATE goes to the flag `state`'s file, or to stdout.

    Raises:
        LakeportError: as from `lakeport.land`.
    """
    path = Path(flags.state) if flags.state else None
    sink = StateOutput(path=path) if path else StateOutput(stream=sys.stdout.buffer)
    observer.lines.log("INFO", f"{observer.lines.caller} process started.")
    with ExitStack() as opened:
        lines: BinaryIO | str = source or STDIN
        if flags.input_file_path:
            lines = opened.enter_context(open_input(flags.input_file_path, unpack_limits(config)))
            observer.lines.log("INFO", f"Reading input from file path {flags.input_file_path}.")
        return run.land(
            lines,
            config,
            source_format="singer",
            stray_lines="skip",
            observer=observer,
            on_state=sink.emit,
        )


class StreamSchemas:
    """Keeps the newest schema of each Singer stream."""

    def __init__(self) -> None:
        self._schemas: dict[str, SchemaMessage] = {}

    def get(self, stream: str) -> SchemaMessage | None:
        """Return a stream's schema; None if it has none."""
        return self._schemas.get(stream)

    def declare(self, stream: str, schema: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """Store a stream's JSON schema, with the keys of its SCHEMA message."""
        keys, parts = (tuple(row.get(name) or ()) for name in ("key_properties", "partition_keys"))
        self._schemas[stream] = SchemaMessage(stream, schema, keys, parts)

    def record_from(self, source: BinaryIO) -> BinaryIO:
        """Return a stream that reads from `source` and stores the schemas of its SCHEMA lines."""
        return cast(BinaryIO, _SchemaReader(source, self._store_line))

    def _store_line(self, line: bytes) -> None:
        """Store the schema of a SCHEMA message; ignore any other or invalid line."""
        try:
            message = decode_message(line.strip(), 0)
        except InputError:
            return  # the load reports what is wrong with it
        if isinstance(message, SchemaMessage):
            self._schemas[message.stream] = message


class _SchemaReader(io.RawIOBase):
    """Stream that reads another one, and passes lines with the word SCHEMA to a callback."""

    def __init__(self, source: BinaryIO, on_line: Callable[[bytes], None]) -> None:
        self._source = source
        self._on_line = on_line
        self._begun = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Read bytes of the source into `buffer`; return their number, 0 at the end."""
        view = memoryview(buffer)
        data = self._source.read1(len(view)) if hasattr(self._source, "read1") else None
        if data is None:
            data = self._source.read(len(view))
        view[: len(data)] = data
        self._scan(data)
        return len(data)

    def _scan(self, data: bytes) -> None:
        """Pass lines with SCHEMA to the callback; keep 4 MiB of a cut line; b"" ends the input."""
        end = data.rfind(b"\n") + 1 if data else 0
        if data and not end:
            self._begun = (self._begun + data)[:_LONGEST]
            return
        lines = self._begun + data[:end]
        self._begun = data[end:]
        at = lines.find(_WORD)
        while at >= 0:
            stop = lines.find(b"\n", at)
            stop = len(lines) if stop < 0 else stop
            self._on_line(lines[lines.rfind(b"\n", 0, at) + 1 : stop])
            at = lines.find(_WORD, stop)


def test_connection(
    config: DestinationConfig, lines: LogLines, *, start_seconds: float | None = None
) -> None:
    """Test the connection and log each check's result; raise DestinationError if one fails.

    The checks end within 8 seconds of `start_seconds`, a `time.monotonic` (default: now).

    Raises:
        DestinationError: it names everything that would make a load fail, and what to change.
        MissingDependency: the destination's SDK is not installed.
    """
    begun = time.monotonic() if start_seconds is None else start_seconds
    lines.log("INFO", "Testing connection...")
    store, spark = (
        max(1.0, round(begun + seconds - time.monotonic(), 1))
        for seconds in (SECONDS, _SPARK_SECONDS)
    )
    report = check(config, store, spark)
    for item in report.items:
        if item.status != "failed":
            text = f"{item.name}: {item.detail}" + (f" ({item.hint})" if item.hint else "")
            lines.log("INFO", text, {"item": item.name, "status": item.status})
    failed = [item for item in report.items if item.status == "failed"]
    if failed:
        raise DestinationError(
            f"{report.target}: " + "; ".join(f"{item.name}: {item.detail}" for item in failed),
            " ".join(dict.fromkeys(item.hint for item in failed if item.hint)),
        )
    lines.log("INFO", f"{report.target} can be landed in.", {"target": report.target})
