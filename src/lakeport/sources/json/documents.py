"""JSON documents -> JSON lines -> ranges of lines. Values are moved, never re-encoded."""

from __future__ import annotations

import codecs
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO

from lakeport.errors import SourceError
from lakeport.model import Split
from lakeport.schema.types import Field, Kind
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.lines import read_blocks
from lakeport.sources.options import format_path

MAX_RECORD_CHARS = 100 << 20
_NAMED = 20
_KINDS = {'"': "text", "t": "a boolean", "f": "a boolean", "n": "null"}
_CHUNK = 1 << 20
_HEAD = 1 << 20
_BOM = b"\xef\xbb\xbf"
_SPACE = " \t\r\n"
_SEVERAL = re.compile(rb"\}[ \t\r]*\{")  # or a text that looks so: then the slower way is taken


def begins_as_lines(file: SourceFile) -> bool:
    """Whether the first line of a JSON file is one whole object, or there is nothing at all."""
    with file.open() as source:
        head = source.read(_HEAD).removeprefix(_BOM).lstrip()
    if not head.startswith(b"{"):
        return not head
    line, newline, _ = head.partition(b"\n")
    if not newline and len(head) >= _HEAD:
        return False
    try:
        json.loads(line, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def is_lines(file: SourceFile) -> bool:
    """Whether a JSON file is JSON lines already: every line that is not blank is one object.

    A value over several lines has a line that does not begin or does not end with a brace, as no
    object can follow another value inside it without a comma.
    """
    if not begins_as_lines(file):
        return False
    with file.open() as source:
        for block in read_blocks(source, MAX_RECORD_CHARS):
            lines = map(bytes.strip, bytes(block.data[: block.end]).split(b"\n"))
            if not all(map(_is_object, filter(None, lines))):
                return False
    return True


def _is_object(line: bytes) -> bool:
    whole = line.removeprefix(_BOM).startswith(b"{") and line.endswith(b"}")
    return whole and not _SEVERAL.search(line)


def document_to_lines(values: Iterable[str], target: BinaryIO) -> int:
    """Write the texts of a document's records as JSON lines; see `Values`.

    Each value's text stays as it is, but for line breaks between its tokens. Memory is bounded by
    the largest record. Line numbers of the result count records.

    Returns:
        How many bytes were written.
    """
    written = 0
    for text in values:
        line = text.replace("\n", " ").replace("\r", " ").encode("utf-8") + b"\n"
        target.write(line)
        written += len(line)
    return written


class Values:
    """The texts of the records in a file of records and arrays of records, one after another.

    With a path, of the records that it leads to, in each document. Arrays on the way, such as one
    of pages, are gone through. At its end stands an array of records, one record, or null for none.
    What lies beside the path is passed over, a value at a time.

    Args:
        source: the file.
        name: of the file, for errors.
        path: names of fields.

    Raises:
        SourceError: (while iterating) the file is not JSON, or a value is longer than 100 million
            characters; or an object has no field of that name, or two, or something else stands
            there.
    """

    def __init__(self, source: BinaryIO, name: str, path: Sequence[str] = ()) -> None:
        self._path = tuple(path)
        self._source = source
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("strict")
        self._scan = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
        self._text = ""
        self._at = 0
        self._ended = False
        self._count = 0

    def __iter__(self) -> Iterator[str]:
        try:
            while (character := self._next()) != "":
                if self._path:
                    yield from self._below(0)
                else:
                    yield from self._items() if character == "[" else (self._value(),)
        except RecursionError:
            raise self._wrong("it is nested too deeply") from None

    def _items(self) -> Iterator[str]:
        """The items of the array that begins here."""
        for _ in self._places("]"):
            yield self._value()

    def _places(self, close: str) -> Iterator[None]:
        """Stand before each part of the array or object that begins here; who asks takes it."""
        self._at += 1
        if self._next() != close:
            yield
            while self._next() == ",":
                self._at += 1
                self._next()
                yield
        if (character := self._next()) != close:
            what = "array" if close == "]" else "object"
            raise self._wrong(
                f"the {what} is not closed" if not character else "a comma is missing"
            )
        self._at += 1

    def _next(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._more(_CHUNK)

    def _more(self, size: int) -> None:
        data = self._source.read(size)
        self._ended = not data
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise self._wrong("it is not UTF-8 text") from error
        self._text = self._text[self._at :] + text
        self._at = 0

    def _value(self) -> str:
        value = self._take()
        self._count += 1
        return value

    def _take(self) -> str:
        size = _CHUNK
        while True:
            try:
                end = self._scan(self._text, self._at)[1]
            except json.JSONDecodeError as error:
                if self._ended:
                    raise self._wrong(f"{error.msg.lower()}, or the file is cut off") from None
                end = 0
            except (RecursionError, ValueError):
                raise self._wrong("it is nested too deeply") from None
            if end and (end < len(self._text) or self._ended):
                value = self._text[self._at : end]
                self._at = end
                return value
            if len(self._text) - self._at > MAX_RECORD_CHARS:
                raise self._wrong(
                    f"no record ends within {MAX_RECORD_CHARS >> 20} million characters"
                )
            self._more(size)
            size *= 2

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

    def _wrong(self, reason: str) -> SourceError:
        return SourceError(
            f"file {self._name!r} is not valid JSON behind record {self._count}: {reason}",
            "give one array of records, records one after another, or JSON lines (.jsonl); for an "
            "array within an object, `--records-path` (`records_path=`) names the field.",
        )


def split_lines(file: SourceFile, split_bytes: int) -> list[Split]:
    """Cut a plain file at line ends into ranges of about `split_bytes`, each with its line number.

    An empty file gives none.
    """
    size = file.bytes
    splits: list[Split] = []
    with file.open() as source:
        start = at = len(_BOM) if source.read(3) == _BOM else 0
        source.seek(start)
        line = seen = 1
        while chunk := source.read(min(split_bytes, _CHUNK)):
            while (cut := _cut(chunk, start + split_bytes - at)) > 0:
                seen += chunk.count(b"\n", 0, cut)
                at += cut
                splits.append(file.split(start, at, line))
                start, line, chunk = at, seen, chunk[cut:]
            seen += chunk.count(b"\n")
            at += len(chunk)
    if start < size:
        splits.append(file.split(start, size, line))
    return splits


def _cut(chunk: bytes, wanted: int) -> int:
    """One past the first line end at or behind `wanted`; 0 where the chunk has none."""
    return chunk.find(b"\n", max(wanted - 1, 0)) + 1 if wanted <= len(chunk) else 0


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
