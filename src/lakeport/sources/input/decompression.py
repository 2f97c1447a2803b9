"""Open files, stdin and zip archives as streams of decompressed bytes: gzip, zstd, bzip2, xz, zip.

The first bytes decide on the compression, so stdin and files of any name are covered, too. A suffix
of another compression than the content's is an error, and so is a stream that ends early. The
libraries' own file objects miss some damage (docs/adr/0013), so their decoders are used here.

The default limits allow what real data reach: gzip expands a byte to at most 1030, and CSV files
with nearly equal rows expand 200 to 400 times. So the ratio counts only beyond 1 GiB unpacked, for
which every disk has room. All bytes are counted while they are streamed; no header is trusted.

No file is ever written under a member's name, so that `../` in one does no harm.
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
from lakeport.sources.input.lines import get_fill_function

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lakeport.config.base import DestinationConfig


_FLOOR = 1 << 30

STDIN = "-"
"""The name that stands for standard input."""

NamedInput = tuple[str, Callable[[], Any]]
"""The name of an input in errors, and the function that opens it for reading bytes."""

_HEAD = 6  # the longest magic number
_PIPE_BYTES = 1 << 20
_BLOCK = 1 << 20

ARCHIVE = ".zip"
"""Suffix of the names of archives."""
HIDDEN = ("_", ".")
"""First characters of the names of hidden files and folders."""

_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")  # an archive, and one without files
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """Maximum size and expansion ratio of one compressed input; 0 means unlimited.

    Attributes:
        ratio: unpacked bytes per packed byte; counts once more than 1 GiB is unpacked.
        size: unpacked bytes.
    """

    ratio: float = 500
    size: int = 1 << 40


DEFAULT_LIMITS = UnpackLimits()
"""The limits of a config with default values."""


def unpack_limits(config: DestinationConfig) -> UnpackLimits:
    """Return the limits for compressed inputs that a config sets."""
    return UnpackLimits(config.max_unpack_ratio, int(config.max_unpacked_mb * (1 << 20)))


class ExpansionGuard:
    """Counts one input's packed and unpacked bytes; raises when they exceed the limits.

    Attributes:
        packed: the number of packed bytes so far; the caller counts them.
    """

    def __init__(self, name: str, limits: UnpackLimits, packed: int = 0) -> None:
        self.packed = packed
        self._name = name
        self._limits = limits
        self._unpacked = 0

    def add(self, unpacked_bytes: int) -> None:
        """Add to the count of unpacked bytes; raise SourceError if the input exceeds a limit."""
        self._unpacked += unpacked_bytes
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


class _Codec(NamedTuple):
    """A compression: its magic number, suffixes and decoder."""

    name: str
    magic: bytes
    suffixes: tuple[str, ...]
    read_size: int  # input bytes at a time: a bomb blows up to at most about 70 MB in memory
    new_decoder: Callable[[], Any]  # all decoders have `decompress`, `eof` and `unused_data`
    output_limit: tuple[int, ...] = ()  # output bytes at a time, if the decoder takes a limit


def _new_zstd_decoder() -> Any:
    """Return a zstd decoder; raise MissingDependency if `zstandard` is not installed."""
    try:
        import zstandard
    except ImportError:
        raise MissingDependency(
            "the input is compressed with zstd, and the package `zstandard` is not installed",
            "pip install zstandard",
        ) from None
    return zstandard.ZstdDecompressor().decompressobj()


_CODECS = (
    _Codec("gzip", b"\x1f\x8b", (".gz", ".gzip"), 1 << 15, partial(zlib.decompressobj, 31)),
    _Codec("zstd", b"\x28\xb5\x2f\xfd", (".zst", ".zstd"), 1 << 11, _new_zstd_decoder),
    _Codec("bzip2", b"BZh", (".bz2",), 1 << 16, bz2.BZ2Decompressor, (_BLOCK,)),
    _Codec("xz", b"\xfd7zXZ\x00", (".xz",), 1 << 16, lzma.LZMADecompressor, (_BLOCK,)),
)


def detect_compression(head: bytes) -> str:
    """Return the compression of a file by its first bytes, such as `gzip`; empty for none."""
    codec = _find_codec(head)
    return codec.name if codec else ""


def is_compressed(path: Path) -> bool:
    """Whether a file's suffix or first bytes show a compression; OSError if it can't be read."""
    promised = any(path.suffix.lower() in codec.suffixes for codec in _CODECS)
    with path.open("rb") as file:
        return promised or _find_codec(file.read(_HEAD)) is not None


def _find_codec(head: bytes) -> _Codec | None:
    """Return the codec whose magic number a file's first bytes are; None for none."""
    return next((codec for codec in _CODECS if head.startswith(codec.magic)), None)


def open_input(source: str | Path, limits: UnpackLimits = DEFAULT_LIMITS) -> BinaryIO:
    """Open a file, or stdin for `-`, as a decompressed stream; SourceError if it can't be opened.

    Nothing is read before the first `read`, so that a slow pipe does not delay the start.

    Raises:
        SourceError: the file does not exist, can't be read, or is a folder. Reading raises it for
            a compression that is corrupt, cut off, or another one than the suffix says, and for a
            file that exceeds the limits.
        MissingDependency: on reading, if the file needs zstd and its package is missing.
    """
    name = str(source)
    opener = partial(_open_file_or_stdin, name)
    return open_inputs([("stdin" if name == STDIN else name, opener)], limits)


def open_inputs(inputs: Sequence[NamedInput], limits: UnpackLimits = DEFAULT_LIMITS) -> BinaryIO:
    """Open inputs as one stream of decompressed lines; SourceError if one can't be opened.

    A missing newline at the end of an input is added if another input follows. All inputs are
    opened once at the start to see that they can be, and each again when its turn comes.
    """
    for _, opener in inputs:
        opener().close()
    return _open_chain(inputs, limits)


def _open_chain(inputs: Sequence[NamedInput], limits: UnpackLimits) -> BinaryIO:
    """Return a buffered stream of the decompressed bytes of several inputs."""
    return cast(BinaryIO, io.BufferedReader(_InputChain(inputs, limits), buffer_size=1 << 16))


def open_stream(
    stream: io.IOBase | BinaryIO,
    name: str = "the stream",
    limits: UnpackLimits = DEFAULT_LIMITS,
) -> BinaryIO:
    """Wrap a binary stream to read its bytes decompressed; closing the wrapper leaves it open.

    Args:
        name: its name in errors; a suffix says its compression, as a file's does.

    Raises:
        SourceError: the stream is one of text. Reading raises it for a compression that is corrupt
            or cut off, and beyond the limits.
        MissingDependency: on reading, if the stream needs zstd and its package is missing.
    """
    if isinstance(stream, io.TextIOBase):
        raise SourceError(
            "the source is a stream of text, and only bytes are landed as they came",
            'open the file with mode "rb"; of standard input, give `sys.stdin.buffer`.',
        )
    return _open_chain([(name, partial(_BorrowedStream, stream))], limits)


class _BorrowedStream(io.RawIOBase):
    """Raw wrapper of a stream; closing the wrapper leaves the stream open."""

    def __init__(self, stream: Any) -> None:
        self._fill_stream = get_fill_function(stream)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        return self._fill_stream(memoryview(buffer)) or 0


def _open_file_or_stdin(name: str) -> io.RawIOBase:
    """Open a file, or stdin for `-`, without a buffer; raise SourceError if that fails."""
    if name == STDIN:
        _widen_pipe(sys.stdin.fileno())
        return io.FileIO(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return io.FileIO(name, "rb")
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(f"can't open {name}: {reason}", "check the path and its access") from None


def _widen_pipe(descriptor: int) -> None:
    """Enlarge a pipe to 1 MiB if possible: at 64 kB, process switches cost more than reading."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


class _InputChain(io.RawIOBase):
    """Raw stream of several inputs' decompressed bytes; adds missing newlines between them."""

    def __init__(self, inputs: Sequence[NamedInput], limits: UnpackLimits) -> None:
        self._limits = limits
        self._waiting_inputs = [*reversed(inputs)]
        self._current: _DecompressedInput | None = None
        self._last_byte = b"\n"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Read decompressed bytes of one input, or the newline behind it; 0 at the end of all."""
        view = memoryview(buffer)
        while len(view):
            if self._current is None:
                if not self._waiting_inputs:
                    return 0
                self._current = _DecompressedInput(*self._waiting_inputs.pop(), self._limits)
            if got := self._current.readinto(view):
                self._last_byte = bytes(view[got - 1 : got])
                return got
            self._current.close()
            self._current = None
            if self._waiting_inputs and self._last_byte != b"\n":
                self._last_byte = view[:1] = b"\n"
                return 1
        return 0

    def close(self) -> None:
        if self._current is not None:
            self._current.close()
        super().close()


class _DecompressedInput:
    """Reads one file, pipe or stream and decompresses it; plain input is read as it is."""

    def __init__(self, name: str, opener: Callable[[], Any], limits: UnpackLimits) -> None:
        self._raw = opener()
        self._name = name
        self._guard = ExpansionGuard(name, limits)
        self._unread = memoryview(b"")
        self._decompressed_blocks: Iterator[bytes] | None = None
        self._is_started = False

    def readinto(self, view: memoryview) -> int:
        """Read decompressed bytes into `view`; return their number, 0 at the end of the input."""
        if not self._is_started:
            self._start()
        if not self._unread and self._decompressed_blocks is not None:
            self._unread = memoryview(next(self._decompressed_blocks, b""))
        if self._unread:
            got = min(len(self._unread), len(view))
            view[:got] = self._unread[:got]
            self._unread = self._unread[got:]
            return got
        return 0 if self._decompressed_blocks is not None else self._raw.readinto(view) or 0

    def close(self) -> None:
        self._raw.close()

    def _start(self) -> None:
        """Read the first bytes and choose the decoder; SourceError if the suffix disagrees."""
        self._is_started = True
        head = b""
        while len(head) < _HEAD and (more := self._raw.read(_HEAD - len(head))):
            head += more
        codec = _find_codec(head)
        suffix = Path(self._name).suffix.lower()
        promised = next((k for k in _CODECS if suffix in k.suffixes), None)
        if promised is not None and codec is not promised:
            raise self._corrupt_error(promised.name, "the content is something else")
        if codec is None:
            self._unread = memoryview(head)
        else:
            self._decompressed_blocks = self._decompress(codec, head)

    def _decompress(self, codec: _Codec, data: bytes) -> Iterator[bytes]:
        """Yield decompressed blocks; raise SourceError if corrupt, cut off or beyond the limits.

        The input may be several compressed streams in a row.
        """
        decoder = codec.new_decoder()
        self._guard.packed += len(data)
        while True:
            try:
                plain = decoder.decompress(data, *codec.output_limit)
            except Exception as error:  # each library has its own class
                raise self._corrupt_error(codec.name, str(error)) from None
            if plain:
                self._guard.add(len(plain))
                yield plain
            data = b""
            if decoder.eof:
                data = decoder.unused_data.lstrip(b"\0") or self._read_packed(codec)
                while data and not (data := data.lstrip(b"\0")):
                    data = self._read_packed(codec)
                if not data:
                    return
                decoder = codec.new_decoder()
            elif getattr(decoder, "needs_input", True) and not (data := self._read_packed(codec)):
                raise self._corrupt_error(codec.name, "it ends early")

    def _read_packed(self, codec: _Codec) -> bytes:
        """Read the next compressed bytes and count them; empty at the end of the input."""
        data = self._raw.read(codec.read_size) or b""
        self._guard.packed += len(data)
        return data

    def _corrupt_error(self, codec: str, reason: str) -> SourceError:
        """Return a SourceError that says why the compression is corrupt or cut off."""
        return SourceError(
            f"{self._name}: the {codec} compression is corrupt or cut off: {reason}",
            "get the file again; none of its content was trusted",
        )


def is_archive(head: bytes) -> bool:
    """Whether a file's first bytes are those of a zip archive."""
    return head.startswith(_MAGIC)


def list_members(source: BinaryIO, name: str, limits: UnpackLimits) -> list[zipfile.ZipInfo]:
    """Return a zip archive's visible files; SourceError for damage, nested archives or equal names.

    Two files of one name are a SourceError, too, and what `check_archive` refuses.
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
    return found


def check_archive(source: BinaryIO, name: str, limits: UnpackLimits) -> list[zipfile.ZipInfo]:
    """Return a seekable zip archive's files; SourceError if damaged, encrypted or over the limits.

    Args:
        limits: the maximum size and expansion ratio of all its files together, by the sizes that
            the archive names; zipfile unpacks no more than these.

    Raises:
        SourceError: the archive is damaged, a file is encrypted or compressed with another method
            than deflate, or the limits are exceeded.
    """
    with _translate_damage(name), zipfile.ZipFile(source) as archive:
        found = [member for member in archive.infolist() if not member.is_dir()]
    for member in found:
        _check_member(member, name)
    guard = ExpansionGuard(name, limits, packed=source.seek(0, io.SEEK_END))
    guard.add(sum(member.file_size for member in found))
    return found


def is_hidden(parts: Sequence[str]) -> bool:
    """Whether a part of a path begins with `_` or `.`, as names of hidden files do."""
    return any(part.startswith(HIDDEN) and part not in (".", "..") for part in parts)


def _check_member(member: zipfile.ZipInfo, name: str) -> None:
    """Raise SourceError if a file is encrypted, or compressed with another method than deflate."""
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
    """Open the file at `path` in a zip archive; closing it closes the seekable `source`, too.

    Raises:
        SourceError: the archive is damaged, or holds no such file. Reading raises it for damage,
            and beyond the limits.
    """
    with ExitStack() as opened:
        opened.callback(source.close)
        with _translate_damage(name):
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
    return cast("BinaryIO", io.BufferedReader(_MemberContent(source, plain, name, guard), _BLOCK))


class _MemberContent(io.RawIOBase):
    """Raw stream of one file in a zip archive; SourceError beyond the limits or for damage."""

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
        """Read bytes and count them; SourceError for a damaged archive, or beyond the limits."""
        with _translate_damage(self._name):
            data = self._plain.read(len(memoryview(buffer)))
        self._guard.add(len(data))
        memoryview(buffer)[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._plain.close()
        self._source.close()
        super().close()


@contextmanager
def _translate_damage(name: str) -> Iterator[None]:
    """Context manager that turns zipfile's errors into a SourceError on a damaged archive."""
    try:
        yield
    except LakeportError:
        raise
    except Exception as error:  # zipfile raises errors of many classes for damaged archives
        reason = str(error).partition(" and header ")[0]  # the rest quotes content
        raise SourceError(
            f"archive {name!r} is damaged or cut off: {reason or type(error).__name__}",
            "get the file again.",
        ) from error
