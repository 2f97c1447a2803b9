"""Bytes of a file or of stdin, decompressed on the way: plain, gzip, zstd, bzip2, xz.

The first bytes tell the kind, so stdin and files of any name are covered too. A name that
promises a compression which the bytes don't have is an error, and so is a member that ends early.
The libraries' own streams end without an error at some of what is cut off or damaged (record 13).

What real data reach is allowed by default: gzip makes at most 1030 bytes of one, and CSV files that
hardly change from row to row 200 to 400. So the ratio counts only beyond 1 GiB unpacked, which
every disk has room for. Everything is counted while it is streamed, never taken from a header.

Nothing is ever written under a member's name, so that `../` in one leads nowhere.
"""

from __future__ import annotations

import bz2
import contextlib
import io
import lzma
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from lakeport.errors import LakeportError, MissingDependency, SourceError
from lakeport.sources.input.lines import filler

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lakeport.config.base import DestinationConfig


_FLOOR = 1 << 30

STDIN = "-"
"""The name that stands for standard input."""

Input = tuple[str, Callable[[], Any]]
"""The name of an input in errors, and the function that opens it for reading bytes."""

_HEAD = 6  # the longest magic number
_PIPE_BYTES = 1 << 20
_BLOCK = 1 << 20

ARCHIVE = ".zip"
"""The ending of archives' names."""
HIDDEN = ("_", ".")
"""First characters of the names of hidden files and folders."""

_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")  # an archive, and one without files
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """What one compressed input may become.

    Attributes:
        ratio: unpacked bytes for each packed one, once the whole is larger than 1 GiB; 0: any.
        size: unpacked bytes; 0: any number.
    """

    ratio: float = 500
    size: int = 1 << 40


DEFAULT = UnpackLimits()
"""The limits of a config that sets none."""


def unpack_limits(config: DestinationConfig) -> UnpackLimits:
    """The limits that a config sets."""
    return UnpackLimits(config.max_unpack_ratio, int(config.max_unpacked_mb * (1 << 20)))


class ExpansionGuard:
    """Counts what goes into a decoder and what comes out.

    Args:
        name: the input, for errors.
        limits: how far it may go.
        packed: bytes that go in, where that is known beforehand.
    """

    def __init__(self, name: str, limits: UnpackLimits, packed: int = 0) -> None:
        self.packed = packed
        self._name = name
        self._limits = limits
        self._unpacked = 0

    def add(self, unpacked: int) -> None:
        """Count bytes that came out; `packed` is counted by the caller.

        Raises:
            SourceError: they are too many.
        """
        self._unpacked += unpacked
        size, ratio = self._limits.size, self._limits.ratio
        if size and self._unpacked > size:
            raise SourceError(
                f"{self._name} unpacks to more than {size / (1 << 20):,.0f} MB",
                "`max_unpacked_mb` is the limit; set it higher, or to 0 for none, if you trust the "
                "file.",
            )
        if ratio and self._unpacked > max(_FLOOR, self.packed * ratio):
            raise SourceError(
                f"{self._name} unpacks to more than {ratio:g} times its size: "
                f"{self.packed:,} bytes have become {self._unpacked:,}",
                "`max_unpack_ratio` is the limit beyond 1 GiB; set it higher, or to 0 for none, if "
                "you trust the file.",
            )


class _Compression(NamedTuple):
    name: str
    magic: bytes
    suffixes: tuple[str, ...]
    step: int  # input bytes at a time: a bomb blows up to at most about 70 MB in memory
    decoder: Callable[[], Any]  # they share `decompress`, `eof` and `unused_data`
    limit: tuple[int, ...] = ()  # output bytes at a time, where the decoder can be told


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingDependency(
            "the input is compressed with zstd, and the package `zstandard` is not installed",
            "pip install zstandard",
        ) from None
    return zstandard.ZstdDecompressor().decompressobj()


def _gzip() -> Any:
    return zlib.decompressobj(31)


_KINDS = (
    _Compression("gzip", b"\x1f\x8b", (".gz", ".gzip"), 1 << 15, _gzip),
    _Compression("zstd", b"\x28\xb5\x2f\xfd", (".zst", ".zstd"), 1 << 11, _zstd),
    _Compression("bzip2", b"BZh", (".bz2",), 1 << 16, bz2.BZ2Decompressor, (_BLOCK,)),
    _Compression("xz", b"\xfd7zXZ\x00", (".xz",), 1 << 16, lzma.LZMADecompressor, (_BLOCK,)),
)


def compression_of(head: bytes) -> str:
    """Name the compression that a file's first bytes tell; empty for none.

    >>> compression_of(bytes([0x1F, 0x8B, 8]))
    'gzip'
    >>> compression_of(b'{"type": "RECORD"}')
    ''
    """
    kind = _kind_of(head)
    return kind.name if kind else ""


def compressed(path: Path) -> bool:
    """Whether a file is compressed, or named as if it were.

    Raises:
        OSError: it can't be read.
    """
    promised = any(path.suffix.lower() in kind.suffixes for kind in _KINDS)
    with path.open("rb") as file:
        return promised or _kind_of(file.read(_HEAD)) is not None


def _kind_of(head: bytes) -> _Compression | None:
    return next((kind for kind in _KINDS if head.startswith(kind.magic)), None)


def open_input(source: str | Path, limits: UnpackLimits = DEFAULT) -> BinaryIO:
    """Open one file, or stdin for `-`, as a stream of decompressed bytes.

    Nothing is read before the first `read`, so that a slow pipe does not hold up the start.

    Args:
        source: a path, or `-`.
        limits: what a compressed one may become.

    Raises:
        SourceError: no such file, no access, a folder. Reading raises it for a compression that
            is corrupt or cut off, for a file whose name promises another compression, and for
            one that goes beyond the limits.
        MissingDependency: on reading, zstd without its package.
    """
    name = str(source)
    opener = partial(_open_raw, name)
    return open_inputs([("stdin" if name == STDIN else name, opener)], limits)


def open_inputs(inputs: Sequence[Input], limits: UnpackLimits = DEFAULT) -> BinaryIO:
    """Open several inputs one after another as one stream of lines; see `open_input`.

    One whose last line lacks its newline gets one when another input follows. Inputs are opened
    when their turn comes; that all of them can be opened is checked at once.
    """
    for _, opener in inputs:
        opener().close()
    return _chained(inputs, limits)


def _chained(inputs: Sequence[Input], limits: UnpackLimits) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_Chain(inputs, limits), buffer_size=1 << 16))


def open_stream(
    stream: io.IOBase | BinaryIO,
    name: str = "the stream",
    limits: UnpackLimits = DEFAULT,
) -> BinaryIO:
    """Decompress a binary stream of the caller's, which stays open.

    Args:
        stream: binary; it is read from where it stands.
        name: how errors call it; a suffix promises a compression, as a file's does.
        limits: what a compressed one may become.

    Raises:
        SourceError: it is a stream of text. Reading raises it for a compression that is corrupt
            or cut off, or goes beyond the limits.
        MissingDependency: on reading, zstd without its package.
    """
    if isinstance(stream, io.TextIOBase):
        raise SourceError(
            "the source is a stream of text, and only bytes are landed as they came",
            'open the file with mode "rb"; of standard input, give `sys.stdin.buffer`.',
        )
    return _chained([(name, partial(_Lent, stream))], limits)


class _Lent(io.RawIOBase):
    """The bytes of a stream that somebody else closes."""

    def __init__(self, stream: Any) -> None:
        self._fill = filler(stream)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        return self._fill(memoryview(buffer)) or 0


def _open_raw(name: str) -> io.RawIOBase:
    if name == STDIN:
        _widen_pipe(sys.stdin.fileno())
        return io.FileIO(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return io.FileIO(name, "rb")
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(f"can't open {name}: {reason}", "check the path and its access") from None


def _widen_pipe(descriptor: int) -> None:
    """Ask for a bigger pipe: at 64 kB, changing between the processes costs more than reading."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


class _Chain(io.RawIOBase):
    """The decompressed bytes of several inputs, with a newline between where one is missing."""

    def __init__(self, inputs: Sequence[Input], limits: UnpackLimits) -> None:
        self._limits = limits
        self._waiting = [*reversed(inputs)]
        self._current: _Decompressed | None = None
        self._last = b"\n"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        while len(view):
            if self._current is None:
                if not self._waiting:
                    return 0
                self._current = _Decompressed(*self._waiting.pop(), self._limits)
            if got := self._current.readinto(view):
                self._last = bytes(view[got - 1 : got])
                return got
            self._current.close()
            self._current = None
            if self._waiting and self._last != b"\n":
                self._last = view[:1] = b"\n"
                return 1
        return 0

    def close(self) -> None:
        if self._current is not None:
            self._current.close()
        super().close()


class _Decompressed:
    """One file, pipe or stream, decompressed."""

    def __init__(self, name: str, opener: Callable[[], Any], limits: UnpackLimits) -> None:
        self._raw = opener()
        self._name = name
        self._guard = ExpansionGuard(name, limits)
        self._left = memoryview(b"")
        self._blocks: Iterator[bytes] | None = None
        self._started = False

    def readinto(self, view: memoryview) -> int:
        """Fill `view` from its start; 0 at the end of the input."""
        if not self._started:
            self._start()
        if not self._left and self._blocks is not None:
            self._left = memoryview(next(self._blocks, b""))
        if self._left:
            got = min(len(self._left), len(view))
            view[:got] = self._left[:got]
            self._left = self._left[got:]
            return got
        return 0 if self._blocks is not None else self._raw.readinto(view) or 0

    def close(self) -> None:
        self._raw.close()

    def _start(self) -> None:
        self._started = True
        head = b""
        while len(head) < _HEAD and (more := self._raw.read(_HEAD - len(head))):
            head += more
        kind = _kind_of(head)
        suffix = Path(self._name).suffix.lower()
        promised = next((k for k in _KINDS if suffix in k.suffixes), None)
        if promised is not None and kind is not promised:
            raise self._corrupt(promised.name, "the content is something else")
        if kind is None:
            self._left = memoryview(head)
        else:
            self._blocks = self._decompress(kind, head)

    def _decompress(self, kind: _Compression, data: bytes) -> Iterator[bytes]:
        decoder = kind.decoder()
        self._guard.packed += len(data)
        while True:
            try:
                plain = decoder.decompress(data, *kind.limit)
            except Exception as error:  # each library has its own class
                raise self._corrupt(kind.name, str(error)) from None
            if plain:
                self._guard.add(len(plain))
                yield plain
            data = b""
            if decoder.eof:
                data = decoder.unused_data.lstrip(b"\0") or self._packed(kind)
                while data and not (data := data.lstrip(b"\0")):
                    data = self._packed(kind)
                if not data:
                    return
                decoder = kind.decoder()
            elif getattr(decoder, "needs_input", True) and not (data := self._packed(kind)):
                raise self._corrupt(kind.name, "it ends early")

    def _packed(self, kind: _Compression) -> bytes:
        data = self._raw.read(kind.step) or b""
        self._guard.packed += len(data)
        return data

    def _corrupt(self, kind: str, reason: str) -> SourceError:
        return SourceError(
            f"{self._name}: the {kind} compression is corrupt or cut off: {reason}",
            "get the file again; nothing of what it holds was taken on trust",
        )


class Member(NamedTuple):
    """A file of an archive.

    Attributes:
        path: its name there, with its folders.
        bytes: its size, unpacked.
    """

    path: str
    bytes: int


def is_archive(head: bytes) -> bool:
    """Whether a file's first bytes are those of a zip archive."""
    return head.startswith(_MAGIC)


def members(source: BinaryIO, name: str, limits: UnpackLimits) -> list[Member]:
    """The files of an archive, without those that systems hide in it.

    Args:
        source: the archive, seekable.
        name: the archive, for errors.
        limits: what all files together may become; none can be more than it says here.

    Raises:
        SourceError: the archive is damaged, a file is encrypted or compressed with another method
            than deflate, two have one name, or they unpack to too much.
    """
    found = [
        member
        for member in check_archive(source, name, limits)
        if not is_hidden(member.filename.split("/"))
    ]
    for member in found:
        if member.filename.lower().endswith(ARCHIVE):
            raise SourceError(
                f"file {member.filename!r} of archive {name!r} is an archive itself",
                "unpack the outer one, and give the folder.",
            )
    double, times = next(iter(Counter(m.filename for m in found).most_common(1)), ("", 1))
    if times > 1:
        raise SourceError(
            f"archive {name!r} holds {times} files with the name {double!r}",
            "unpack it, rename one, and give the folder.",
        )
    return [Member(member.filename, member.file_size) for member in found]


def check_archive(source: BinaryIO, name: str, limits: UnpackLimits) -> list[zipfile.ZipInfo]:
    """All files of an archive, hidden ones, too; see `members`.

    Raises:
        SourceError: it is damaged, or has files that can't be unpacked or would be too much.
    """
    with _damage(name), zipfile.ZipFile(source) as archive:
        found = [member for member in archive.infolist() if not member.is_dir()]
    for member in found:
        _check(member, name)
    guard = ExpansionGuard(name, limits, packed=source.seek(0, io.SEEK_END))
    guard.add(sum(member.file_size for member in found))
    return found


def is_hidden(parts: Sequence[str]) -> bool:
    """Whether a path's folders, or its file, have a name by which systems hide files."""
    return any(part.startswith(HIDDEN) and part not in (".", "..") for part in parts)


def _check(member: zipfile.ZipInfo, name: str) -> None:
    if member.flag_bits & _ENCRYPTED:
        raise SourceError(
            f"file {member.filename!r} of archive {name!r} is encrypted",
            "unpack the archive with its password, and give the folder.",
        )
    if member.compress_type not in _METHODS:
        # Python's zipfile unpacks the other methods without a bound: bzip2 makes gigabytes of the
        # 4 KiB that it takes at a time.
        raise SourceError(
            f"file {member.filename!r} of archive {name!r} is compressed with method "
            f"{member.compress_type}, not with deflate",
            "unpack it and give the file, or compress that with gzip, zstd, bzip2 or xz.",
        )


def open_member(source: BinaryIO, name: str, path: str, limits: UnpackLimits) -> BinaryIO:
    """The content of an archive's file; reading it raises `SourceError` for what is damaged.

    Args:
        source: the archive, seekable; closed with what is returned.
        name: the archive, for errors.
        path: the file's name there.
        limits: what it may become.

    Raises:
        SourceError: the archive is damaged, or holds no such file.
    """
    with ExitStack() as opened:
        opened.callback(source.close)
        with _damage(name):
            archive = zipfile.ZipFile(source)
            try:
                member = archive.getinfo(path)
            except KeyError:
                raise SourceError(
                    f"archive {name!r} holds no file {path!r} any more",
                    "leave it as it is during the load, then load again.",
                ) from None
            plain = archive.open(member)
        opened.pop_all()
    guard = ExpansionGuard(name, limits, packed=source.seek(0, io.SEEK_END))
    return cast("BinaryIO", io.BufferedReader(_Content(source, plain, name, guard), _CHUNK))


class _Content(io.RawIOBase):
    """The content of an archive's member, as far as the limits let it go."""

    def __init__(
        self, source: BinaryIO, plain: IO[bytes], name: str, guard: ExpansionGuard
    ) -> None:
        self._source = source
        self._plain = plain
        self._name = name
        self._guard = guard

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        with _damage(self._name):
            data = self._plain.read(len(memoryview(buffer)))
        self._guard.add(len(data))
        memoryview(buffer)[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._plain.close()
        self._source.close()
        super().close()


@contextmanager
def _damage(name: str) -> Iterator[None]:
    try:
        yield
    except LakeportError:
        raise
    except Exception as error:  # what zipfile meets in damaged archives it does not foresee
        reason = str(error).partition(" and header ")[0]  # what follows is content
        raise SourceError(
            f"archive {name!r} is damaged or cut off: {reason or type(error).__name__}",
            "get the file again.",
        ) from error
