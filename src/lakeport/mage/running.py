"""What Mage's targets do: land Singer lines, note their schemas, and test the connection.

A test of the connection is answered before Mage's orchestrator gives up, with one error for all.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Mapping
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
"""From a command's begin. A busy machine needs the rest of Mage's 10 s to start and end Python."""

_SPARK_SECONDS = 8.0


def land(
    config: DestinationConfig,
    flags: Flags,
    observer: MageObserver,
    source: BinaryIO | None = None,
) -> LandingReport:
    """Land Singer lines; a line that is no JSON object is logged, counted and skipped.

    Args:
        config: where to.
        flags: `state` and `input_file_path` count here.
        observer: is told how the load goes on.
        source: the lines, where no file is named; default: standard input.

    Raises:
        LakeportError: as `lakeport.land` does.
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


class SchemaNotes:
    """The latest schema of each stream."""

    def __init__(self) -> None:
        self._schemas: dict[str, SchemaMessage] = {}

    def get(self, stream: str) -> SchemaMessage | None:
        """A stream's schema."""
        return self._schemas.get(stream)

    def declare(self, stream: str, schema: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """Take a stream's JSON schema, and the keys of its SCHEMA message."""
        keys, parts = (tuple(row.get(name) or ()) for name in ("key_properties", "partition_keys"))
        self._schemas[stream] = SchemaMessage(stream, schema, keys, parts)

    def reading(self, source: BinaryIO) -> BinaryIO:
        """The same stream; the SCHEMA lines that are read from it are taken."""
        return cast(BinaryIO, _Noting(source, self._note))

    def _note(self, line: bytes) -> None:
        try:
            message = decode_message(line.strip(), 0)
        except InputError:
            return  # the load itself tells what is wrong with it
        if isinstance(message, SchemaMessage):
            self._schemas[message.stream] = message


class _Noting(io.RawIOBase):
    """Passes bytes on, and hands over the lines that hold the word SCHEMA."""

    def __init__(self, source: BinaryIO, note: Any) -> None:
        self._source = source
        self._note = note
        self._begun = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        data = self._source.read1(len(view)) if hasattr(self._source, "read1") else None
        if data is None:
            data = self._source.read(len(view))
        view[: len(data)] = data
        self._look(data)
        return len(data)

    def _look(self, data: bytes) -> None:
        """Look at the whole lines so far; keep what has begun, if it is no line without end."""
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
            self._note(lines[lines.rfind(b"\n", 0, at) + 1 : stop])
            at = lines.find(_WORD, stop)


def test_connection(
    config: DestinationConfig, lines: LogLines, *, since: float | None = None
) -> None:
    """Test the connection, and log what was found.

    Args:
        config: the destination's config.
        lines: takes a line for each thing that was looked at.
        since: the moment (`time.monotonic`) from which the time counts; default: now.

    Raises:
        DestinationError: all that would make a load fail, and what to change.
        MissingDependency: the destination's SDK is not installed.
    """
    begun = time.monotonic() if since is None else since
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
