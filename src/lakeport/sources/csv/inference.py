"""Infer the type and the format of each CSV column from all of its texts.

Each column has a set of candidates, the types and formats that all texts seen so far fit. A set is
an int: its lowest bits are the plain kinds of `lakeport.sources.csv.conversion`, then come two
flags. Above them, each format of numbers or dates has two bits: by it, all texts are of its narrow
type (integer, date), or of its wide one (number, timestamp). A set shrinks with each block of
texts, so whatever is left fits every value.

What is not certain stays text. A number such as `1,234` or `1.234` can be read in two formats.
Other columns of the load settle it, if they have one format for certain: `0,5` shows the decimal
mark, `1.234,56` the thousands separator, too. Day and month are settled by the column alone.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import and_
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.host.process import available_cores
from lakeport.model import Split
from lakeport.sources.csv.conversion import (
    ANY_KIND,
    DATE,
    INTEGER,
    NUMBER,
    KindBits,
    all_match,
    drop_empty,
    match_kinds,
    narrowest_type,
)
from lakeport.sources.csv.detection import CsvHeader, split_file
from lakeport.sources.csv.dialect import (
    ISO_DATE,
    NUMBER_FORMATS,
    PLAIN_NUMBER,
    AmountFormat,
    DateFormat,
    Format,
    NumberFormat,
    read_numbered_rows,
)
from lakeport.sources.csv.reader import (
    CsvBlock,
    CsvLayout,
    JoinTraces,
    create_kernel_parser,
    match_kinds_natively,
    parse_block,
    read_split_blocks,
    remove_join_traces,
)
from lakeport.sources.files.source_file import SourceFile

if TYPE_CHECKING:
    from lakeport.native._kernel import CsvParser
    from lakeport.sources.csv.dialect import CsvOptions

_DATE_FORMATS = tuple(
    DateFormat(text)
    for text in ("%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%Y", "%Y/%m/%d", "%Y.%m.%d")
)  # with dots, no country writes the month first
_FIRST_TEXTS = 8
_GROUPED_CODE = "^[0-9]{3}(?:[ .\u00a0\u2009\u202f][0-9]{3})+$"

_COMMA_GROUPS = NumberFormat(".", ",")
_DOT_GROUPS = NumberFormat(",", ".")

_MAY_BE_CODES = ANY_KIND + 1  # all texts may be codes in groups, such as `612 345 678`
_VERIFIED = 2 * _MAY_BE_CODES  # every format in the set was tried on every value
_FORMAT_PLACE = _VERIFIED.bit_length()

CandidateBits = int
"""A set of types and formats that a column may still have; see the module."""


@dataclass(frozen=True, slots=True)
class FormatCandidates:
    """Number and date formats that inference tries; defines the bits of candidate sets. Picklable.

    Attributes:
        formats: in the order of their bits.
        plain: the plain kinds that are possible at all.
        is_forced: whether the user named the decimal mark or the thousands separator.
        amounts: column of numbers with a currency, `%` or signs -> its format, as far as known.
    """

    formats: tuple[Format, ...] = ()
    plain: int = ANY_KIND
    is_forced: bool = False
    amounts: Mapping[str, AmountFormat] = field(default_factory=dict)

    @classmethod
    def from_options(cls, options: CsvOptions) -> FormatCandidates:
        """Return the formats and kinds that are possible with a user's options."""
        numbers = tuple(
            f
            for f in NUMBER_FORMATS
            if options.decimal in (None, f.decimal) and options.thousands in (None, f.thousands)
        )
        if (options.decimal, options.thousands) == (".", ""):
            numbers = ()
        is_forced = options.decimal is not None or options.thousands is not None
        dates = _DATE_FORMATS
        if options.date_format is not None:
            dates = () if options.date_format == ISO_DATE else (DateFormat(options.date_format),)
        has_comma = options.decimal == "," or options.thousands == "."
        return cls(numbers + dates, ANY_KIND & ~NUMBER if has_comma else ANY_KIND, is_forced)

    def format_of_declared(self, type_: pa.DataType | None) -> Format | None:
        """Return the format of columns declared as `type_`; None if plain or not yet known."""
        if type_ is None or type_ == pa.string() or type_ == pa.bool_():
            return None
        if pa.types.is_temporal(type_):
            dates = [f for f in self.formats if isinstance(f, DateFormat)]
            return dates[0] if len(dates) == 1 else None
        numbers = [f for f in self.formats if isinstance(f, NumberFormat) and f != PLAIN_NUMBER]
        groups = ("", ".", ",") if self.is_forced else ()
        fit = [f for f in numbers if f.thousands in groups or len(numbers) == 1]
        return fit[-1] if fit else None

    @property
    def initial(self) -> CandidateBits:
        """Bits of all candidates: inference starts with them, an empty column keeps them."""
        if not self.formats:
            return self.plain
        return self.plain | _MAY_BE_CODES | _VERIFIED | self.format_bits

    @property
    def format_bits(self) -> CandidateBits:
        """The bits of all formats, without the flags below them."""
        return ((1 << 2 * len(self.formats)) - 1) << _FORMAT_PLACE

    def remaining_formats(self, candidates: CandidateBits) -> Iterator[tuple[Format, KindBits]]:
        """Yield each format left in `candidates`, with the bits of the kinds it may read."""
        for format_, place, narrow_kind in self._places():
            kinds = (candidates >> place & 3) * narrow_kind
            if kinds:
                yield format_, kinds

    def narrow(self, texts: pa.StringArray, candidates: CandidateBits) -> CandidateBits:
        """Return those candidates that all texts fit; nulls and empty texts fit all."""
        plain = match_kinds(texts, candidates & ANY_KIND) if candidates & ANY_KIND else 0
        return plain | self.narrow_formats(texts, candidates)

    def narrow_by_sample(self, texts: Iterable[str], candidates: CandidateBits) -> CandidateBits:
        """Drop plain kinds, and formats that a text doesn't match; return the other candidates."""
        found = candidates & ~(ANY_KIND | self.format_bits)
        filled = [text.strip() for text in texts if text]
        for format_, place, _ in self._places():
            if all(map(re.compile(format_.pattern).match, filled)):
                found |= candidates & (3 << place)
        return found

    def narrow_formats(self, texts: pa.StringArray, candidates: CandidateBits) -> CandidateBits:
        """Return `candidates` without plain kinds and formats that don't fit all texts."""
        rest = candidates & ~ANY_KIND
        if not rest & self.format_bits:
            return rest
        texts = pc.utf8_trim_whitespace(drop_empty(texts))
        for part in (texts[:_FIRST_TEXTS], texts):
            found = rest & ~self.format_bits
            ungrouped: dict[str, int] = {}  # what fits without groups fits with any
            for format_, place, narrow_kind in self._places():
                left = (rest >> place & 3) * narrow_kind
                mark = format_.decimal if isinstance(format_, NumberFormat) else ""
                fit = ungrouped.get(mark, 0) & left or _match_formatted(format_, part, left)
                if isinstance(format_, NumberFormat) and not format_.thousands:
                    ungrouped[mark] = fit
                found |= (fit // narrow_kind & 3) << place
            if found & _MAY_BE_CODES and not all_match(part, _GROUPED_CODE):
                found &= ~_MAY_BE_CODES
            rest = found
        return rest

    def narrow_by_kinds(self, kinds: KindBits, candidates: CandidateBits) -> CandidateBits:
        """Return the format and flag bits of `candidates` that remain if all texts fit `kinds`.

        Whole numbers are the same in all formats. Plain numbers with a point may have groups
        instead; no text is read here, so the flag `_VERIFIED` goes.
        """
        rest = candidates & ~ANY_KIND
        if not rest & self.format_bits or kinds == candidates & ANY_KIND & self.plain == self.plain:
            return rest
        if kinds & INTEGER:
            return rest & ~(self._date_bits() | _MAY_BE_CODES)
        if kinds & NUMBER:
            return rest & ~(self._date_bits() | _VERIFIED)
        return rest & ~self.format_bits

    def _date_bits(self) -> CandidateBits:
        """Return the bits of all formats of dates."""
        return sum(3 << place for f, place, _ in self._places() if isinstance(f, DateFormat))

    def _places(self) -> Iterator[tuple[Format, int, int]]:
        """Yield each format, the index of its first bit, and that bit's kind (integer or date)."""
        for n, format_ in enumerate(self.formats):
            kind = INTEGER if isinstance(format_, NumberFormat) else DATE
            yield format_, _FORMAT_PLACE + 2 * n, kind


def _match_formatted(format_: Format, texts: pa.StringArray, kinds: KindBits) -> KindBits:
    """Return the bits of `kinds` that all texts fit when read in a format; 0 if a text can't be."""
    if not kinds or not all_match(texts, format_.pattern):
        return 0
    return match_kinds(format_.normalize(texts), kinds)


class InferredType(NamedTuple):
    """The type and format that inference chose for one column.

    Attributes:
        format: None for plain numbers and ISO dates.
        doubt: the option of `CsvOptions` that would settle an uncertain format; empty if certain.
        is_empty: whether the column has no text at all, so that any type would fit.
    """

    type: pa.DataType
    format: Format | None = None
    doubt: str = ""
    is_empty: bool = False


_TEXT = InferredType(pa.string())
PLAIN_DOUBLE = InferredType(pa.float64())


@dataclass(frozen=True, slots=True)
class NumberEvidence:
    """Number formats of the unambiguous columns, by which the ambiguous ones are decided.

    Attributes:
        allows_comma: whether a comma may be the decimal mark; not if it delimits fields.
    """

    decimal_marks: frozenset[str]
    group_formats: frozenset[Format]
    allows_comma: bool

    @classmethod
    def collect(
        cls, formats: FormatCandidates, columns: Iterable[CandidateBits], *, allows_comma: bool
    ) -> NumberEvidence:
        """Collect decimal marks and formats of the columns whose candidates leave only one."""
        marks: set[str] = set()
        groups: set[Format] = set()
        for candidates in columns:
            left = _number_formats(formats, candidates)
            if candidates & INTEGER or (not left and not candidates & NUMBER):
                continue
            found = {format_.decimal for format_ in left}
            found |= {"."} if candidates & NUMBER else set()
            if len(found) == 1:
                marks |= found
            if not candidates & NUMBER and len(left) == 1:
                groups |= left.keys()
        return cls(frozenset(marks), frozenset(groups), allows_comma)


def _number_formats(
    formats: FormatCandidates, candidates: CandidateBits
) -> dict[NumberFormat, KindBits]:
    """Return the number formats in a set of candidates, with the kinds that all texts have."""
    left = formats.remaining_formats(candidates)
    return {f: kinds for f, kinds in left if isinstance(f, NumberFormat)}


def needs_thorough_inference(
    formats: FormatCandidates, candidates: CandidateBits, evidence: NumberEvidence
) -> bool:
    """Whether a column must be read again: its type depends on formats not tried on all texts."""
    if candidates & (_VERIFIED | INTEGER) or not candidates & formats.format_bits:
        return False
    return not candidates & ANY_KIND or "," in evidence.decimal_marks


def infer_type(
    formats: FormatCandidates, candidates: CandidateBits, evidence: NumberEvidence
) -> InferredType:
    """Choose a column's type and format by its candidates; text with `doubt` set if ambiguous."""
    if candidates == formats.initial:
        return _TEXT._replace(is_empty=True)
    plain = candidates & ANY_KIND
    if plain and plain != NUMBER:
        return InferredType(narrowest_type(plain))
    left = _number_formats(formats, candidates)
    if plain:
        return _infer_with_point(left, evidence)
    if left:
        is_code = candidates & _MAY_BE_CODES
        return _TEXT if is_code else _infer_number(formats, left, evidence)
    dates = [
        (format_, kinds)
        for format_, kinds in formats.remaining_formats(candidates)
        if isinstance(format_, DateFormat)
    ]
    if len(dates) == 1:
        return _choose_format(*dates[0])
    return _TEXT._replace(doubt="date_format") if dates else _TEXT


def _infer_with_point(
    fitting: Mapping[NumberFormat, KindBits], evidence: NumberEvidence
) -> InferredType:
    """Choose double for texts like `1.234`; grouped or text if others have decimal commas."""
    if _DOT_GROUPS in fitting and evidence.decimal_marks == {","}:
        if _DOT_GROUPS in evidence.group_formats:
            return _choose_format(_DOT_GROUPS, fitting[_DOT_GROUPS])
        return _TEXT._replace(doubt="thousands")
    return PLAIN_DOUBLE


def _infer_number(
    formats: FormatCandidates, fitting: Mapping[NumberFormat, KindBits], evidence: NumberEvidence
) -> InferredType:
    """Choose one of the number formats that fit all texts; text with `doubt` set if ambiguous."""
    if PLAIN_NUMBER in fitting:
        with_point = _infer_with_point(fitting, evidence)
        whole = fitting[PLAIN_NUMBER] & INTEGER  # whatever the mark
        if whole or with_point == PLAIN_DOUBLE:
            return _choose_format(PLAIN_NUMBER, fitting[PLAIN_NUMBER])
        return with_point
    marks = {format_.decimal for format_ in fitting}
    if len(marks) == 2 and not _is_same_in_all(fitting):
        if marks & evidence.decimal_marks == {","} and "." not in evidence.decimal_marks:
            marks = {","}
        elif _COMMA_GROUPS in evidence.group_formats and "," not in evidence.decimal_marks:
            marks = {"."}
        else:
            return _TEXT._replace(doubt="decimal")
    if marks == {","} and not (evidence.allows_comma or formats.is_forced):
        return _TEXT._replace(doubt="decimal")
    format_ = next(f for f in fitting if f.decimal in marks)
    return _choose_format(format_, fitting[format_])


def _is_same_in_all(fitting: Mapping[NumberFormat, KindBits]) -> bool:
    """Whether all formats read the same values: whole numbers in the same groups."""
    return len({f.thousands for f in fitting}) == 1 and all(k & INTEGER for k in fitting.values())


def _choose_format(format_: Format, kinds: KindBits) -> InferredType:
    """Return a format with the narrowest type of a set of kinds."""
    return InferredType(narrowest_type(kinds), format_)


TRACES = ""
"""Key in dicts of columns' candidates for the bits of the `JoinTraces` that were not found."""

UNSEEN_TRACES = sum(trace.value for trace in JoinTraces)
_BLOCK_BYTES = 2 << 20
_SAMPLE_BYTES = 1 << 14
_BLOCKS_AHEAD = 2  # that wait for each thread
_THREADS = 8


@dataclass(frozen=True, slots=True)
class ColumnInference:
    """Picklable function that infers the possible types of `columns` from all texts of a split.

    Attributes:
        is_thorough: whether to try every format on every text; see `narrow_by_kinds`.
    """

    layout: CsvLayout
    columns: frozenset[str]
    formats: FormatCandidates = field(default_factory=FormatCandidates)
    is_thorough: bool = False

    def create_parser(self) -> CsvParser | None:
        """Return the kernel's parser; None without a kernel, or if it can't read the dialect."""
        return create_kernel_parser(self.layout.dialect, [None] * len(self.layout.columns))

    def __call__(self, split: Split) -> list[dict[str, CandidateBits]]:
        """Return one dict of each column's candidates by the texts of a split. Run inside tasks.

        Records with a wrong number of fields are ignored.
        """
        candidates = self.initial_candidates()
        parser = self.create_parser()
        for block in read_split_blocks(split, self.layout.dialect, ""):
            candidates = self.narrow(parser, block, candidates)
        return [self.name_candidates(candidates)]

    def initial_candidates(self) -> list[CandidateBits]:
        """Return all candidates for each column, 0 for those not to infer; last, unseen traces."""
        columns = self.layout.columns
        return [*(self.formats.initial if n in self.columns else 0 for n in columns), UNSEEN_TRACES]

    def narrow(
        self, parser: CsvParser | None, block: CsvBlock, candidates: list[CandidateBits]
    ) -> list[CandidateBits]:
        """Return each column's candidates that fit a block's texts; last, the traces not found."""
        *candidates, unseen = candidates
        block, traces = remove_join_traces(block, self.layout)
        narrowed = self._narrow_columns(parser, block, candidates) if self.columns else candidates
        return [*narrowed, unseen & ~traces.value]

    def _narrow_columns(
        self, parser: CsvParser | None, block: CsvBlock, candidates: list[CandidateBits]
    ) -> list[CandidateBits]:
        """Return each column's candidates that a block's texts fit, by native kernel or pyarrow."""
        plain = [some & ANY_KIND for some in candidates]
        kinds = None if self.is_thorough else match_kinds_natively(parser, block, plain)
        if kinds is None:
            columns = self._parse_columns(block)
            pairs = zip(columns, candidates, strict=True)
            return [self.formats.narrow(texts, some) if some else 0 for texts, some in pairs]
        if self._needs_texts(kinds, candidates):
            candidates = self._narrow_by_sample(block, kinds, candidates)
        columns = [None] * len(candidates)
        if self._needs_texts(kinds, candidates):
            columns = self._parse_columns(block)
        return [
            fit | self.formats.narrow_by_kinds(fit, some)
            if fit or not some & self.formats.format_bits
            else self.formats.narrow_formats(texts, some)
            for texts, fit, some in zip(columns, kinds, candidates, strict=True)
        ]

    def _needs_texts(self, kinds: list[KindBits], candidates: list[CandidateBits]) -> bool:
        """Whether any column has no plain kind but may have a format, so texts must be parsed."""
        pairs = zip(kinds, candidates, strict=True)
        return any(some & self.formats.format_bits and not fit for fit, some in pairs)

    def _parse_columns(self, block: CsvBlock) -> list[pa.StringArray]:
        """Return a block's columns of texts, amounts as numbers with a sign in front."""
        columns = parse_block(block, len(self.layout.columns), self.layout.dialect).columns
        amounts = map(self.formats.amounts.get, self.layout.columns)
        pairs = zip(amounts, columns, strict=True)
        return [amount.strip(texts) if amount else texts for amount, texts in pairs]

    def _narrow_by_sample(
        self, block: CsvBlock, kinds: list[KindBits], candidates: list[CandidateBits]
    ) -> list[CandidateBits]:
        """Drop formats that a block's first 16 KiB rule out: parsing all of it is slow."""
        width, data = len(candidates), block.data[:_SAMPLE_BYTES]
        numbered = read_numbered_rows(data.decode("utf-8", "replace"), self.layout.dialect)
        rows = [row for _, row in numbered]
        if len(data) < len(block.data):
            del rows[-1]
        rows = [row for row in rows if len(row) == width]
        return [
            some
            if fit or name in self.formats.amounts
            else self.formats.narrow_by_sample((row[n] for row in rows), some)
            for n, (name, fit, some) in enumerate(
                zip(self.layout.columns, kinds, candidates, strict=True)
            )
        ]

    def name_candidates(self, candidates: list[CandidateBits]) -> dict[str, CandidateBits]:
        """Return a dict of the inferred columns' candidates; key `TRACES`: traces not found."""
        *candidates, unseen = candidates
        pairs = zip(self.layout.columns, candidates, strict=True)
        return {name: some for name, some in pairs if name in self.columns} | {TRACES: unseen}


def merge_candidates(parts: Iterable[Mapping[str, CandidateBits]]) -> dict[str, CandidateBits]:
    """Intersect each column's candidates over all parts; a column may be absent from a part.

    >>> merge_candidates([{"a": 6}, {"a": 4, "b": 1}])
    {'a': 4, 'b': 1}
    """
    result: dict[str, int] = {}
    for part in parts:
        for name, candidates in part.items():
            result[name] = result.get(name, candidates) & candidates
    return result


def split_and_infer(
    file: SourceFile, header: CsvHeader, inference: ColumnInference, split_bytes: int
) -> tuple[list[Split], dict[str, CandidateBits]]:
    """Split a file and infer its columns in the same read; return splits and candidates."""
    dialect = inference.layout.dialect
    if file.bytes - header.start <= split_bytes:
        splits = split_file(file, header, dialect, split_bytes)
        return splits, inference(splits[0])[0]
    candidates = inference.initial_candidates()
    threads = min(_THREADS, available_cores())
    parser = inference.create_parser()
    pending: deque[Future[list[int]]] = deque()

    def collect(most_pending: int) -> None:
        while len(pending) > most_pending:
            candidates[:] = map(and_, candidates, pending.popleft().result())

    def submit(block: CsvBlock) -> None:
        collect(_BLOCKS_AHEAD * threads)
        pending.append(executor.submit(inference.narrow, parser, block, [*candidates]))

    with ThreadPoolExecutor(threads, "lakeport-infer") as executor:
        splits = split_file(file, header, dialect, split_bytes, submit, read_bytes=_BLOCK_BYTES)
        collect(0)
    return splits, inference.name_candidates(candidates)
