"""JSON documents whose records stand within objects, as services answer: `{"data": [...]}`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import BinaryIO

from lakeport.errors import SourceError
from lakeport.schema.types import Field, Kind
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.json.documents import Values
from lakeport.sources.json.paths import format_path

_NAMED = 20
_KINDS = {'"': "text", "t": "a boolean", "f": "a boolean", "n": "null"}


class WrappedValues(Values):
    """The texts of the records that a path leads to, in each document of a file.

    Arrays on the way, such as one of pages, are gone through. At its end stands an array of
    records, one record, or null for none. What lies beside the path is passed over, a value at a
    time.

    Args:
        source: the file.
        name: of the file, for errors.
        path: names of fields, at least one.

    Raises:
        SourceError: (while iterating) as `Values`; or an object has no field of that name, or
            two, or something else stands there.
    """

    def __init__(self, source: BinaryIO, name: str, path: Sequence[str]) -> None:
        super().__init__(source, name)
        self._path = tuple(path)

    def __iter__(self) -> Iterator[str]:
        try:
            while self._next() != "":
                yield from self._below(0)
        except RecursionError:
            raise self._wrong("it is nested too deeply") from None

    def _below(self, depth: int) -> Iterator[str]:
        """The records in the value that begins here, to which this much of the path has led."""
        character = self._next()
        if depth == len(self._path) and character in "[{":
            yield from self._items() if character == "[" else (self._value(),)
        elif depth == len(self._path) and character == "n":
            self._take()
        elif character == "[":
            for _ in self._places("]"):
                yield from self._below(depth)
        elif character == "{" and depth < len(self._path):
            yield from self._member(depth)
        else:
            raise self._astray(depth, f"there stands {_KINDS.get(character, 'a number')}")

    def _member(self, depth: int) -> Iterator[str]:
        names: dict[str, None] = {}
        wanted = self._path[depth]
        for _ in self._places("}"):
            name = self._name_of_member()
            if name != wanted:
                self._pass_over()
            elif name in names:
                raise self._astray(depth, f"there are two fields {name!r}")
            else:
                yield from self._below(depth + 1)
            if name == wanted or len(names) < _NAMED:
                names[name] = None
        if wanted not in names:
            there = ", ".join(map(repr, names)) or "nothing"
            raise self._astray(depth, f"there is no {wanted!r}, but {there}")

    def _name_of_member(self) -> str:
        name = json.loads(self._take()) if self._next() == '"' else None
        if name is None or self._next() != ":":
            raise self._wrong("a field's name is missing")
        self._at += 1
        self._next()
        return str(name)

    def _pass_over(self) -> None:
        character = self._next()
        if character == "[":
            for _ in self._places("]"):
                self._take()
        elif character == "{":
            for _ in self._places("}"):
                self._name_of_member()
                self._take()
        else:
            self._take()

    def _astray(self, depth: int, what: str) -> SourceError:
        at = f"below {format_path(self._path[:depth])!r}" if depth else "at the top"
        return SourceError(
            f"`records_path` {format_path(self._path)!r} leads to no records in file "
            f"{self._name!r}, behind record {self._count}: {at}, {what}",
            "name the fields that lead to the records, with dots between them.",
        )


def hint_of(files: Sequence[SourceFile], fields: Sequence[Field]) -> str:
    """What to say where each file is one record that seems to wrap the records; else empty.

    Args:
        files: as JSON lines.
        fields: the columns that were found.
    """
    paths = list(_lists(fields, ()))
    if len(paths) != 1 or not all(map(_is_one_record, files)):
        return ""
    path = format_path(paths[0])
    return (
        f"each file is one record, with objects in {path!r}: if those are the records, land them "
        f"with `--records-path {shlex.quote(path)}` (in Python, `records_path={path!r}`)."
    )


def _lists(fields: Sequence[Field], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Paths of lists of objects, through objects."""
    for field in fields:
        if field.type.item is not None and field.type.item.kind is Kind.STRUCT:
            yield (*path, field.name)
        elif field.type.kind is Kind.STRUCT:
            yield from _lists(field.type.fields, (*path, field.name))


def _is_one_record(file: SourceFile) -> bool:
    with file.open() as source:
        return len(list(islice(filter(bytes.strip, source), 2))) == 1
