"""Texts that look like values: the kernel reads and infers what pyarrow's way does, or gives up."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.native import kernel
from lakeport.sources.csv.conversion import ANY_KIND, convert_texts, match_kinds
from lakeport.sources.csv.dialect import CsvDialect
from lakeport.sources.csv.reader import (
    CsvBlock,
    NativeParser,
    create_kernel_parser,
    match_kinds_natively,
    parse_block,
)

pytestmark = pytest.mark.skipif(kernel() is None, reason="the kernel can't be loaded here")

OPTIONS = CsvDialect()
TYPES = [
    pa.int64(),
    pa.float64(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.decimal128(9, 2),
    pa.decimal128(38, 10),
    pa.string(),
]
NUMBERS = st.from_regex(r"[+-]?[0-9]{0,20}(\.[0-9]{0,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
TIMES = st.from_regex(
    r"(0000|0001|1970|2024|9999)-(0[0-2]|1[23])-(0[01]|2[89]|3[01])"
    r"([Tt ]([01][0-9]|2[34])(:[0-6][0-9](:[0-6][0-9](\.[0-9]{0,8})?)?)?"
    r"([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)?)?",
    fullmatch=True,
)
WORDS = st.sampled_from(
    ["true", "FALSE", "1", "0", "NA", "", "nan", "-inf", "Infinity", "0x1F", "é", "2024-1-1", "1_0"]
)
WITH_BLANKS = st.tuples(st.sampled_from(["", " ", "\t", "\v"]), NUMBERS | WORDS).map("".join)
TEXTS = NUMBERS | TIMES | WORDS | WITH_BLANKS


def block_of(texts: list[str], quoted: bool) -> CsvBlock:
    lines = [f'"{text}"\n' if quoted else f"{text}\n" for text in texts]
    return CsvBlock("".join(lines).encode(), 1, False)


@given(st.lists(TEXTS, min_size=1, max_size=3), st.sampled_from(TYPES), st.booleans())
def test_values(texts: list[str], type_: pa.DataType, quoted: bool) -> None:
    block = block_of(texts, quoted)
    schema = pa.schema([("a", type_)])
    found = NativeParser(["a"], schema, OPTIONS, ()).parse(block)
    if found is not None:
        values, wrong = convert_texts(parse_block(block, 1, OPTIONS).columns[0], type_)
        assert wrong is None
        assert repr(found.column(0).to_pylist()) == repr(values.to_pylist())


@given(st.lists(TEXTS, min_size=1, max_size=3), st.integers(0, ANY_KIND), st.booleans())
def test_kinds(texts: list[str], asked: int, quoted: bool) -> None:
    block = block_of(texts, quoted)
    found = match_kinds_natively(create_kernel_parser(OPTIONS, [None]), block, [asked])
    if found is not None:
        assert found == [match_kinds(parse_block(block, 1, OPTIONS).columns[0], asked)]


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (pa.int64(), "-7"),
        (pa.int64(), " +7.0"),
        (pa.float64(), "12.5e3"),
        (pa.bool_(), "tRue"),
        (pa.date32(), "2024-02-29"),
        (pa.timestamp("us", "UTC"), "2024-02-29 12:30:00.5+01:00"),
        (pa.decimal128(9, 2), "-0012.50"),
        (pa.string(), "a"),
    ],
)
def test_what_is_common_does_not_stop_it(type_: pa.DataType, text: str) -> None:
    schema = pa.schema([("a", type_)])
    found = NativeParser(["a"], schema, OPTIONS, ("a",)).parse(block_of([text], False))
    assert found is not None and found.column(0).null_count == 0
    parser, block = create_kernel_parser(OPTIONS, [None]), block_of([text.strip()], False)
    assert match_kinds_natively(parser, block, [ANY_KIND]) is not None
