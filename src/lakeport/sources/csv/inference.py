"""CSV files before they are read: dialects, headers, splits at record ends, types from values."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count
from operator import and_
from typing import TYPE_CHECKING, NamedTuple

from lakeport.errors import SourceError
from lakeport.host.process import available_cores
from lakeport.model import Split
from lakeport.sources.csv.detection import SAMPLE_BYTES, numbered_rows, sniffed
from lakeport.sources.csv.dialect import CsvDialect, CsvOptions
from lakeport.sources.csv.reader import (
    BOM,
    CsvBlock,
    Form,
    Joints,
    Layout,
    blocks,
    blocks_of,
    kinds_parser,
    native_kinds,
    record_end,
    records,
    texts_of,
    way_to_read,
    without_joints,
)
from lakeport.sources.csv.readings import Readings
from lakeport.sources.csv.values import ANY_KIND
from lakeport.sources.files.file_set import FileSet
from lakeport.sources.files.source_file import SourceFile, check_signature

if TYPE_CHECKING:
    from lakeport.native._kernel import CsvParser

JOINTS = ""
"""In place of a column's name: which `Joints` were not seen, as the sum of their values."""

UNJOINED = sum(joint.value for joint in Joints)
_MAX_HEADER = 16 << 20
_SPLIT_BLOCK = 8 << 20
_INFER_BLOCK = 2 << 20
_BEGINNING = 1 << 14
_AHEAD = 2  # blocks that wait for each thread
_THREADS = 8


class Head(NamedTuple):
    """How a CSV file begins.

    Attributes:
        layout: its columns; empty if the file holds nothing at all.
        start: offset of the first record behind the header.
        line: line number of that record, from 1.
        unnamed: those columns that the header gives no name, with the names that they
            got instead and their positions, from 1.
        spellings: the header as it stands there, and as other programs would write it.
    """

    layout: Layout
    start: int
    line: int
    unnamed: tuple[tuple[str, int], ...] = ()
    spellings: frozenset[bytes] = frozenset()


class ColumnKinds(NamedTuple):
    """What the texts of one column can be, as far as they were read (see `Readings`)."""

    name: str
    kinds: int


@dataclass(frozen=True, slots=True)
class InferKinds:
    """Picklable: split -> the kinds of all its columns, from every value. Run inside tasks.

    Attributes:
        form: the columns of the split's file, and how it is written.
        columns: those to infer.
        readings: the formats of numbers and dates that texts are tried in.
        thorough: whether to look for every format in every text (see `Readings.beside`).
    """

    form: Form
    columns: frozenset[str]
    readings: Readings = field(default_factory=Readings)
    thorough: bool = False

    @property
    def native(self) -> bool:
        """Whether it goes by the kernel: in no more time than it takes to cut files."""
        return self.parser() is not None

    def parser(self) -> CsvParser | None:
        """Return the kernel's parser of such files; None where it can't read them."""
        return kinds_parser(len(self.form.layout), self.form.dialect)

    def __call__(self, split: Split) -> list[ColumnKinds]:
        """Infer the kinds in one split. Records with a wrong number of fields don't count."""
        kinds = self.first()
        parser = self.parser()
        for block in blocks_of(split, self.form.dialect, ""):
            kinds = self.of_block(parser, block, kinds)
        return self.of_columns(kinds)

    def first(self) -> list[int]:
        """For each column of the layout the readings that are possible before the first block."""
        kinds = [self.readings.any if name in self.columns else 0 for name in self.form.layout]
        return [*kinds, UNJOINED]

    def of_block(self, parser: CsvParser | None, block: CsvBlock, kinds: list[int]) -> list[int]:
        """Narrow each column's kinds to those that a block's texts fit.

        The last number, of `JOINTS`, loses those that the block has.
        """
        *kinds, unseen = kinds
        block, joints = without_joints(block, self.form)
        kinds = self._of_block(parser, block, kinds) if self.columns else kinds
        return [*kinds, unseen & ~joints.value]

    def _of_block(self, parser: CsvParser | None, block: CsvBlock, kinds: list[int]) -> list[int]:
        plain_kinds = [some & ANY_KIND for some in kinds]
        found = None if self.thorough else native_kinds(parser, block, plain_kinds)
        if found is None:
            columns = texts_of(block, len(kinds), self.form.dialect).columns
            asked = zip(columns, kinds, strict=True)
            return [self.readings.of_texts(column, some) if some else 0 for column, some in asked]
        foreign = self.readings.foreign
        if any(some & foreign and not plain for plain, some in zip(found, kinds, strict=True)):
            kinds = self._by_beginning(block, found, kinds)
        if any(some & foreign and not plain for plain, some in zip(found, kinds, strict=True)):
            columns = texts_of(block, len(kinds), self.form.dialect).columns
        else:
            columns = [None] * len(kinds)
        return [
            plain | self.readings.beside(plain, some)
            if plain or not some & foreign
            else self.readings.of_foreign(column, some)
            for column, plain, some in zip(columns, found, kinds, strict=True)
        ]

    def _by_beginning(self, block: CsvBlock, found: list[int], kinds: list[int]) -> list[int]:
        """Leave out formats that first texts are not in, as pyarrow's reader is slow to start."""
        width, data = len(kinds), block.data[:_BEGINNING]
        numbered = numbered_rows(data.decode("utf-8", "replace"), self.form.dialect)
        rows = [row for _, row in numbered]
        if len(data) < len(block.data):
            del rows[-1]
        rows = [row for row in rows if len(row) == width]
        return [
            some if plain else self.readings.matching((row[n] for row in rows), some)
            for n, (plain, some) in enumerate(zip(found, kinds, strict=True))
        ]

    def of_columns(self, kinds: list[int]) -> list[ColumnKinds]:
        """The same kinds by name, without the columns that are not to be inferred."""
        *kinds, unseen = kinds
        named = zip(self.form.layout, kinds, strict=True)
        found = [ColumnKinds(name, kind) for name, kind in named if name in self.columns]
        return [*found, ColumnKinds(JOINTS, unseen)]


def merged(found: Iterable[ColumnKinds]) -> dict[str, int]:
    """Column -> kinds that the texts of all splits can be.

    >>> merged([ColumnKinds("a", 6), ColumnKinds("a", 4)])
    {'a': 4}
    """
    result: dict[str, int] = {}
    for name, kinds in found:
        result[name] = result.get(name, kinds) & kinds
    return result


def read_head(file: SourceFile, dialect: CsvDialect, names: Sequence[str] = ()) -> Head:
    """Read a plain UTF-8 CSV file's header.

    Args:
        names: columns of files without a header, in order.

    Raises:
        SourceError: two columns have the same name, or the header is no header.
    """
    name = file.name
    with file.open() as source:
        at = 0
        while source.read(len(BOM)) == BOM:  # a program may put its own before another's
            at += len(BOM)
        source.seek(at)
        skipped = [source.readline(_MAX_HEADER) for _ in range(dialect.skip_rows)]
        line, start = top = 1 + len(skipped), source.tell()
        record = b""
        comment = dialect.comment.encode()
        while not record.strip(b"\r\n") or (comment and record.startswith(comment)):
            line += bool(record)
            start = source.tell()
            record = source.readline(_MAX_HEADER)
            if not record:
                return Head((), start, line)
        while not record_end(record, dialect).offset and (more := source.readline(_MAX_HEADER)):
            record += more
            if len(record) > _MAX_HEADER:
                raise SourceError(
                    f"the first record of file {name!r} does not end within {_MAX_HEADER} bytes",
                    "check `--quote`, and whether this is a CSV file.",
                )
    record = _first(record, dialect)
    fields = _fields(record, name, dialect)
    if not dialect.header:
        if len(fields) == 1:  # where the lines without content are records, too
            line, start = top
        return Head(_numbered(len(fields), names, name), start, line)
    layout, unnamed = _named(fields)
    _check_header(layout, name, line)
    spellings = frozenset({record.rstrip(b"\r\n"), *_spelled(fields, dialect)})
    return Head(layout, start + len(record), line + record.count(b"\n"), unnamed, spellings)


def _spelled(fields: Layout, dialect: CsvDialect) -> Iterator[bytes]:
    """Yield a header without quotes, and with all names in quotes, if names can be written so."""
    special = {dialect.delimiter, dialect.quote, "\n", "\r"} - {""}
    if not any(character in name for name in fields for character in special):
        for quote in {"", dialect.quote}:
            yield dialect.delimiter.join(f"{quote}{name}{quote}" for name in fields).encode()


def _first(lines: bytes, dialect: CsvDialect) -> bytes:
    """The first record, with its line break: one line may hold more, ended by carriage returns."""
    text, _ = next(records(lines, dialect))
    end = lines.index(text) + len(text)
    return lines[: end + (2 if lines.startswith(b"\r\n", end) else 1)]


def _fields(record: bytes, name: str, dialect: CsvDialect) -> Layout:
    width = 1
    dialect = replace(dialect, null_values=())
    for _ in range(2):
        _, torn, stray, _ = record_end(record + b"\n", dialect)
        texts = texts_of(CsvBlock(record, 1, torn, stray), width, dialect)
        if not texts.bad:
            return tuple(column[0].as_py() for column in texts.columns)
        found = next(iter(texts.bad.values())).rpartition("found ")[2]
        if not found.isdigit():
            break
        width = int(found)
    reason = next(iter(texts.bad.values()))
    raise SourceError(
        f"the first record of file {name!r} can't be read: {reason}",
        f"{way_to_read(reason, dialect)} Check whether this is a CSV file.",
    )


def _numbered(width: int, names: Sequence[str], file: str) -> Layout:
    if not names:
        return tuple(f"column_{i + 1}" for i in range(width))
    if len(names) != width:
        raise SourceError(
            f"file {file!r} has {width} columns, but {len(names)} are declared",
            "a file without a header needs all of its columns declared, or named by `--columns`, "
            "in order.",
        )
    return tuple(names)


def _named(fields: Layout) -> tuple[Layout, tuple[tuple[str, int], ...]]:
    """The columns, those without a name as `column_N`; and these names with their N, from 1.

    >>> _named(("", "a", "", "column_3"))
    (('column_1', 'a', 'column_3_2', 'column_3'), (('column_1', 1), ('column_3_2', 3)))
    """
    taken = {name.lower() for name in fields}
    unnamed: dict[str, int] = {}
    for position, column in enumerate(fields, start=1):
        if not column:
            name = f"column_{position}"
            names = chain([name], (f"{name}_{n}" for n in count(2)))
            unnamed[next(n for n in names if n not in taken)] = position
    given = iter(unnamed)
    return tuple(column or next(given) for column in fields), tuple(unnamed.items())


def _check_header(fields: Layout, name: str, line: int) -> None:
    seen: set[str] = set()
    for column in fields:
        if column in seen:
            raise SourceError(
                f"file {name!r} has two columns of the name {column!r}",
                "rename one in the header; or "
                f"leave it out with `--skip-rows {line}` and give all names with `--columns`; or "
                "say that there is none with `--no-header`.",
            )
        seen.add(column)


def split_and_infer(
    file: SourceFile, head: Head, infer: InferKinds, split_bytes: int
) -> tuple[list[Split], list[ColumnKinds]]:
    """Cut a file as `split_file` does, and infer on the way: read it once.

    Raises:
        BadRecords: see there.
    """
    if file.bytes - head.start <= split_bytes:
        splits = split_file(file, head, infer.form.dialect, split_bytes)
        return splits, infer(splits[0])
    kinds = infer.first()
    threads = min(_THREADS, available_cores())
    parser = infer.parser()
    waiting: deque[Future[list[int]]] = deque()

    def take(most: int) -> None:
        while len(waiting) > most:
            kinds[:] = map(and_, kinds, waiting.popleft().result())

    def look(block: CsvBlock) -> None:
        take(_AHEAD * threads)
        waiting.append(executor.submit(infer.of_block, parser, block, [*kinds]))

    with ThreadPoolExecutor(threads, "lakeport-infer") as executor:
        splits = split_file(file, head, infer.form.dialect, split_bytes, look, step=_INFER_BLOCK)
        take(0)
    return splits, infer.of_columns(kinds)


def split_file(
    file: SourceFile,
    head: Head,
    dialect: CsvDialect,
    split_bytes: int,
    look: Callable[[CsvBlock], None] | None = None,
    *,
    step: int = _SPLIT_BLOCK,
) -> list[Split]:
    """Cut a plain UTF-8 CSV file at record ends into ranges of about `split_bytes`.

    Only quotes and line breaks are looked at; nothing is parsed.

    Args:
        look: called with each block of a file that is cut.
        step: bytes to read at a time.

    Raises:
        BadRecords: a record is too long, mostly because a quote is not closed.
    """
    size = file.bytes
    whole = file.split(head.start, size, head.line)
    if size - head.start <= split_bytes:
        return [whole]
    splits: list[Split] = []
    start, line = head.start, head.line
    with file.open() as source:
        source.seek(start)
        at = start
        step = min(split_bytes, step)
        for block in blocks(source, whole, dialect, file.name, block_bytes=step):
            if look is not None:
                look(block)
            if at > start and at - start + len(block.data) > split_bytes:
                splits.append(file.split(start, at, line))
                start, line = at, block.line
            at += len(block.data)
    return [*splits, file.split(start, size, line)]


class CsvFile(NamedTuple):
    """One file of a load.

    Attributes:
        file: plain UTF-8.
        head: where its records begin.
        form: its columns, and how it is written.
        splits: how it is cut, once that is known.
        kinds: what its columns can be, if that was seen on the way.
    """

    file: SourceFile
    head: Head
    form: Form
    splits: Sequence[Split] = ()
    kinds: Sequence[ColumnKinds] | None = None

    def first_rows(self) -> list[tuple[int, list[str]]]:
        """Return the first records with the line of each, without those that repeat the header.

        None are returned if the first one is too long.
        """
        with self.file.open() as source:
            source.seek(self.head.start)
            data = source.read(SAMPLE_BYTES)
            ended = not source.read(1)
        layout, dialect, headers = self.form
        if not ended:
            data = data[: record_end(data, dialect).offset]
        text = re.sub("(?m)^\ufeff+", "", data.decode("utf-8", "replace"))
        header = [*layout] if headers else None
        rows = numbered_rows(text, dialect)
        return [(self.head.line + line, row) for line, row in rows if row and row != header]

    def without(self, columns: Collection[str]) -> CsvFile:
        """The same file, these columns to be left out."""
        layout = tuple("" if name in columns else name for name in self.form.layout)
        return self._replace(form=self.form._replace(layout=layout))


def heads_of(files: FileSet, plain: Sequence[SourceFile], declared: Sequence[str]) -> list[CsvFile]:
    """Look at the beginning of each file; those that hold nothing at all are left out.

    Whether files have a header is found out for all of them together.

    Raises:
        SourceError: all files are empty, or a header is none.
    """
    names = [name for name in declared if name not in files.folder_names]
    look = partial(_look, files.csv, names)
    found = [csv for csv in files.look(look, plain) if csv.form.layout]
    if not found:
        raise SourceError(
            f"file {plain[0].name!r} is empty" if len(plain) == 1 else "all files are empty",
            "a CSV file needs at least a header, or a row if `header` is false.",
        )
    if len({csv.form.dialect.header for csv in found}) == 1:
        return found
    look = partial(_look, replace(files.csv, header=True), names)
    return [csv for csv in files.look(look, plain) if csv.form.layout]


def _look(options: CsvOptions, declared: Sequence[str], file: SourceFile) -> list[CsvFile]:
    check_signature(file, texts=options.detect)
    dialect = replace(_dialect(options, declared, file), encoding=file.encoding)
    names = options.columns or declared
    if not dialect.header and options.header is None and not options.columns:
        head = read_head(file, dialect)
        fits = len(names) == len(head.layout)
        if names and not fits:  # not all columns are declared, which takes a header
            dialect = replace(dialect, header=True)
        elif names:
            head = head._replace(layout=tuple(names))
    if dialect.header or options.header is not None or options.columns:
        head = read_head(file, dialect, () if dialect.header else names)
    csv = CsvFile(file, head, Form(head.layout, dialect, head.spellings))
    return [_with_last(csv) if dialect.header and options.detect and head.layout else csv]


def _with_last(csv: CsvFile) -> CsvFile:
    """With one more column, without a name, if all records have an empty field behind the header's.

    Some programs end records, but no header, with a delimiter.
    """
    layout = csv.form.layout
    rows = [row for _, row in csv.first_rows()]
    width = len(layout) + 1
    name = f"column_{width}"
    ended = all(len(row) == width and not row[-1] for row in rows)
    if len(layout) == 1 or not rows or not ended or name in layout:
        return csv
    head = csv.head._replace(layout=(*layout, name), unnamed=(*csv.head.unnamed, (name, width)))
    return csv._replace(head=head, form=csv.form._replace(layout=head.layout))


def _dialect(options: CsvOptions, declared: Sequence[str], file: SourceFile) -> CsvDialect:
    if options.settled() == options:
        return CsvDialect.of(options)
    with file.open() as source:
        sample = source.read(SAMPLE_BYTES)
        ended = not source.read(1)
    return sniffed(sample, options, ended=ended, declared=declared)
