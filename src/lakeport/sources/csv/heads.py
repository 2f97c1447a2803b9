"""The beginnings of a load's CSV files: how each is written, its columns, its first records."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from lakeport.errors import SourceError
from lakeport.sources.csv.detection import SAMPLE_BYTES, rows_of, sniffed
from lakeport.sources.csv.dialect import CsvOptions, Dialect
from lakeport.sources.csv.formats.readings import Readings
from lakeport.sources.csv.inference import Head, InferKinds, read_head, sampled
from lakeport.sources.csv.reader import Block, Form, record_end, without_joints
from lakeport.sources.files.file_set import FileSet
from lakeport.sources.files.signature import check_signature
from lakeport.sources.files.source_file import SourceFile


class CsvFile(NamedTuple):
    """One file of a load.

    Attributes:
        file: plain UTF-8.
        head: where its records begin.
        form: its columns, and how it is written.
        sample: the readings that its first records leave to each column; empty if nothing is known.
        foreign: for each column, whether its first records have a number or date that is not plain.
    """

    file: SourceFile
    head: Head
    form: Form
    sample: tuple[int, ...] = ()
    foreign: tuple[bool, ...] = ()

    def beginning(self) -> Block | None:
        """The first records; None if there are none, or if the first one is too long."""
        with self.file.open() as source:
            source.seek(self.head.start)
            data = source.read(SAMPLE_BYTES)
            ended = not source.read(1)
        end = record_end(data, self.form.dialect)
        if ended and data:
            block = Block(data, self.head.line, end.torn, end.stray)
        elif end.offset:
            block = Block(data[: end.offset], self.head.line, torn=False, stray=end.stray)
        else:
            return None
        blank = len(self.form.layout) == 1
        return without_joints(block, self.form.dialect, self.head.spellings, blank=blank)[0]

    def without(self, columns: Collection[str]) -> CsvFile:
        """The same file, these columns to be left out."""
        layout = tuple("" if name in columns else name for name in self.form.layout)
        return self._replace(form=self.form._replace(layout=layout))


def heads_of(
    files: FileSet, plain: Sequence[SourceFile], declared: Sequence[str], readings: Readings
) -> list[CsvFile]:
    """Look at the beginning of each file; those that hold nothing at all are left out.

    Whether files have a header is found out for all of them together.

    Raises:
        SourceError: all files are empty, or a header is none.
    """
    names = [name for name in declared if name not in files.folder_names]
    look = partial(_look, files.csv, names, readings)
    found = [csv for csv in files.look(look, plain) if csv.form.layout]
    if not found:
        raise SourceError(
            f"file {plain[0].name!r} is empty" if len(plain) == 1 else "all files are empty",
            "a CSV file needs at least a header, or a row if `header` is false.",
        )
    if len({csv.form.dialect.header for csv in found}) == 1:
        return found
    look = partial(_look, replace(files.csv, header=True), names, readings)
    return [csv for csv in files.look(look, plain) if csv.form.layout]


def _look(
    options: CsvOptions, declared: Sequence[str], readings: Readings, file: SourceFile
) -> list[CsvFile]:
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
    csv = CsvFile(file, head, Form(head.layout, dialect))
    block = csv.beginning() if head.layout else None
    if block is None:
        return [csv._replace(foreign=(False,) * len(head.layout))]
    if dialect.header and options.detect:
        csv = _with_last(csv, block)
    return [_sampled(csv, block, readings)]


def _with_last(csv: CsvFile, block: Block) -> CsvFile:
    """With one more column, without a name, if all records have an empty field behind the header's.

    Some programs end records, but no header, with a delimiter.
    """
    layout, dialect = csv.form
    rows = [row for row in rows_of(block.data.decode("utf-8", "replace"), dialect) if row]
    width = len(layout) + 1
    name = f"column_{width}"
    ended = all(len(row) == width and not row[-1] for row in rows)
    if len(layout) == 1 or not rows or not ended or name in layout:
        return csv
    head = csv.head._replace(layout=(*layout, name), unnamed=(*csv.head.unnamed, (name, width)))
    return csv._replace(head=head, form=Form(head.layout, dialect))


def _dialect(options: CsvOptions, declared: Sequence[str], file: SourceFile) -> Dialect:
    if options.settled() == options:
        return Dialect.of(options)
    with file.open() as source:
        sample = source.read(SAMPLE_BYTES)
        ended = not source.read(1)
    return sniffed(sample, options, ended=ended, declared=declared)


def _sampled(csv: CsvFile, block: Block, readings: Readings) -> CsvFile:
    """Read the first records."""
    layout, dialect = csv.form
    foreign = (False,) * len(layout)
    if not readings.formats:
        return csv._replace(foreign=foreign)
    sample, foreign = sampled(block, InferKinds(layout, frozenset(layout), dialect, readings))
    return csv._replace(sample=sample, foreign=foreign)
