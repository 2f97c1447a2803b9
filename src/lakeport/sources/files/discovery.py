"""Find the files that a source names: by a file, a folder or a glob, on a disk or in a store."""

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
    DEFAULT_LIMITS,
    HIDDEN,
    UnpackLimits,
    is_archive,
    is_hidden,
    list_members,
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
"""Returns the store rooted at a folder's URI, or None for a local path."""

_WILD = re.compile(r"[*?\[]")
_DELTA_LOG = "_delta_log"

_MAGIC = 4
_NEARBY = 8
_ARCHIVES = (".tar", ".tgz", ".tbz2", ".txz", ".tzst", ".7z", ".rar")
_OLD_WORKBOOKS = (".xls", ".xlsb", ".ods")


class ListedFile(NamedTuple):
    """A file found in a listing of a folder or a store: its URI, size and version tag.

    Attributes:
        uri: its absolute path, or the object's URI.
        tag: a text that changes with the content: the time of writing in nanoseconds since 1970;
            of an object its ETag, or else the time of its last change.
    """

    uri: str
    bytes: int
    tag: str


@dataclass(frozen=True, slots=True)
class SourcePath:
    """A path that the user gave: a file, a folder or a glob, on the local disk or in a store.

    Attributes:
        source: the name as the user gave it; a bucket's ends with a slash.
        storage: the store, rooted at the name's folder; None for this machine's disk.
    """

    source: str
    storage: Storage | None = None

    @classmethod
    def of(cls, source: str, storage_for: StorageFor | None) -> SourcePath:
        """Make a `SourcePath` of a path or URI; `storage_for` returns its store, None if local."""
        scheme, _, rest = source.partition("://")
        source = f"{scheme}://{rest}/" if rest and "/" not in rest else source
        storage = storage_for(get_fixed_folder(source)) if storage_for else None
        return cls(source, storage)

    @property
    def is_glob(self) -> bool:
        """Whether the name is a glob."""
        return bool(_WILD.search(self.source))

    @property
    def path(self) -> str:
        """The absolute local path, without `..`."""
        path = str(Path(self.source).expanduser().absolute())
        if ".." not in path.split("/"):
            return path
        folder = get_fixed_folder(path)
        return f"{os.path.realpath(folder).rstrip('/')}/{path[len(folder) :]}"

    @property
    def name(self) -> str:
        """The path in canonical form: absolute on the local disk, else with the store's own URI."""
        return (
            self.path
            if self.storage is None
            else self.root + self.source[len(get_fixed_folder(self.source)) :]
        )

    @property
    def root(self) -> str:
        """The URI of the folder that holds all files of the path, with a slash at its end."""
        if self.storage is None:
            return get_fixed_folder(self.path)
        return self.storage.uri("x").removesuffix("x")

    def list_files(self, after_uri: str = "") -> Iterator[ListedFile]:
        """Yield the files whose URIs sort after `after_uri`, unsorted, without hidden names.

        Names that start with `_` or `.` are left out of folders and globs, and so are links that
        lead out of the folder.

        Args:
            after_uri: a URI; only files behind it are listed, without reading what comes before if
                the place allows that. Empty for all files.

        Raises:
            SourceError: the place is a Delta table's folder, or a glob's brackets hold no set.
        """
        return self._list_stored(after_uri) if self.storage else self._list_local(after_uri)

    def refresh(self, listed: ListedFile) -> ListedFile | None:
        """Stat a listed file again; return its current entry, or None if it was removed."""
        if self.storage is None:
            with suppress(FileNotFoundError, NotADirectoryError):
                return _listed_from_stat(listed.uri, os.stat(listed.uri))  # noqa: PTH116
            return None
        key = listed.uri[len(self.root) :]
        found = next(self.storage.list(key), None)
        return self._listed_from_object(found) if found is not None and found.key == key else None

    def file(self, listed: ListedFile) -> SourceFile:
        """Return a listed file as a `SourceFile`; its suffix gives the format, empty if unknown."""
        name = listed.uri.rpartition("/")[2]
        if self.storage is None:
            return SourceFile(listed.uri, name, get_format(name), listed.bytes)
        key = listed.uri[len(self.root) :]
        uri = get_fixed_folder(self.source) + key
        return SourceFile(uri, name, get_format(name), listed.bytes, self.storage, key)

    def _list_local(self, after_uri: str) -> Iterator[ListedFile]:
        """Yield the local files of the path; those of folders and globs sort after `after_uri`."""
        path = self.path
        if os.path.isfile(path):  # noqa: PTH113
            yield _listed_from_stat(path, os.stat(path))  # noqa: PTH116
        elif os.path.isdir(path):  # noqa: PTH112
            yield from _walk_folder(path, after_uri)
        elif self.is_glob:
            yield from (file for file in _list_glob(path, self.root) if file.uri > after_uri)

    def _list_stored(self, after_uri: str) -> Iterator[ListedFile]:
        """Yield the path's files in a store after `after_uri`; SourceError for a Delta table."""
        assert self.storage is not None  # for the type checker
        folder, root = get_fixed_folder(self.source), self.root
        rest = self.source[len(folder) :]
        matches = _compile_glob(self.source) if self.is_glob else None
        for found in self.storage.list("" if matches else rest, after=after_uri[len(root) :]):
            if matches and found.key != rest and not matches(found.key):
                continue
            parts = found.key.split("/")
            if matches is None and _DELTA_LOG in parts:
                raise _delta_table_error(folder + "/".join(parts[: parts.index(_DELTA_LOG)]))
            if found.key != rest and is_hidden(parts):
                continue
            yield self._listed_from_object(found)

    def _listed_from_object(self, found: StoredObject) -> ListedFile:
        """Return an object's entry, with its ETag, or its time of change if it has none."""
        return ListedFile(self.root + found.key, found.bytes, found.etag or repr(found.modified))


def get_format(name: str) -> str:
    """Return a file's format by its suffix, ignoring one such as `.gz`; empty if unknown.

    >>> get_format("flights.CSV.gz"), get_format("notes.txt")
    ('csv', '')
    """
    path = PurePosixPath(name.lower())
    if path.suffix in COMPRESSIONS:
        path = path.with_suffix("")
    return FORMATS.get(path.suffix, "")


def get_fixed_folder(source: str) -> str:
    """Return a path's folder with its slash; of a glob, the folders before the first wildcard.

    >>> get_fixed_folder("in/a.csv"), get_fixed_folder("in/2024-*/a.csv"), get_fixed_folder("in/")
    ('in/', 'in/', 'in/')
    """
    wild = _WILD.search(source)
    fixed = source[: wild.start()] if wild else source
    return fixed[: fixed.rfind("/") + 1] if wild or not fixed.endswith("/") else fixed


def _listed_from_stat(path: str, status: os.stat_result) -> ListedFile:
    """Return a local file's entry, with its time of writing in nanoseconds."""
    return ListedFile(path, status.st_size, str(status.st_mtime_ns))


def _walk_folder(folder: str, after_path: str = "") -> Iterator[ListedFile]:
    """Yield the files below a folder that sort after `after_path`; SourceError for Delta tables."""
    real = os.path.realpath(folder)
    waiting = [folder.rstrip("/")]
    while waiting:
        parent = waiting.pop()
        for entry in _scan_folder(parent or "/"):
            if entry.name == _DELTA_LOG and entry.is_dir():
                raise _delta_table_error(parent)
            path = f"{parent}/{entry.name}"
            if entry.name.startswith(HIDDEN):
                continue
            if entry.is_dir(follow_symlinks=False):
                if f"{path}/" > after_path or after_path.startswith(f"{path}/"):
                    waiting.append(path)
            elif path > after_path and entry.is_file():
                if entry.is_symlink() and not _is_below(os.path.realpath(path), real):
                    continue
                with suppress(FileNotFoundError):
                    yield _listed_from_stat(path, entry.stat())


def _scan_folder(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield a folder's entries, none if it no longer exists; SourceError if it can't be listed."""
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


def _list_glob(pattern: str, root: str) -> Iterator[ListedFile]:
    """Yield the files that a local glob matches, unsorted; skip links that lead out of `root`."""
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
            inside[parent] = _is_below(os.path.realpath(parent), real)
        if not inside[parent]:
            continue
        if stat.S_ISREG(found.st_mode):
            yield _listed_from_stat(path, found)
        elif stat.S_ISDIR(found.st_mode) and folders:
            yield from _walk_folder(path)


def _is_below(path: str, root: str) -> bool:
    """Whether a path is `root` or lies below it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def _compile_glob(source: str) -> Callable[[str], object]:
    """Return a matcher for paths relative to a glob's fixed folder; SourceError if malformed."""
    pattern = _translate_glob(source[len(get_fixed_folder(source)) :])
    try:
        return re.compile(pattern).fullmatch
    except re.error:
        raise SourceError(
            f"{source!r} has brackets that hold no set", "write a set such as [a-z]."
        ) from None


def _translate_glob(text: str) -> str:
    """Translate a glob to a regular expression: `*` stays in one folder, `**/` crosses folders."""
    parts: list[str] = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", text, re.DOTALL):
        parts.append({"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(token, ""))
        if not parts[-1]:
            is_set = len(token) > 1
            parts[-1] = token.replace("[!", "[^", 1) if is_set else re.escape(token)
    return "".join(parts)


def _delta_table_error(folder: str) -> SourceError:
    """Build the error for reading a Delta table's folder as plain files."""
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
    limits: UnpackLimits = DEFAULT_LIMITS,
) -> list[SourceFile]:
    """Return the files of all `sources`, sorted and distinct; SourceError if one matches no file.

    Args:
        sources: files, globs (`*`, `?`, `[...]`, `**`) and folders, which are read recursively.
            In globs and folders, names that start with `_` or `.` are left out, and so are links
            that lead out of the folder. A zip archive is read like a folder.
        format: one of the values of `FORMATS`, in place of the formats by the files' names.
        storage_for: returns the store of a URI; without it all sources are local.

    Raises:
        ConfigError: `format` is unknown.
        SourceError: a source matches no file, the files are of different formats, an archive can't
            be unpacked, or a folder is a Delta table.
    """
    check_format(format)
    found: dict[tuple[str, str], SourceFile] = {}
    for place in (SourcePath.of(source, storage_for) for source in sources):
        stored = sorted(place.list_files())
        files = [file for each in stored for file in expand_archive(place.file(each), limits)]
        chosen = select_format(files, place, format)
        if not chosen:
            raise no_files_error(place, files)
        found.update(((file.uri, file.member), file) for file in chosen)
    result = [found[place] for place in sorted(found)]
    check_one_format(result)
    return result


def check_format(format_name: str) -> None:
    """Raise ConfigError if a file format is unknown; an empty one means none was given."""
    if format_name and format_name not in FORMATS.values():
        known = ", ".join(dict.fromkeys(FORMATS.values()))
        raise ConfigError(f"file format {format_name!r} is unknown", f"known formats: {known}.")


def expand_archive(file: SourceFile, limits: UnpackLimits) -> list[SourceFile]:
    """Return the files in a zip archive, or any other file itself; SourceError if bad or empty."""
    if not file.name.lower().endswith(ARCHIVE):
        return [file]
    with file.open() as source:
        # Damage may be at either end.
        if not is_archive(source.read(_MAGIC)) and not is_zipfile(source):
            return [file]
        inside = list_members(source, file.uri, limits)
    if not inside:
        raise SourceError(f"archive {file.uri!r} holds no file", "get it again, or leave it out.")
    return [
        replace(
            file,
            name=f"{file.name}!/{member.filename}",
            format=get_format(member.filename) or file.format * (len(inside) == 1),
            bytes=member.file_size,
            member=member.filename,
        )
        for member in inside
    ]


def select_format(files: list[SourceFile], place: SourcePath, format_name: str) -> list[SourceFile]:
    """Set the given format, else keep files of known ones; SourceError if a lone file has none."""
    if format_name:
        return [replace(file, format=format_name) for file in files]
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


def check_one_format(files: Sequence[SourceFile]) -> None:
    """Raise SourceError unless all files have the same format."""
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


def no_files_error(place: SourcePath, unknown_files: Sequence[SourceFile] = ()) -> SourceError:
    """Build the error for a path without a file of known format; `unknown_files` are others."""
    source, storage = place.source, place.storage
    if unknown_files:
        return SourceError(
            f"{source!r} holds no file of a known format",
            f"it holds {_join_some(file.name for file in unknown_files)}; known suffixes: "
            f"{', '.join(FORMATS)}. `--source-format` reads them all the same.",
        )
    if storage is not None:
        nearby = _join_some(found.key for found in storage.list(""))
        return SourceError(
            f"{source!r} matches no object", f"below {get_fixed_folder(source)!r}: {nearby}."
        )
    parent = Path(get_fixed_folder(source) or ".").expanduser()
    while not parent.is_dir():
        parent = parent.parent
    entries = sorted(path.name + "/" * path.is_dir() for path in parent.iterdir())
    name = PurePosixPath(source).name
    close = closest_match(name, entries)
    guess = f"; did you mean {str(parent / close)!r}?" if close else ""
    nearby = _join_some(sort_by_similarity(name, entries))
    return SourceError(
        f"{source!r} matches no file{guess}", f"in folder {str(parent)!r}: {nearby}."
    )


def _join_some(names: Iterator[str] | list[str]) -> str:
    """Join at most eight names with commas, and "and more" if there are others; or "nothing"."""
    listed: list[str] = []
    for name in names:
        if len(listed) == _NEARBY:
            return f"{', '.join(listed)} and more"
        listed.append(name)
    return ", ".join(listed) or "nothing"


def stream_name(sources: Sequence[str], files: Sequence[SourceFile]) -> str:
    """Return a stream's name: its only file or archive without suffixes, else its folder.

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
    folder = source if len(sources) == 1 and Path(source).is_dir() else get_fixed_folder(source)
    if "://" in folder:
        return PurePosixPath(folder.partition("://")[2]).name
    return Path(folder or ".").expanduser().resolve().name or "data"
