"""One file of a source, on this machine's disk or in a store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from lakeport.errors import SourceError
from lakeport.model import Split
from lakeport.sources.input.decompression import UnpackLimits, open_member

if TYPE_CHECKING:
    from lakeport.model import Storage

_CHUNK = 1 << 20
_CHECKED = UnpackLimits(0, 0)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a source. Picklable.

    Attributes:
        uri: a local path, or an object's URI.
        name: file name for messages and for the stream's name, without folders; of a file in an
            archive `archive.zip!/path`.
        format: one of the values of `places.FORMATS`; empty if the name tells none.
        bytes: size as stored.
        storage: where the object is; None for local files.
        key: its key in `storage`.
        folders: columns that its folders give, with their values (see `sources.files.folders`).
        encoding: of its text as it was stored, where that was given or found out.
        member: where `uri` is a zip archive, the file's path in it, which `name` ends with.
    """

    uri: str
    name: str
    format: str
    bytes: int
    storage: Storage | None = None
    key: str = ""
    folders: tuple[tuple[str, str | None], ...] = ()
    encoding: str = "utf-8"
    member: str = ""

    @property
    def path(self) -> str:
        """Where the file lies, with the folders within an archive in place of the archive."""
        return f"{self.uri.rpartition('/')[0]}/{self.member}" if self.member else self.uri

    def open(self, limits: UnpackLimits = _CHECKED) -> BinaryIO:
        """Open the file as stored; that of an archive can't be sought in.

        Args:
            limits: what a file of an archive may become, beyond what it says of itself, which was
                checked when it was found.

        Raises:
            SourceError: it is absent or can't be read.
        """
        if self.member:
            archive = replace(self, member="")
            return open_member(archive.open(), self.uri, self.member, limits)
        if self.storage is not None:
            return self.storage.open(self.key)
        try:
            return Path(self.uri).open("rb")
        except OSError as error:
            raise SourceError(
                f"file {self.uri!r} can't be read: {error.strerror}",
                "check that the file is there and that this user may read it.",
            ) from error

    @contextmanager
    def named(self) -> Iterator[None]:
        """Have errors name the file as its user knows it where it is in the spool."""
        try:
            yield
        except SourceError as error:
            if PurePosixPath(self.uri).name == PurePosixPath(self.name).name:
                raise
            raise SourceError(error.message.replace(self.uri, self.name), error.hint) from error

    def split(self, start: int, end: int, first_line: int) -> Split:
        """A range of the file as a task's input; see `Split`."""
        return Split(
            self.uri,
            start,
            end,
            first_line,
            storage=self.storage,
            key=self.key,
            folders=self.folders,
        )


def digest_of(files: Sequence[SourceFile]) -> str:
    """SHA-256, in hex, over the stored content of all files and their folders' columns, in order.

    Raises:
        SourceError: a file can't be read.
    """
    total = hashlib.sha256()
    for file in files:
        size = 0
        with file.open() as source:
            while chunk := source.read(_CHUNK):
                total.update(chunk)
                size += len(chunk)
        total.update(f"\0{size}\0".encode())
        total.update("".join(f"{name}={value}\0" for name, value in file.folders).encode())
    return total.hexdigest()
