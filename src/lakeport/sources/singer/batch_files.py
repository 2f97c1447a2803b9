"""The files that a BATCH message names: which may be read, and their lines."""

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
from lakeport.sources.input.decompression import UnpackLimits, compression_of, open_stream
from lakeport.sources.input.lines import count_lines, read_blocks
from lakeport.sources.singer.messages import BatchFiles

_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_BOM = b"\xef\xbb\xbf"
_HEAD = 6  # the longest magic number of a compression
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe does not hold it up


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
    """The folders that BATCH files may lie in unless the configuration names others.

    The current folder is one of them, except where it is `/`, which would allow every file.
    """
    temporary, current = Path(tempfile.gettempdir()), Path.cwd()
    return (temporary,) if current == Path(current.anchor) else (temporary, current)


def resolve(uri: str, roots: Sequence[Path]) -> Path:
    """Turn a manifest's entry into the path of the file to open, free of links.

    Args:
        uri: `file:///...`, or an absolute path.
        roots: folders; the file must lie in one of them after following its links.

    Raises:
        SourceError: another scheme, `..`, outside the roots, absent, or not a plain file.
    """
    name = _local_name(uri)
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
        status = path.stat()
    except OSError as error:
        raise _refusal(uri, error.strerror or "it can't be read", "") from None
    _check_plain(uri, status)
    return path


def _local_name(uri: str) -> str:
    """The local path that a manifest's entry names.

    Raises:
        SourceError: it names none.
    """
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
        raise _refusal(uri, "it is not a local file", "have the tap write to file:///...")
    return os.fsdecode(name)


def _open(uri: str, path: Path) -> BinaryIO:
    """Open what `resolve` allowed, folder by folder from the root, following no link.

    So it is the file that was checked, or another one at the same place: what is put there
    meanwhile can't lead out of it.

    Raises:
        SourceError: it is gone, or there is something else now.
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
        reason = "a link was put into its path meanwhile" if moved else error.strerror
        raise _refusal(uri, reason or "it can't be read", "") from None
    finally:
        os.close(folder)
    try:
        _check_plain(uri, os.fstat(file.fileno()))
    except SourceError:
        file.close()
        raise
    return file


def _check_plain(uri: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _refusal(uri, "it is not a plain file", "have the tap write plain files")


def _refusal(uri: str, reason: str, hint: str) -> SourceError:
    return SourceError(f"can't take the batch file {scrub(uri)!r}: {reason}", hint)


def read_batch_files(
    message: BatchFiles, roots: Sequence[Path], max_record_mb: int, limits: UnpackLimits
) -> Iterator[Piece]:
    """Read the record lines of a BATCH's files, in order and without blank ones.

    All files are resolved before the first is read.

    Raises:
        SourceError: a file may not be read, is absent, corrupt, cut off, compressed otherwise
            than the message says, or unpacks to more than the limits allow.
    """
    for uri, path in [(uri, resolve(uri, roots)) for uri in message.manifest]:
        with _open(uri, path) as file:
            kind = compression_of(file.read(_HEAD))
            if (kind or "none") != message.compression:
                raise SourceError(
                    f"batch file {path}: compression is {kind or 'none'}, and its BATCH message "
                    f"says {message.compression}",
                    "correct `encoding.compression`, or get the file again",
                )
            file.seek(0)
            yield from _lines(open_stream(file, str(path), limits), max_record_mb)


def _lines(opened: BinaryIO, max_record_mb: int) -> Iterator[Piece]:
    line = 1
    with opened as stream:
        for block in read_blocks(stream, max_record_mb << 20):
            if block.too_long is not None:
                yield Piece(b"", 0, 0, line, block.too_long)
                line += 1
                continue
            data, end = block.data, block.end
            marked = data.find(b"\n" + _BOM, 0, end) >= 0
            if data[0] == ord("{") and not marked and not _BLANK_LINE.search(data, 0, end):
                count = count_lines(data, 0, end)
                yield Piece(data, end, count, line)
                line += count
                continue
            for text in bytes(data[: end - 1]).split(b"\n"):
                text = text.removeprefix(_BOM)
                if text.strip():
                    yield Piece(text + b"\n", len(text) + 1, 1, line)
                line += 1
