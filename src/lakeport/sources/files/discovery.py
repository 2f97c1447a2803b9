"""Resolve the name of a source to files: a file, a folder, a glob, or a folder of a store."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from zipfile import is_zipfile

from lakeport.config.explain import closest_match
from lakeport.errors import ConfigError, SourceError
from lakeport.model import Storage, StoredObject
from lakeport.schema.hints import sort_by_similarity
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import (
    ARCHIVE,
    DEFAULT,
    HIDDEN,
    UnpackLimits,
    is_archive,
    is_hidden,
    members,
)
from lakeport.sources.input.plain_files import COMPRESSIONS

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".orc": "orc",
    ".avro": "avro",
    ".singer": "singer",
}
"""File name suffix (behind which a compression's may follow) -> format."""

StorageFor = Callable[[str], Storage | None]
"""Gives the store rooted at a folder's URI, or None for a local path."""

_WILD = re.compile(r"[*?\[]")
_DELTA_LOG = "_delta_log"

_MAGIC = 4
_NEARBY = 8
_ARCHIVES = (".tar", ".tgz", ".tbz2", ".txz", ".tzst", ".7z", ".rar")
_OLD_WORKBOOKS = (".xls", ".xlsb", ".ods")


class Listed(NamedTuple):
    """A file as its folder lists it.

    Attributes:
        uri: its path, absolute, or the object's URI.
        bytes: its size as stored.
        tag: changes when the file does: when it was written, in nanoseconds; of an object its
            ETag, or a checksum.
    """

    uri: str
    bytes: int
    tag: str


@dataclass(frozen=True, slots=True)
class SourcePath:
    """One name of a source: a file, a folder or a glob, on this machine's disk or in a store.

    Attributes:
        source: the name. That of a bucket ends with a slash.
        storage: rooted at the name's folder; None for the disk.
    """

    source: str
    storage: Storage | None = None

    @classmethod
    def of(cls, source: str, storage_for: StorageFor | None) -> SourcePath:
        """The place that a user's name stands for."""
        scheme, _, rest = source.partition("://")
        source = f"{scheme}://{rest}/" if rest and "/" not in rest else source
        storage = storage_for(folder_of(source)) if storage_for else None
        return cls(source, storage)

    @property
    def wild(self) -> bool:
        """Whether it is a glob."""
        return bool(_WILD.search(self.source))

    @property
    def path(self) -> str:
        """Of the disk: the name as an absolute path, the same from wherever it is named."""
        path = str(Path(self.source).expanduser().absolute())
        if ".." not in path.split("/"):
            return path
        folder = folder_of(path)
        return f"{os.path.realpath(folder).rstrip('/')}/{path[len(folder) :]}"

    @property
    def name(self) -> str:
        """The same for all ways to write it: by it, what is known of the place is found again."""
        return (
            self.path
            if self.storage is None
            else self.root + self.source[len(folder_of(self.source)) :]
        )

    @property
    def root(self) -> str:
        """How the URIs of its files begin."""
        if self.storage is None:
            return folder_of(self.path)
        return self.storage.uri("x").removesuffix("x")

    def listed(self, after: str = "") -> Iterator[Listed]:
        """The files there, those of unknown formats, too.

        Names that start with `_` or `.` are left out of folders and globs, and so are links that
        lead out of the folder.

        Args:
            after: leave out files whose URI is not behind this one, and look at as little of what
                comes before as the place allows.

        Raises:
            SourceError: it is a Delta table's folder, or brackets in it are no set.
        """
        return self._stored(after) if self.storage else self._local(after)

    def again(self, listed: Listed) -> Listed | None:
        """A file that was listed there, as it is now; None where it is gone."""
        if self.storage is None:
            with suppress(FileNotFoundError, NotADirectoryError):
                return _written(listed.uri, os.stat(listed.uri))  # noqa: PTH116
            return None
        key = listed.uri[len(self.root) :]
        found = next(self.storage.list(key), None)
        return self._object(found) if found is not None and found.key == key else None

    def file(self, listed: Listed) -> SourceFile:
        """A file that was listed there, to be read."""
        name = listed.uri.rpartition("/")[2]
        if self.storage is None:
            return SourceFile(listed.uri, name, format_of(name), listed.bytes)
        key = listed.uri[len(self.root) :]
        uri = folder_of(self.source) + key
        return SourceFile(uri, name, format_of(name), listed.bytes, self.storage, key)

    def _local(self, after: str) -> Iterator[Listed]:
        path = self.path
        if os.path.isfile(path):  # noqa: PTH113
            yield _written(path, os.stat(path))  # noqa: PTH116
        elif os.path.isdir(path):  # noqa: PTH112
            yield from _walk(path, after)
        elif self.wild:
            yield from (file for file in _globbed(path, self.root) if file.uri > after)

    def _stored(self, after: str) -> Iterator[Listed]:
        assert self.storage is not None  # for the type checker
        folder, root = folder_of(self.source), self.root
        rest = self.source[len(folder) :]
        matches = _matcher(self.source) if self.wild else None
        for found in self.storage.list("" if matches else rest, after=after[len(root) :]):
            if matches and found.key != rest and not matches(found.key):
                continue
            parts = found.key.split("/")
            if matches is None and _DELTA_LOG in parts:
                raise _delta_table(folder + "/".join(parts[: parts.index(_DELTA_LOG)]))
            if found.key != rest and is_hidden(parts):
                continue
            yield self._object(found)

    def _object(self, found: StoredObject) -> Listed:
        return Listed(self.root + found.key, found.bytes, found.etag or repr(found.modified))


def format_of(name: str) -> str:
    """The format that a file's name tells, compressed or not; empty where it tells none.

    >>> format_of("flights.CSV.gz"), format_of("notes.txt")
    ('csv', '')
    """
    path = PurePosixPath(name.lower())
    if path.suffix in COMPRESSIONS:
        path = path.with_suffix("")
    return FORMATS.get(path.suffix, "")


def folder_of(source: str) -> str:
    """The folder that a name is about: what comes before its last part, or before a glob's sign.

    >>> folder_of("in/a.csv"), folder_of("in/2024-*/a.csv"), folder_of("in/")
    ('in/', 'in/', 'in/')
    """
    wild = _WILD.search(source)
    fixed = source[: wild.start()] if wild else source
    return fixed[: fixed.rfind("/") + 1] if wild or not fixed.endswith("/") else fixed


def _written(path: str, found: os.stat_result) -> Listed:
    return Listed(path, found.st_size, str(found.st_mtime_ns))


def _walk(folder: str, after: str = "") -> Iterator[Listed]:
    """The files below a folder, in no order: one with a million takes no memory for it."""
    real = os.path.realpath(folder)
    waiting = [folder.rstrip("/")]
    while waiting:
        parent = waiting.pop()
        for entry in _entries(parent or "/"):
            if entry.name == _DELTA_LOG and entry.is_dir():
                raise _delta_table(parent)
            path = f"{parent}/{entry.name}"
            if entry.name.startswith(HIDDEN):
                continue
            if entry.is_dir(follow_symlinks=False):
                if f"{path}/" > after or after.startswith(f"{path}/"):
                    waiting.append(path)
            elif path > after and entry.is_file() and _belongs(entry, path, real):
                with suppress(FileNotFoundError):
                    yield _written(path, entry.stat())


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except FileNotFoundError:
        return  # it went while its parent was listed
    except OSError as error:
        raise SourceError(
            f"folder {folder!r} can't be listed: {error.strerror}",
            "check that this user may read it, or name files.",
        ) from error


def _globbed(pattern: str, root: str) -> Iterator[Listed]:
    """What a glob on this machine's disk matches, in no order."""
    real = os.path.realpath(root)
    inside: dict[str, bool] = {}  # folder -> whether it is one below the root
    folders = not pattern.rstrip("/").endswith("**")
    for path in glob.iglob(pattern, recursive=True):  # noqa: PTH207
        if is_hidden(path[len(root) :].split("/")):
            continue
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError:
            continue  # a link to nowhere, or gone since
        parent = path if os.path.islink(path) else path.rpartition("/")[0]  # noqa: PTH114
        if parent not in inside:
            inside[parent] = _within(os.path.realpath(parent), real)
        if not inside[parent]:
            continue
        if stat.S_ISREG(found.st_mode):
            yield _written(path, found)
        elif stat.S_ISDIR(found.st_mode) and folders:
            yield from _walk(path)


def _belongs(entry: os.DirEntry[str], path: str, root: str) -> bool:
    return not entry.is_symlink() or _within(os.path.realpath(path), root)


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _matcher(source: str) -> Callable[[str], object]:
    """Tells whether what comes behind a glob's folder matches it.

    Raises:
        SourceError: brackets in it are no set.
    """
    pattern = _pattern(source[len(folder_of(source)) :])
    try:
        return re.compile(pattern).fullmatch
    except re.error:
        raise SourceError(
            f"{source!r} has a set in brackets that is none", "such as [a-z]."
        ) from None


def _pattern(text: str) -> str:
    """A glob as a regular expression: `*` stays within one folder, `**/` crosses them."""
    parts: list[str] = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", text, re.DOTALL):
        parts.append({"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(token, ""))
        if not parts[-1]:
            is_set = len(token) > 1
            parts[-1] = token.replace("[!", "[^", 1) if is_set else re.escape(token)
    return "".join(parts)


def _delta_table(folder: str) -> SourceError:
    """Its log alone knows which of its files are still part of it."""
    return SourceError(
        f"{folder!r} is a Delta table, and its folder also holds files of rows that are gone",
        "land it as a table, `lakeport.land(lakeport.TablesSource(tables=...), ...)`; or name "
        "files with a glob.",
    )


def discover(
    sources: Sequence[str],
    *,
    format: str = "",  # noqa: A002
    storage_for: StorageFor | None = None,
    limits: UnpackLimits = DEFAULT,
) -> list[SourceFile]:
    """Find the files that `sources` name, sorted and without repetition.

    Args:
        sources: files, globs (`*`, `?`, `[...]`, `**`) and folders, which are read recursively.
            In globs and folders, names that start with `_` or `.` are left out, and so are links
            that lead out of the folder. A zip archive is as good as a folder.
        format: one of the values of `FORMATS`; overrides what the names tell.
        storage_for: seam for object stores; all sources are local without it.
        limits: what the files of an archive may become together.

    Raises:
        ConfigError: `format` is none of the known ones.
        SourceError: a source names nothing, the files are of different formats, an archive can't
            be unpacked, or a folder is a Delta table.
    """
    check_format(format)
    found: dict[tuple[str, str], SourceFile] = {}
    for place in (SourcePath.of(source, storage_for) for source in sources):
        stored = sorted(place.listed())
        files = [file for each in stored for file in unfolded(place.file(each), limits)]
        chosen = with_format(files, place, format)
        if not chosen:
            raise nothing_found(place, files)
        found.update(((file.uri, file.member), file) for file in chosen)
    result = [found[place] for place in sorted(found)]
    check_formats(result)
    return result


def check_format(given: str) -> None:
    """See that a format that a user names is one; none is fine.

    Raises:
        ConfigError: it is not.
    """
    if given and given not in FORMATS.values():
        known = ", ".join(dict.fromkeys(FORMATS.values()))
        raise ConfigError(f"file format {given!r} is unknown", f"known formats: {known}.")


def unfolded(file: SourceFile, limits: UnpackLimits) -> list[SourceFile]:
    """A file; the files of an archive in its place."""
    if not file.name.lower().endswith(ARCHIVE):
        return [file]
    with file.open() as source:
        # Damage may be at either end.
        if not is_archive(source.read(_MAGIC)) and not is_zipfile(source):
            return [file]
        inside = members(source, file.uri, limits)
    if not inside:
        raise SourceError(f"archive {file.uri!r} holds no file", "get it again, or leave it out.")
    return [
        replace(
            file,
            name=f"{file.name}!/{member.path}",
            format=format_of(member.path) or file.format * (len(inside) == 1),
            bytes=member.bytes,
            member=member.path,
        )
        for member in inside
    ]


def with_format(files: list[SourceFile], place: SourcePath, given: str) -> list[SourceFile]:
    """Those of a place's files that have a format: the given one, else by their names.

    Raises:
        SourceError: it is one file alone, and its name tells none.
    """
    if given:
        return [replace(file, format=given) for file in files]
    if len(files) == 1 and not files[0].format and place.source.endswith(files[0].name):
        name = files[0].name.lower()
        raise SourceError(
            f"the format of file {place.source!r} can't be told from its name",
            "save it as .xlsx, which can be read."
            if name.endswith(_OLD_WORKBOOKS)
            else "unpack it, and give the folder."
            if PurePosixPath(name).suffix in _ARCHIVES or ".tar." in name
            else "`--source-format` (`source_format=`) names it, such as csv; or use one of these "
            f"suffixes: {', '.join(FORMATS)} (with {', '.join(COMPRESSIONS)} behind it or not).",
        )
    return [file for file in files if file.format]


def check_formats(files: Sequence[SourceFile]) -> None:
    """See that all files are of one format.

    Raises:
        SourceError: they are not.
    """
    formats = sorted({file.format for file in files})
    if len(formats) > 1:
        examples = {file.format: file.name for file in reversed(files)}
        raise SourceError(
            "the source mixes formats: "
            + ", ".join(f"{name} ({examples[name]!r})" for name in formats),
            "unpack the archive, and name files of one format only."
            if all(file.member for file in files)
            else "name files of one format only, for example with a glob such as "
            "'folder/**/*.csv'.",
        )


def nothing_found(place: SourcePath, files: Sequence[SourceFile] = ()) -> SourceError:
    """The error that a place has no file of a known format; `files` are those it has."""
    source, storage = place.source, place.storage
    if files:
        return SourceError(
            f"{source!r} holds no file of a known format",
            f"it holds {_some(file.name for file in files)}; known suffixes: "
            f"{', '.join(FORMATS)}. `--source-format` reads them all the same.",
        )
    if storage is not None:
        nearby = _some(found.key for found in storage.list(""))
        return SourceError(
            f"{source!r} matches no object", f"below {folder_of(source)!r}: {nearby}."
        )
    parent = Path(folder_of(source) or ".").expanduser()
    while not parent.is_dir():
        parent = parent.parent
    there = sorted(path.name + "/" * path.is_dir() for path in parent.iterdir())
    name = PurePosixPath(source).name
    close = closest_match(name, there)
    guess = f"; did you mean {str(parent / close)!r}?" if close else ""
    nearby = _some(sort_by_similarity(name, there))
    return SourceError(
        f"{source!r} matches no file{guess}", f"in folder {str(parent)!r}: {nearby}."
    )


def _some(names: Iterator[str] | list[str]) -> str:
    listed: list[str] = []
    for name in names:
        if len(listed) == _NEARBY:
            return f"{', '.join(listed)} and more"
        listed.append(name)
    return ", ".join(listed) or "nothing"


def stream_name(sources: Sequence[str], files: Sequence[SourceFile]) -> str:
    """What to call the stream of a source without a table's name.

    One file or archive gives its name without suffixes; a folder or a glob the folder's name, and
    so does what has no files.

    >>> stream_name(["in/a.csv.gz"], [SourceFile("in/a.csv.gz", "a.csv.gz", "csv", 0)])
    'a'
    """
    names = {file.uri: file.name.removesuffix(f"!/{file.member}") for file in files}
    name = names.popitem()[1] if len(names) == 1 else ""
    if name and sources[0].endswith(name):
        path = PurePosixPath(name)
        while path.suffix.lower() in {*FORMATS, *COMPRESSIONS}:
            path = path.with_suffix("")
        return path.name
    source = sources[0]
    folder = source if len(sources) == 1 and Path(source).is_dir() else folder_of(source)
    if "://" in folder:
        return PurePosixPath(folder.partition("://")[2]).name
    return Path(folder or ".").expanduser().resolve().name or "data"
