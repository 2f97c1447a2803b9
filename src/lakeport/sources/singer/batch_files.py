"""Read the files that a BATCH message names, if they lie in allowed folders."""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import unquote_to_bytes, urlsplit

from lakeport.errors import SourceError
from lakeport.scrub import scrub
from lakeport.sources.input.decompression import UnpackLimits, detect_compression, open_stream
from lakeport.sources.input.lines import read_blocks
from lakeport.sources.singer.messages import BatchMessage

_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_BOM = b"\xef\xbb\xbf"
_HEAD = 6  # the longest magic number of a compression
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe does not hold it up


@dataclass(frozen=True, slots=True)
class BatchLines:
    """Consecutive record lines of a BATCH's file, or one line that is over the size limit.

    Attributes:
        data: a buffer that starts with these lines, valid until the next lines are read.
        end: the offset in `data` behind the last line.
        line: the number of the first line in its file, from 1.
        too_long: the first bytes of a line beyond the limit; None for ordinary lines.
    """

    data: bytes | bytearray
    end: int
    records: int
    line: int
    too_long: bytes | None = None


def default_batch_roots() -> tuple[Path, ...]:
    """Return the default folders for BATCH files: the temporary and the current one, if not `/`.

    `/` is left out: it would allow every file.
    """
    temporary, current = Path(tempfile.gettempdir()), Path.cwd()
    return (temporary,) if current == Path(current.anchor) else (temporary, current)


def resolve_batch_file(uri: str, roots: Sequence[Path]) -> Path:
    """Return a BATCH file's real path; SourceError unless it is a regular file below `roots`.

    Args:
        uri: `file:///...`, or an absolute path.
    """
    name = _parse_local_name(uri)
    if ".." in PurePosixPath(name).parts:
        raise _batch_file_error(
            uri, "its path has '..'", "have the tap name its files by absolute paths"
        )
    path = Path(os.path.realpath(name))
    if not any(path.is_relative_to(os.path.realpath(root)) for root in roots):
        raise _batch_file_error(
            uri,
            "it lies outside the folders that batch files may come from",
            f"allowed: {', '.join(str(root) for root in roots)}; `batch_roots` sets others",
        )
    try:
        status = path.stat()
    except OSError as error:
        raise _batch_file_error(uri, error.strerror or "it can't be read", "") from None
    _check_plain(uri, status)
    return path


def _parse_local_name(uri: str) -> str:
    """Return the absolute path of a `file:` URI or a plain path; SourceError if not local."""
    try:
        parts = urlsplit(uri) if "://" in uri else None
        if parts is None:
            name = os.fsencode(uri)
        elif parts.scheme == "file" and parts.netloc in ("", "localhost"):
            name = unquote_to_bytes(parts.path)
        else:
            name = b""
    except ValueError:  # a host that is none, or half a surrogate
        name = b""
    if not name.startswith(b"/") or b"\0" in name:
        raise _batch_file_error(uri, "it is not a local file", "have the tap write to file:///...")
    return os.fsdecode(name)


def _open_resolved(uri: str, path: Path) -> BinaryIO:
    """Open `path` folder by folder, without following symbolic links; SourceError if it fails.

    A link that is put into the path after the check can't lead out of the allowed folders.
    """
    folder = os.open(path.anchor, _FOLDER)
    try:
        for part in path.parts[1:-1]:
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.fdopen(os.open(path.name, _FILE, dir_fd=folder), "rb", buffering=0)
    except OSError as error:
        moved = error.errno in (errno.ELOOP, errno.ENOTDIR)
        reason = "a link was put into its path since it was checked" if moved else error.strerror
        raise _batch_file_error(uri, reason or "it can't be read", "") from None
    finally:
        os.close(folder)
    try:
        _check_plain(uri, os.fstat(file.fileno()))
    except SourceError:
        file.close()
        raise
    return file


def _check_plain(uri: str, status: os.stat_result) -> None:
    """Raise SourceError unless a file's status is that of a regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise _batch_file_error(uri, "it is not a plain file", "have the tap write plain files")


def _batch_file_error(uri: str, reason: str, hint: str) -> SourceError:
    """Return the error for a BATCH file that is refused, with its URI scrubbed of secrets."""
    return SourceError(f"can't take the batch file {scrub(uri)!r}: {reason}", hint)


def read_batch_files(
    message: BatchMessage, roots: Sequence[Path], max_record_mb: int, limits: UnpackLimits
) -> Iterator[BatchLines]:
    """Read the files of a BATCH message; yield their record lines in order, without blank ones.

    All files are resolved before the first is read.

    Raises:
        SourceError: a file is not allowed, absent, corrupt, cut off, compressed in another way
            than the message says, or unpacks to more than the limits allow.
    """
    for uri, path in [(uri, resolve_batch_file(uri, roots)) for uri in message.manifest]:
        with _open_resolved(uri, path) as file:
            kind = detect_compression(file.read(_HEAD))
            if (kind or "none") != message.compression:
                raise SourceError(
                    f"batch file {path}: compression is {kind or 'none'}, and its BATCH message "
                    f"says {message.compression}",
                    "correct `encoding.compression`, or get the file again",
                )
            file.seek(0)
            yield from _read_lines(open_stream(file, str(path), limits), max_record_mb)


def _read_lines(opened: BinaryIO, max_record_mb: int) -> Iterator[BatchLines]:
    """Yield a file's lines in blocks, or one by one to drop blank lines and byte order marks."""
    line = 1
    with opened as stream:
        for block in read_blocks(stream, max_record_mb << 20):
            if block.too_long is not None:
                yield BatchLines(b"", 0, 0, line, block.too_long)
                line += 1
                continue
            data, end = block.data, block.end
            marked = data.find(b"\n" + _BOM, 0, end) >= 0
            if data[0] == ord("{") and not marked and not _BLANK_LINE.search(data, 0, end):
                count = data.count(b"\n", 0, end)
                yield BatchLines(data, end, count, line)
                line += count
                continue
            for text in bytes(data[: end - 1]).split(b"\n"):
                text = text.removeprefix(_BOM)
                if text.strip():
                    yield BatchLines(text + b"\n", len(text) + 1, 1, line)
                line += 1
