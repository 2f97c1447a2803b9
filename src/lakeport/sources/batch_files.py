"""The files that a BATCH message names: which may be read, and their lines."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from lakeport.errors import SourceError
from lakeport.sources.inputs import compression_of, open_input
from lakeport.sources.lines import count_lines, read_blocks
from lakeport.sources.messages import BatchFiles

__all__ = ["Piece", "default_roots", "read_batch_files", "resolve"]

_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some consecutive lines of one file.

    Attributes:
        data: a buffer that starts with these lines, valid until the next piece is asked for.
        end: where they end.
        records: how many lines that is.
        line: number of the first of them in its file, from 1.
        too_long: the first bytes of a line beyond the limit, which stands here alone.
    """

    data: bytes | bytearray
    end: int
    records: int
    line: int
    too_long: bytes | None = None


def default_roots() -> tuple[Path, ...]:
    """The folders that BATCH files may lie in unless the configuration names others."""
    return Path(tempfile.gettempdir()), Path.cwd()


def resolve(uri: str, roots: Sequence[Path]) -> Path:
    """Turn a manifest's entry into the file to open.

    Args:
        uri: `file:///...`, or an absolute path.
        roots: folders; the file must lie in one of them after following its links.

    Raises:
        SourceError: another scheme, `..`, outside the roots, absent, or not a plain file.
    """
    parts = urlsplit(uri) if "://" in uri else None
    local = parts is None or (parts.scheme == "file" and parts.netloc in ("", "localhost"))
    name = unquote(parts.path) if parts is not None else uri
    if not local or not name.startswith("/") or "\0" in name:
        raise _refusal(uri, "it is not a local file", "have the tap write to file:///...")
    if ".." in PurePosixPath(name).parts:
        raise _refusal(uri, "its path has '..'", "have the tap name its files by absolute paths")
    path = Path(os.path.realpath(name))
    if not any(path.is_relative_to(os.path.realpath(root)) for root in roots):
        raise _refusal(
            uri,
            "it lies outside the folders that batch files may come from",
            f"allowed: {', '.join(str(root) for root in roots)}; `batch_roots` sets others",
        )
    try:
        plain = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        raise _refusal(uri, error.strerror or "it can't be read", "") from None
    if not plain:
        raise _refusal(uri, "it is not a plain file", "have the tap write plain files")
    return path


def _refusal(uri: str, reason: str, hint: str) -> SourceError:
    return SourceError(f"can't take the batch file {uri}: {reason}", hint)


def read_batch_files(
    message: BatchFiles, roots: Sequence[Path], max_record_mb: int
) -> Iterator[Piece]:
    """Read the record lines of a BATCH's files, in order and without blank ones.

    All files are resolved before the first is read.

    Raises:
        SourceError: a file may not be read, is absent, corrupt, cut off, or compressed otherwise
            than the message says.
    """
    for path in [resolve(uri, roots) for uri in message.manifest]:
        with path.open("rb") as file:
            kind = compression_of(file.read(6))
        if (kind or "none") != message.compression:
            raise SourceError(
                f"batch file {path}: compression is {kind or 'none'}, and its BATCH message says "
                f"{message.compression}",
                "correct `encoding.compression`, or get the file again",
            )
        yield from _lines(path, max_record_mb)


def _lines(path: Path, max_record_mb: int) -> Iterator[Piece]:
    line = 1
    with open_input(path) as stream:
        for block in read_blocks(stream, max_record_mb << 20):
            if block.too_long is not None:
                yield Piece(b"", 0, 0, line, block.too_long)
                line += 1
                continue
            data, end = block.data, block.end
            start = len(_BOM) if line == 1 and data.startswith(_BOM) else 0
            if data[start] == ord("{") and not start and not _BLANK_LINE.search(data, 0, end):
                count = count_lines(data, 0, end)
                yield Piece(data, end, count, line)
                line += count
                continue
            for text in bytes(data[start : end - 1]).split(b"\n"):
                if text.strip():
                    yield Piece(text + b"\n", len(text) + 1, 1, line)
                line += 1
