"""Find the files of a source: paths, globs and folders, locally or in a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from zipfile import is_zipfile

from lakeport.config.explain import nearest
from lakeport.errors import ConfigError, SourceError
from lakeport.sources.files.places import FORMATS, Place, StorageFor, folder_of, format_of
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.archive import ARCHIVE, is_archive, members
from lakeport.sources.input.plain import COMPRESSIONS
from lakeport.sources.input.unpacking import DEFAULT, UnpackLimits

_MAGIC = 4
_NEARBY = 8
_ARCHIVES = (".tar", ".tgz", ".tbz2", ".txz", ".tzst", ".7z", ".rar")
_OLD_WORKBOOKS = (".xls", ".xlsb", ".ods")


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
    for place in (Place.of(source, storage_for) for source in sources):
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


def with_format(files: list[SourceFile], place: Place, given: str) -> list[SourceFile]:
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


def nothing_found(place: Place, files: Sequence[SourceFile] = ()) -> SourceError:
    """The error that a place has no file of a known format; `files` are those it has."""
    source, storage = place.source, place.storage
    if files:
        return SourceError(
            f"{source!r} holds no file of a known format",
            f"it holds {_some(file.name for file in files)}; known suffixes: "
            f"{', '.join(FORMATS)}. `--source-format` reads them all the same.",
        )
    from lakeport.schema.named import like

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
