"""The files in a zip archive: listed and checked at once, unpacked by streaming within limits.

Nothing is ever written under a member's name, so that `../` in one leads nowhere.
"""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, BinaryIO, NamedTuple, cast

from lakeport.errors import LakeportError, SourceError
from lakeport.sources.input.unpacking import ExpansionGuard, UnpackLimits

if TYPE_CHECKING:
    from typing_extensions import Buffer

ARCHIVE = ".zip"
"""What the names of archives end with."""

_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")  # an archive, and one without files
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1
_CHUNK = 1 << 20


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
    found = [m for m in check_archive(source, name, limits) if not _hidden(m.filename)]
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


def _hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) and part not in (".", "..") for part in path.split("/"))


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
