"""Plan the load of JSON files: convert documents to lines, infer fields, split at line ends.

Values are copied as text, never re-encoded.
"""

from __future__ import annotations

import codecs
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from lakeport.errors import SourceError
from lakeport.model import Batch, Split
from lakeport.schema.hints import hint_missing_column
from lakeport.schema.nested import find_untyped_columns
from lakeport.schema.types import (
    Field,
    Kind,
    check_column_count,
    check_column_names,
    to_arrow_field,
    to_arrow_type,
)
from lakeport.sources.files.declared_columns import get_json_type
from lakeport.sources.files.file_set import FileSet
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.lines import read_blocks
from lakeport.sources.json.inference import infer_fields, merge_inferred, replace_dates
from lakeport.sources.json.reader import JsonReader, read_json_blocks
from lakeport.sources.options import format_path, max_record_mb

if TYPE_CHECKING:
    from lakeport.sources.spool import SpoolLocation

MAX_RECORD_CHARS = 100 << 20
_OUTPUT_RATIO = 0.2
_MAX_LINE_BYTES = 100 << 20
_NAMES_IN_ERRORS = 20
_KINDS = {'"': "text", "t": "a boolean", "f": "a boolean", "n": "null"}
_CHUNK = 1 << 20
_FIRST_BYTES = 1 << 20
_SPACE = " \t\r\n"
_TWO_OBJECTS = re.compile(rb"\}[ \t\r]*\{")  # or a text like it: then the file is parsed in full


def plan_json(files: FileSet) -> Batch:
    """Plan the load of JSON files as one batch; SourceError for invalid JSON or without records."""
    convert = partial(_convert_to_lines, files.spool, files.records_path)
    converted = dict(files.run(convert, list(enumerate(files.make_plain()))))
    lines = [converted[number] for number in sorted(converted)]
    splits = files.run_light(partial(split_lines, split_bytes=files.split_bytes), lines)
    fields = files.fields if files.declares_all else _infer_fields(files, splits)
    declared = {field.name for field in files.fields}
    inferred = [field for field in fields if field.name not in declared]
    dates = tuple(field for field in inferred if replace_dates(field.type) != field.type)
    if not files.options.infer_dates:
        fields = tuple(
            replace(field, type=replace_dates(field.type)) if field in dates else field
            for field in fields
        )
    reader = JsonReader(
        files.stream,
        fields,
        envelope=False,
        unknown=files.config.unknown_fields,
        max_record_mb=max_record_mb(files.config),
        dates=dates,
    )
    names_path = files.declares_all or files.records_path
    hint = "" if names_path else hint_records_path(lines, fields)
    untyped = [
        (field.name, to_arrow_type(field.type, keep_untyped=True))
        for field in fields
        if field.name not in declared
    ]
    return Batch(
        files.stream,
        0,
        reader,
        tuple(splits),
        bytes=sum(file.bytes for file in lines),
        output_ratio=_OUTPUT_RATIO,
        warnings=(hint,) if hint else (),
        untyped=find_untyped_columns(pa.schema(untyped)),
    )


def _convert_to_lines(
    spool: SpoolLocation, path: tuple[str, ...], item: tuple[int, SourceFile]
) -> list[tuple[int, SourceFile]]:
    """Spool a numbered JSON file as JSON lines; return one that has lines as it is. Runs in tasks.

    Args:
        path: names of the fields that lead to the records; empty if documents are the records.
        item: the file's number, which is returned with it, and the file.
    """
    number, file = item
    if not path and (file.format == "jsonl" or is_json_lines(file)):
        return [item]
    at = spool.new_name(number, "lines.jsonl")
    try:
        with file.open() as document, spool.create_file(at) as target:
            size = write_lines(DocumentRecords(document, file.name, path), target)
    except SourceError:
        if path or not starts_with_object_line(file):
            raise
        return [item]  # JSON lines, some of which are bad records
    uri, key = (at, "") if spool.storage is None else (spool.storage.uri(at), at)
    plain = replace(file, uri=uri, format="jsonl", bytes=size, storage=spool.storage, key=key)
    return [(number, plain)]


def starts_with_object_line(file: SourceFile) -> bool:
    """Whether the first line of a file is one JSON object, under 1 MiB; True for an empty file.

    A line of a MiB or more is none.
    """
    with file.open() as source:
        head = source.read(_FIRST_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
    if not head.startswith(b"{"):
        return not head
    line, newline, _ = head.partition(b"\n")
    if not newline and len(head) >= _FIRST_BYTES:
        return False
    try:
        json.loads(line, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def is_json_lines(file: SourceFile) -> bool:
    """Whether every line of a JSON file is one object, blank lines aside.

    Only the first line is parsed: a value over several lines has a line that does not begin or
    does not end with a brace, as no object can follow another value inside it without a comma.
    """
    if not starts_with_object_line(file):
        return False
    with file.open() as source:
        for block in read_blocks(source, MAX_RECORD_CHARS):
            lines = map(bytes.strip, bytes(block.data[: block.end]).split(b"\n"))
            if not all(map(_looks_like_object, filter(None, lines))):
                return False
    return True


def _looks_like_object(line: bytes) -> bool:
    """Whether a line begins and ends with a brace, and no `}{` in it may part two objects."""
    has_braces = line.removeprefix(codecs.BOM_UTF8).startswith(b"{") and line.endswith(b"}")
    return has_braces and not _TWO_OBJECTS.search(line)


def write_lines(records: Iterable[str], target: BinaryIO) -> int:
    """Write the JSON texts of records as JSON lines; return the number of bytes written.

    Each text stays as it is, but for line breaks between its tokens. Memory is bounded by the
    largest record. Line numbers of the result count records.
    """
    written = 0
    for text in records:
        line = text.replace("\n", " ").replace("\r", " ").encode("utf-8") + b"\n"
        target.write(line)
        written += len(line)
    return written


class DocumentRecords:
    """Iterable of the JSON texts of all records in a JSON file, which is read piece by piece.

    Without a path, the file holds records and arrays of records, one after another. With a path,
    each document's records stand at its end: an array of them, one record, or null for none. Arrays
    on the way, such as one of pages, are gone through. Values beside the path are skipped.

    Iterating raises SourceError: the file is not JSON, or a value is longer than 100 million
    characters; or an object on the path has no field of that name, or two; or a value of another
    kind stands there.
    """

    def __init__(self, source: BinaryIO, name: str, path: Sequence[str] = ()) -> None:
        self._path = tuple(path)
        self._source = source
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("strict")
        self._scan = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
        self._text = ""
        self._at = 0
        self._is_ended = False
        self._count = 0

    def __iter__(self) -> Iterator[str]:
        """Yield the JSON text of each record; raise SourceError, see above."""
        try:
            while (character := self._peek()) != "":
                if self._path:
                    yield from self._follow_path(0)
                else:
                    yield from self._take_records(character)
        except RecursionError:
            raise self._syntax_error("it is nested too deeply") from None

    def _take_records(self, character: str) -> Iterator[str]:
        """Yield the JSON texts of an array's elements if `character` is `[`, else of the value."""
        elements = self._elements("]") if character == "[" else [None]
        for _ in elements:
            value = self._take_value()
            self._count += 1
            yield value

    def _elements(self, closing_bracket: str) -> Iterator[None]:
        """Yield None before each element, for the caller to read it; SourceError if not closed."""
        self._at += 1
        if self._peek() != closing_bracket:
            yield
            while self._peek() == ",":
                self._at += 1
                self._peek()
                yield
        if (character := self._peek()) != closing_bracket:
            what = "array" if closing_bracket == "]" else "object"
            raise self._syntax_error(
                f"the {what} is not closed" if not character else "a comma is missing"
            )
        self._at += 1

    def _peek(self) -> str:
        """Skip whitespace and return the next character, still unread; empty at the file's end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if self._is_ended:
                return ""
            self._read_more(_CHUNK)

    def _read_more(self, size: int) -> None:
        """Drop the parsed text and read up to `size` more bytes; SourceError if not UTF-8."""
        data = self._source.read(size)
        self._is_ended = not data
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise self._syntax_error("it is not UTF-8 text") from error
        self._text = self._text[self._at :] + text
        self._at = 0

    def _take_value(self) -> str:
        """Read the next value and return its JSON text; SourceError if invalid or too long."""
        size = _CHUNK
        while True:
            try:
                end = self._scan(self._text, self._at)[1]
            except json.JSONDecodeError as error:
                if self._is_ended:
                    reason = f"{error.msg.lower()}, or the file is cut off"
                    raise self._syntax_error(reason) from None
                end = 0
            except (RecursionError, ValueError):
                raise self._syntax_error("it is nested too deeply") from None
            if end and (end < len(self._text) or self._is_ended):
                value = self._text[self._at : end]
                self._at = end
                return value
            if len(self._text) - self._at > MAX_RECORD_CHARS:
                raise self._syntax_error(
                    f"no record ends within {MAX_RECORD_CHARS >> 20} million characters"
                )
            self._read_more(size)
            size *= 2

    def _follow_path(self, depth: int) -> Iterator[str]:
        """Yield the records below the next value, which is `depth` names down `records_path`."""
        character = self._peek()
        if depth == len(self._path) and character in "[{":
            yield from self._take_records(character)
        elif depth == len(self._path) and character == "n":
            self._take_value()
        elif character == "[":
            for _ in self._elements("]"):
                yield from self._follow_path(depth)
        elif character == "{" and depth < len(self._path):
            yield from self._follow_field(depth)
        else:
            raise self._path_error(depth, f"there stands {_KINDS.get(character, 'a number')}")

    def _follow_field(self, depth: int) -> Iterator[str]:
        """Yield records in the object's field `path[depth]`; SourceError if absent or repeated."""
        names: dict[str, None] = {}
        wanted = self._path[depth]
        for _ in self._elements("}"):
            name = self._take_name()
            if name != wanted:
                self._skip_value()
            elif name in names:
                raise self._path_error(depth, f"there are two fields {name!r}")
            else:
                yield from self._follow_path(depth + 1)
            if name == wanted or len(names) < _NAMES_IN_ERRORS:
                names[name] = None
        if wanted not in names:
            there = ", ".join(map(repr, names)) or "nothing"
            raise self._path_error(depth, f"there is no {wanted!r}, but {there}")

    def _take_name(self) -> str:
        """Read a field's name and colon and return the name; SourceError if one is missing."""
        name = json.loads(self._take_value()) if self._peek() == '"' else None
        if name is None or self._peek() != ":":
            raise self._syntax_error("a field's name is missing")
        self._at += 1
        self._peek()
        return str(name)

    def _skip_value(self) -> None:
        """Skip the next value, one element or member at a time to save memory."""
        character = self._peek()
        if character == "[":
            for _ in self._elements("]"):
                self._take_value()
        elif character == "{":
            for _ in self._elements("}"):
                self._take_name()
                self._take_value()
        else:
            self._take_value()

    def _path_error(self, depth: int, reason: str) -> SourceError:
        """Return the error for a path that fails `depth` names down."""
        at = f"below {format_path(self._path[:depth])!r}" if depth else "at the top"
        return SourceError(
            f"`records_path` {format_path(self._path)!r} leads to no records in file "
            f"{self._name!r}, behind record {self._count}: {at}, {reason}",
            "name the fields that lead to the records, with dots between them.",
        )

    def _syntax_error(self, reason: str) -> SourceError:
        """Return the error for invalid JSON, with the number of records before it."""
        return SourceError(
            f"file {self._name!r} is not valid JSON behind record {self._count}: {reason}",
            "give one array of records, records one after another, or JSON lines (.jsonl); for an "
            "array within an object, `--records-path` (`records_path=`) names the field.",
        )


def split_lines(file: SourceFile, split_bytes: int) -> list[Split]:
    """Split an uncompressed file at line ends into ranges of `split_bytes` or more; none if empty.

    A byte order mark is left out.
    """
    size = file.bytes
    splits: list[Split] = []
    with file.open() as source:
        start = at = len(codecs.BOM_UTF8) if source.read(3) == codecs.BOM_UTF8 else 0
        source.seek(start)
        line = next_line = 1
        while chunk := source.read(min(split_bytes, _CHUNK)):
            while (cut := _find_line_end(chunk, start + split_bytes - at)) > 0:
                next_line += chunk.count(b"\n", 0, cut)
                at += cut
                splits.append(file.split(start, at, line))
                start, line, chunk = at, next_line, chunk[cut:]
            next_line += chunk.count(b"\n")
            at += len(chunk)
    if start < size:
        splits.append(file.split(start, size, line))
    return splits


def _find_line_end(chunk: bytes, least: int) -> int:
    """Return the first offset from `least` on that is right behind a newline; 0 for none."""
    return chunk.find(b"\n", max(least - 1, 0)) + 1 if least <= len(chunk) else 0


def _infer_fields(files: FileSet, splits: Sequence[Split]) -> tuple[Field, ...]:
    """Return declared and inferred fields of all records; SourceError if a declared one is absent.

    It is raised if no file holds a record, too.
    """
    declared = {field.name: field for field in files.fields}
    as_json = frozenset(n for n, field in declared.items() if field.type.kind is Kind.JSON)
    infer = partial(_infer_split, as_json, files.config.max_columns)
    parts = sorted(files.run(infer, list(enumerate(splits))), key=itemgetter(0))
    inferred = merge_inferred(fields for _, fields in parts)
    present = {field.name for field in inferred}
    absent = [name for name in declared if name not in present | files.folder_names]
    if absent:
        raise SourceError(
            f"field {absent[0]!r} is declared, but no record has it",
            hint_missing_column(absent[0], present, "the records have"),
        )
    if not splits:
        raise SourceError(f"stream {files.stream!r}: no file holds a record", "name other files.")
    fields = tuple(_apply_declared(declared.get(field.name), field, files) for field in inferred)
    columns = pa.schema([to_arrow_field(field.name, field.type) for field in fields])
    check_column_count(files.stream, columns, files.config.max_columns, complete=False)
    check_column_names(files.stream, [field.name for field in fields])
    return fields


def _infer_split(
    as_json: frozenset[str], max_columns: int, item: tuple[int, Split]
) -> list[tuple[int, tuple[Field, ...]]]:
    """Infer the fields of a numbered split; return both in a list of one. Run inside tasks."""
    number, split = item
    read = read_json_blocks(split, _MAX_LINE_BYTES)
    blocks = (block.data for block in read if not block.is_cut)
    return [(number, infer_fields(blocks, as_json, max_columns))]


def _apply_declared(declared: Field | None, inferred: Field, files: FileSet) -> Field:
    """Return `declared`, with a type for reading it from JSON; `inferred` if it is None."""
    if declared is None:
        return inferred
    if inferred.name not in files.config.columns:
        return declared
    return replace(declared, type=get_json_type(declared.type, inferred.type))


def hint_records_path(files: Sequence[SourceFile], fields: Sequence[Field]) -> str:
    """Return a hint on `--records-path` if each JSON lines file is one record; else empty.

    That record has to have exactly one list of objects.
    """
    paths = list(_paths_of_lists(fields, ()))
    if len(paths) != 1 or not all(map(_has_one_line, files)):
        return ""
    path = format_path(paths[0])
    return (
        f"each file is one record, with objects in {path!r}: if those are the records, land them "
        f"with `--records-path {shlex.quote(path)}` (in Python, `records_path={path!r}`)."
    )


def _paths_of_lists(fields: Sequence[Field], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the path of each field that is a list of objects, also within objects."""
    for field in fields:
        if field.type.item is not None and field.type.item.kind is Kind.STRUCT:
            yield (*path, field.name)
        elif field.type.kind is Kind.STRUCT:
            yield from _paths_of_lists(field.type.fields, (*path, field.name))


def _has_one_line(file: SourceFile) -> bool:
    """Whether a file has exactly one line that is not blank."""
    with file.open() as source:
        return len(list(islice(filter(bytes.strip, source), 2))) == 1
