"""Find the files of a source: paths, globs and folders, locally or in a store."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from lakeport.config.explain import nearest
from lakeport.errors import ConfigError, SourceError
from lakeport.model import Storage
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.archive import ARCHIVE, is_archive, members
from lakeport.sources.input.plain import COMPRESSIONS
from lakeport.sources.input.unpacking import DEFAULT, UnpackLimits

__all__ = ["FORMATS", "StorageFor", "discover", "format_of", "stream_name"]

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

_MAGIC = 4
_WILD = re.compile(r"[*?\[]")
_NEARBY = 8
_DELTA_LOG = "_delta_log"
_OLD_WORKBOOKS = (".xls", ".xlsb", ".ods")


def format_of(name: str) -> str:
    """The format that a file's name tells, compressed or not; empty where it tells none.

    >>> format_of("flights.CSV.gz"), format_of("notes.txt")
    ('csv', '')
    """
    path = PurePosixPath(name.lower())
    if path.suffix in COMPRESSIONS:
        path = path.with_suffix("")
    return FORMATS.get(path.suffix, "")


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
    if format and format not in FORMATS.values():
        known = ", ".join(dict.fromkeys(FORMATS.values()))
        raise ConfigError(f"file format {format!r} is unknown", f"known formats: {known}.")
    found: dict[tuple[str, str], SourceFile] = {}
    for source in map(_with_slash, sources):
        storage = storage_for(_folder(source)) if storage_for else None
        stored = _remote(source, storage) if storage else _local(source)
        files = [file for each in stored for file in _unfolded(each, limits)]
        chosen = _chosen(files, source, format)
        if not chosen:
            raise _nothing(source, files, storage)
        found.update(((file.uri, file.member), file) for file in chosen)
    result = [found[place] for place in sorted(found)]
    _check_formats(result)
    return result


def _unfolded(file: SourceFile, limits: UnpackLimits) -> list[SourceFile]:
    """A file; the files of an archive in its place."""
    if not file.name.lower().endswith(ARCHIVE):
        return [file]
    with file.open() as source:
        if not is_archive(source.read(_MAGIC)):
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


def _chosen(files: list[SourceFile], source: str, given: str) -> list[SourceFile]:
    if given:
        return [replace(file, format=given) for file in files]
    if len(files) == 1 and not files[0].format and source.endswith(files[0].name):
        old = files[0].name.lower().endswith(_OLD_WORKBOOKS)
        raise SourceError(
            f"the format of file {source!r} can't be told from its name",
            "save it as .xlsx, which can be read."
            if old
            else "`--source-format` (`source_format=`) names it, such as csv; or use one of these "
            f"suffixes: {', '.join(FORMATS)} (with {', '.join(COMPRESSIONS)} behind it or not).",
        )
    return [file for file in files if file.format]


def _check_formats(files: Sequence[SourceFile]) -> None:
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


def _with_slash(source: str) -> str:
    """A source that is a bucket as the folder that it is."""
    scheme, _, rest = source.partition("://")
    return f"{scheme}://{rest}/" if rest and "/" not in rest else source


def _folder(source: str) -> str:
    wild = _WILD.search(source)
    fixed = source[: wild.start()] if wild else source
    return fixed[: fixed.rfind("/") + 1] if wild or not fixed.endswith("/") else fixed


def _local(source: str) -> Iterator[SourceFile]:
    path = Path(source).expanduser().absolute()
    if path.is_file():
        yield _file(path)
    elif path.is_dir():
        yield from _walk(path)
    elif _WILD.search(source):
        pattern = str(path)
        root = Path(_folder(pattern) or ".")
        for name in sorted(glob.iglob(pattern, recursive=True)):  # noqa: PTH207
            match = Path(name)
            if _hidden(match.relative_to(root) if _folder(pattern) else match):
                continue
            if not _within(match, root):
                continue
            if match.is_file():
                yield _file(match)
            elif match.is_dir() and not pattern.rstrip("/").endswith("**"):
                yield from _walk(match)


def _walk(folder: Path) -> Iterator[SourceFile]:
    for parent, folders, names in os.walk(folder, followlinks=False):
        if _DELTA_LOG in folders:
            raise _delta_table(parent)
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        for name in sorted(names):
            path = Path(parent, name)
            if not name.startswith(("_", ".")) and path.is_file() and _within(path, folder):
                yield _file(path)


def _hidden(relative: Path) -> bool:
    return any(part.startswith(("_", ".")) and part not in {".", ".."} for part in relative.parts)


def _within(path: Path, root: Path) -> bool:
    return path.resolve().is_relative_to(root.resolve())


def _file(path: Path) -> SourceFile:
    return SourceFile(str(path), path.name, format_of(path.name), path.stat().st_size)


def _remote(source: str, storage: Storage) -> Iterator[SourceFile]:
    folder = _folder(source)
    rest = source[len(folder) :]
    wild = _WILD.search(rest)
    try:
        matches = re.compile(_pattern(rest)).fullmatch
    except re.error:
        raise SourceError(
            f"{source!r} has a set in brackets that is none", "such as [a-z]."
        ) from None
    for found in storage.list("" if wild else rest):
        if wild and found.key != rest and not matches(found.key):
            continue
        parts = PurePosixPath(found.key).parts
        if not wild and _DELTA_LOG in parts:
            raise _delta_table(folder + "/".join(parts[: parts.index(_DELTA_LOG)]))
        if found.key != rest and _hidden(Path(found.key)):
            continue
        name = PurePosixPath(found.key).name
        uri = folder + found.key
        yield SourceFile(uri, name, format_of(name), found.bytes, storage, found.key)


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
        "land what Spark reads, `lakeport.land(spark.read.format('delta').load(...), ...)`; or "
        "name files with a glob.",
    )


def _nothing(source: str, files: list[SourceFile], storage: Storage | None) -> SourceError:
    if files:
        return SourceError(
            f"{source!r} holds no file of a known format",
            f"it holds {_some(file.name for file in files)}; known suffixes: "
            f"{', '.join(FORMATS)}. `--source-format` reads them all the same.",
        )
    from lakeport.schema.named import like

    if storage is not None:
        nearby = _some(found.key for found in storage.list(""))
        return SourceError(f"{source!r} matches no object", f"below {_folder(source)!r}: {nearby}.")
    parent = Path(_folder(source) or ".").expanduser()
    while not parent.is_dir():
        parent = parent.parent
    there = sorted(path.name + "/" * path.is_dir() for path in parent.iterdir())
    name = PurePosixPath(source).name
    close = nearest(name, there)
    guess = f"; did you mean {str(parent / close)!r}?" if close else ""
    nearby = _some(like(name, there))
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

    One file or archive gives its name without suffixes; a folder or a glob the folder's name.

    >>> stream_name(["in/a.csv.gz"], [SourceFile("in/a.csv.gz", "a.csv.gz", "csv", 0)])
    'a'
    """
    first = files[0]
    name = first.name.removesuffix(f"!/{first.member}") if first.member else first.name
    if len({file.uri for file in files}) == 1 and sources[0].endswith(name):
        path = PurePosixPath(name)
        while path.suffix.lower() in {*FORMATS, *COMPRESSIONS}:
            path = path.with_suffix("")
        return path.name
    source = sources[0]
    folder = source if len(sources) == 1 and Path(source).is_dir() else _folder(source)
    if "://" in folder:
        return PurePosixPath(folder.partition("://")[2]).name
    return Path(folder or ".").expanduser().resolve().name or "data"
