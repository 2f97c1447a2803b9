from __future__ import annotations

import csv
import gzip
import io
import pickle
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

import lakeport
from lakeport.errors import BadRecords, ConfigError, SourceError
from lakeport.model import Batch
from lakeport.sources.csv.detection import detect_dialect
from lakeport.sources.csv.dialect import CsvOptions
from lakeport.sources.csv.reader import CsvReader
from lakeport.sources.files.discovery import discover
from lakeport.sources.spool import SpoolLocation
from tests.unit.sources.csv.corpus import CASES, Case
from tests.unit.sources.file_batch import file_batch, flushes_of, read_table

load = partial(file_batch, name="t.csv")


def table(batch: Batch) -> dict[str, list[Any]]:
    return read_table(batch).to_pydict()  # type: ignore[no-any-return]


def notes(batch: Batch) -> list[str]:
    return [note.removeprefix("0t.csv: ") for note in batch.notes]


@pytest.mark.usefixtures("fast_path")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_corpus(tmp_path: Path, case: Case) -> None:
    batch = load(tmp_path, case.content)
    found = table(batch)
    assert found == case.columns
    kinds = {name: [type(value) for value in values] for name, values in found.items()}
    assert kinds == {n: [type(v) for v in values] for n, values in case.columns.items()}
    assert notes(batch) == list(case.notes)
    assert isinstance(batch.reader, CsvReader)
    dialect = batch.reader.layouts[0].dialect
    assert (dialect.delimiter, dialect.quote, dialect.skip_rows, dialect.header) == (
        case.delimiter,
        case.quote,
        case.skip,
        case.header,
    )


def test_the_corpus_is_large() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_where_duckdb_differs_is_known(tmp_path: Path, case: Case) -> None:
    file = tmp_path / "t.csv"
    file.write_text(case.text, "utf-8", newline="")
    with duckdb.connect() as connection:
        query = "SELECT Delimiter, Quote, SkipRows, HasHeader FROM sniff_csv(?)"
        try:
            row = connection.execute(query, [str(file)]).fetchone()
        except duckdb.Error:
            row = None
    same = row is not None and (
        (row[0], row[2], row[3]) == (case.delimiter, case.skip, case.header)
        and (row[1] == case.quote or (row[1] == "(empty)" and case.quote != "'"))
    )
    assert same == (not case.differs), row


PLAIN = CsvOptions(
    header=True,
    delimiter=",",
    quote='"',
    encoding="utf-8",
    skip_rows=0,
    decimal=".",
    thousands="",
    date_format="%Y-%m-%d",
)


@pytest.mark.parametrize("options", [PLAIN, CsvOptions(detect=False)])
def test_what_is_given_is_kept(tmp_path: Path, options: CsvOptions) -> None:
    content = b"1;2\n31.12.2023;1,5\n"
    with pytest.raises(BadRecords, match="expected 1 field, found 2"):
        table(load(tmp_path, content, csv=options))
    batch = load(tmp_path, b'd,n,c\n31/12/2023,"1,234.56",1.234\n', csv=options)
    assert table(batch) == {"d": ["31/12/2023"], "n": ["1,234.56"], "c": [1.234]}
    assert len(batch.notes) == (0 if not options.detect else 2)  # of columns that stay text
    assert list(table(load(tmp_path, b"1\n2\n3\n", csv=options))) == ["1"]


def test_each_part_can_be_given(tmp_path: Path) -> None:
    def read(text: str, **options: Any) -> dict[str, list[Any]]:
        return table(load(tmp_path, text.encode(), csv=CsvOptions(**options)))

    assert read("a;b\n1;2\n", delimiter=",") == {"a;b": ["1;2"]}
    assert read("a~b\n1~2\n", delimiter="~") == {"a": [1], "b": [2]}
    assert read("a,b\n'x',1\n'y',2\n'z',3\n", quote='"')["a"] == ["'x'", "'y'", "'z'"]
    assert read("1,x\n2,y\n", header=True) == {"1": [2], "x": ["y"]}
    assert read("a,b\nx,y\n", header=False)["column_1"] == ["a", "x"]
    assert read("a,b\nx,y\n", columns=("m", "n")) == {"m": ["a", "x"], "n": ["b", "y"]}
    assert read("sep=;\na;b\n1;2\n", skip_rows=1) == {"a": [1], "b": [2]}
    assert read("one\ntwo,three\na,b\n1,2\n", skip_rows=2) == {"a": [1], "b": [2]}
    assert read('a,b\n"1,5",x\n', decimal=",") == {"a": [1.5], "b": ["x"]}
    assert read("a;b\n1.234;x\n", decimal=",") == {"a": [1234], "b": ["x"]}
    assert read("a;b\n1.5;1\n", decimal=",") == {"a": ["1.5"], "b": [1]}
    assert read("a;b\n1.234;x\n", thousands=".") == {"a": [1234], "b": ["x"]}
    assert read("a;b\n1\u2019234;x\n", thousands="\u2019") == {"a": [1234], "b": ["x"]}
    assert read("a\n03/04/2023\n", date_format="%m/%d/%Y") == {"a": [date(2023, 3, 4)]}
    assert read("a\n03.04.69\n04.04.68\n", date_format="%d.%m.%y") == {
        "a": [date(1969, 4, 3), date(2068, 4, 4)]
    }
    stamp = read("a\n3/4/23 05:06:07.25\n", date_format="%d/%m/%y %H:%M:%S.%f")
    assert stamp == {"a": [datetime(2023, 4, 3, 5, 6, 7, 250000, UTC)]}


def test_what_is_given_is_not_said(tmp_path: Path) -> None:
    content = b"a;b;c\n1.234,5;31/12/2023;x\n"
    options = CsvOptions(delimiter=";", decimal=",", date_format="%d/%m/%Y")
    assert notes(load(tmp_path, content, csv=options)) == ["thousands '.'"]


def test_comments_are_left_out_where_they_are_named(tmp_path: Path) -> None:
    content = b'#x "y"\na,b\n1,x\n# z, "\n\n2,"y"\n#,"\n3\n#end'
    batch = load(tmp_path, content, csv=CsvOptions(comment="#"), schema={"a": "integer"})
    assert batch.reader is not None
    (bad,) = [bad for split in batch.splits for bad in batch.reader.scan(split).bad]
    assert (bad.line, bad.raw) == (8, b"3")
    one = load(tmp_path, b"a\n1\n#2\n\n3\n", csv=CsvOptions(comment="#"))
    assert table(one) == {"a": [1, None, 3]}
    many = b"a,b\n" + b'1,"x\ny"\n# it\'s "\n' * 500
    small = load(tmp_path, many, csv=CsvOptions(comment="#"), split_bytes=256)
    assert len(small.splits) > 5
    assert table(small) == {"a": [1] * 500, "b": ["x\ny"] * 500}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decimal": ";"}, "decimal mark"),
        ({"thousands": "x"}, "thousands separator"),
        ({"decimal": ",", "thousands": ","}, "are both ','"),
        ({"date_format": "%d/%m"}, "date format"),
        ({"date_format": "%d/%m/%Y %p"}, "date format"),
        ({"date_format": "%d/%m/%Y %M"}, "date format"),
        ({"columns": ("a", "A")}, "same one twice"),
        ({"columns": ("a",), "header": True}, "`header` is true"),
        ({"comment": "##"}, "not usable"),
        ({"comment": '"'}, "must differ"),
        ({"delimiter": '"'}, "must differ"),
        ({"delimiter": "ab"}, "delimiter 'ab' .* not usable"),
        ({"quote": "é"}, "quote 'é' .* not usable"),
        ({"encoding": "klingon"}, "encoding 'klingon' is unknown"),
        ({"skip_rows": -1}, "skip_rows is -1"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CsvOptions(**options)


def test_a_written_out_tab() -> None:
    assert CsvOptions(delimiter="\\t").delimiter == "\t"


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"a;b\n1;2\n3\n4;5\n", {}, ("expected 2 fields, found 1", "delimiter ';'", "--delimiter")),
        (b"a,b\n1,2\n3,4\nTotal\n", {}, ("line 4", "expected 2", "--skip-rows")),
        (b"a,b\n1,2\n\xff\xfe,2\n", {}, ("not UTF-8", "--encoding")),
        (b"a,b\n1,2\nM\xfcller,2\n", {"encoding": "utf-8"}, ("not UTF-8", "such as cp1252")),
        (b'a,b\n"x"y,2\n"z",3\n', {}, ("closing quote", "--quote", "--escape")),
        (b'a,b\n1,"x\n', {}, ("not closed", "--quote")),
        (b"a;b\n1;2\n", {"delimiter": ","}, ()),
    ],
)
def test_what_goes_wrong_names_the_option(
    tmp_path: Path, content: bytes, options: dict[str, Any], words: tuple[str, ...]
) -> None:
    batch = load(tmp_path, content, csv=CsvOptions(**options))
    if not words:
        assert table(batch) == {"a;b": ["1;2"]}
        return
    with pytest.raises(BadRecords) as caught:
        table(batch)
    for word in words:
        assert word in str(caught.value)


def test_a_value_that_does_not_fit_names_the_option(tmp_path: Path) -> None:
    for type_, text, option in (
        ("number", "1,5", "--decimal"),
        ("date", "3/4/23", "--date-format"),
    ):
        batch = load(tmp_path, f"a;b\n{text};x\n\nz;y\n".encode(), schema={"a": type_})
        with pytest.raises(BadRecords) as caught:
            table(batch)
        assert option in str(caught.value)


def test_a_strange_byte_behind_the_sample_ends_the_load(tmp_path: Path) -> None:
    lines = b"a,b\n" + (b"x" * 117 + b",1\n") * 10_000
    with pytest.raises(BadRecords, match="not UTF-8") as caught:
        table(load(tmp_path, lines + b"M\xfcller,2\n"))
    assert "--encoding" in caught.value.hint and "cp1252" in caught.value.hint
    western = b"a,b\nM\xfcller,1\n" + lines[4:]
    assert table(load(tmp_path, western))["a"][0] == "Müller"
    with pytest.raises(SourceError, match="not cp1252 text") as refused:
        load(tmp_path, western + b"\x81,1\n")
    assert "--encoding" in refused.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "naïve,1\nпривет,2\n".encode("cp1251", "replace"),
        "имя,1\nпривет,2\n".encode("cp1251"),
        "złoty,1\nżółw,2\n".encode("cp1250"),
        "名前,1\n東京,2\n".encode("shift_jis"),
        "é,1\nè,2\n".encode() + b"M\xfcller,3\n",
        b"a\x00\x01,b\xff\n",
    ],
)
def test_what_may_be_another_encoding_is_not_guessed(tmp_path: Path, text: bytes) -> None:
    with pytest.raises((BadRecords, SourceError)) as caught:
        table(load(tmp_path, b"a,b\n" + text))
    assert "--encoding" in str(caught.value)


def test_two_byte_order_marks_are_left_out(tmp_path: Path) -> None:
    batch = load(tmp_path, b"\xef\xbb\xbf\xef\xbb\xbfsep=;\nid;name\n1;Ada\n")
    assert table(batch) == {"id": [1], "name": ["Ada"]}
    plain = load(tmp_path, b"\xef\xbb\xbf\xef\xbb\xbfid,name\n1,Ada\n")
    assert table(plain) == {"id": [1], "name": ["Ada"]}


def test_an_encoding_that_is_given_is_not_said(tmp_path: Path) -> None:
    assert load(tmp_path, b"a,b\n1,2\n", csv=CsvOptions(encoding="UTF_8")).notes == ()


def test_rare_delimiters_are_found_where_all_records_have_as_many(tmp_path: Path) -> None:
    for delimiter in "~^\x01\x1f":
        lines = ("id,v", "1,2.5", "2,3.5")
        batch = load(tmp_path, "\n".join(lines).replace(",", delimiter).encode())
        assert table(batch) == {"id": [1, 2], "v": [2.5, 3.5]}
        assert notes(batch) == [f"delimiter {delimiter!r}"]
    assert table(load(tmp_path, b"note\na~b\nc\n")) == {"note": ["a~b", "c"]}
    assert table(load(tmp_path, b"a~b\n")) == {"a~b": []}


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("a:b:c\n1:2:3\n4:5:6\n", "one column; `--delimiter ':'` makes 3 of it."),
        ("sep=,\na;b\n1;2\n", "one column; `--delimiter ';'` makes 2 of it."),
        ("a b c\n1 2 3\n", "one column; `--delimiter ' '` makes 3 of it."),
        ("full name\nAda Lovelace\n", ""),
        ("note\nx:y\n", ""),
        ("v,w\n1,x\n-,y\n2,z\n", "'-': `--null-value '' --null-value -` makes that null"),
        ("v,w\n1,x\n#N/A,y\n2,z\n", "--null-value '#N/A'"),
        ("d;v\n01.02.23;1\n13.02.23;2\n", "`--date-format %d.%m.%y` reads them"),
        ("d,e\n1/13/23,x\n1/14/23,x\n", "`--date-format %m/%d/%y` reads them"),
        ("d,e\n1/3/23,x\n1/4/23,x\n", "%d/%m/%y` or `--date-format %m/%d/%y` reads them"),
        ("v;w\n1.234,56-;x\n99,00;y\n", "column 'v' has numbers with a minus behind"),
        ('v,w\n"($1,234.56)",x\n$9.00,y\n', "numbers with '$', parentheses"),
        ("v, w\n1, 2.5\n2, 3.5 $\n", "column ' w' has numbers with spaces around them, '$'"),
        ("d,v\n2024-01-01,1\n2024-01-02,2\nSum,3\n", "column 'd' has dates, but for line 4"),
        (
            "v,w\nkg,m\n1,2\n3,4\n",
            "column 'v' has numbers, but for line 2; it stays text, like 'w'",
        ),
        ("zip,tel,iban,v\n01234,+49 1,DE02,1.2.3\n12345,+49 2,DE03,1.2.4\n", ""),
        ("tel,time\n030-1234,10:30\n030-123,11:30\n", ""),
        ("code,id\n612 345 678,12345678901234567890\n612 345 679,1\n", ""),
        ("name,n\n1,x\nAda,y\nBob,z\n2,w\n", ""),
    ],
)
def test_what_may_be_meant_otherwise_is_hinted_at(tmp_path: Path, text: str, note: str) -> None:
    said = [n for n in load(tmp_path, text.encode()).notes if "stays text" in n or "one col" in n]
    assert len(said) == bool(note) and note in "".join(said)


AMOUNTS = {
    "€ 1.234,56|€\u00a07,00|-€ 3,5|5,00- €": ("€", "1234.56 7 -3.5 -5"),
    "1,234.56 USD|7.00USD|(3.50) USD|-5 USD": ("USD", "1234.56 7 -3.5 -5"),
    "$-5|$ (1,000.25)|($3.5)|$7-|\u2212$1": ("$", "-5 -1000.25 -3.5 -7 -1"),
    "CHF 1'234.50|CHF 2|(1) CHF": ("CHF", "1234.5 2 -1"),
    "5 %|-7,5%|8": ("%", "5 -7.5 8"),
    "1.234,56-|(7,00)|9,5": ("", "-1234.56 -7 9.5"),
    "1\u202f234,56 zł|- 7,00 zł": ("zł", "1234.56 -7"),
}


@pytest.mark.parametrize("texts", AMOUNTS)
def test_amounts_are_read_where_the_column_is_declared(tmp_path: Path, texts: str) -> None:
    unit, wanted = AMOUNTS[texts]
    content = "v;w\n" + "".join(f"{text};{n}\n" for n, text in enumerate(texts.split("|")))
    declared = {"properties": {"v": {"type": "number", "multipleOf": 0.01}}}
    batch = load(tmp_path, content.encode(), schema=declared)
    assert [str(value.normalize()) for value in table(batch)["v"]] == [
        str(Decimal(number).normalize()) for number in wanted.split()
    ]
    (told,) = [note for note in batch.notes if "amounts" in note]
    assert f" without {unit!r}" in told if unit else "in '" not in told
    assert ("5 % is 5" in told) == (unit == "%")
    assert table(load(tmp_path, content.encode()))["v"] == texts.split("|")  # undeclared: text


@pytest.mark.parametrize(
    ("texts", "options", "told"),
    [
        (["€1.234", "(€5.678)"], CsvOptions(), True),
        (["€1.234", "€5.67"], CsvOptions(), False),
        (["€1.234", "€5.678"], CsvOptions(decimal="."), False),
        (["€1.234,5", "€5.678"], CsvOptions(), False),
    ],
)
def test_points_of_amounts_that_may_group_digits_are_told(
    tmp_path: Path, texts: list[str], options: CsvOptions, told: bool
) -> None:
    content = "v;w\n" + "".join(f"{text};x\n" for text in texts)
    declared = {"properties": {"v": {"type": "number"}}}
    batch = load(tmp_path, content.encode(), csv=options, schema=declared)
    assert any("if points group its digits, `--thousands .`" in n for n in batch.notes) == told


@pytest.mark.parametrize(
    ("texts", "line"), [(["€ 1.500,00", "$ 7"], 3), (["5 %", "7 €"], 3), (["1 €", "2 kg"], 3)]
)
def test_a_second_currency_is_refused(tmp_path: Path, texts: list[str], line: int) -> None:
    content = "v;w\n" + "".join(f"{text};x\n" for text in texts)
    declared = {"properties": {"v": {"type": "number"}}}
    batch = load(tmp_path, content.encode(), schema=declared)
    with pytest.raises(BadRecords) as caught:
        table(batch)
    (bad,) = caught.value.records
    assert (bad.line, bad.value) == (line, texts[1])
    assert texts[1] not in str(caught.value) and "another currency" in caught.value.hint


def test_a_hint_proposes_no_option_that_was_given(tmp_path: Path) -> None:
    declared = {"properties": {"v": {"type": "number"}}}
    for options, hint in (
        (CsvOptions(), "set `--decimal` and `--thousands`"),
        (CsvOptions(decimal=","), "set `--thousands`"),
        (CsvOptions(decimal=",", thousands="."), "it is no number of those that you asked for"),
    ):
        with pytest.raises(BadRecords) as caught:
            table(load(tmp_path, b"v;w\n1.5.5;x\n", csv=options, schema=declared))
        assert hint in caught.value.hint
    with pytest.raises(ConfigError, match="currency '7' is not usable"):
        CsvOptions(currency="7")


def test_a_hint_says_by_which_option_values_are_not_read(tmp_path: Path) -> None:
    content = b"d;v\n31.12.2023;1.234,5\n01.02.2024;0,5\n"
    options = CsvOptions(date_format="%m/%d/%Y", decimal=".")
    dates, numbers = load(tmp_path, content, csv=options).notes[1:]
    assert "'d' looks like dates" in dates and "by `--date-format`" in dates
    assert "'v' looks like numbers" in numbers and "by `--decimal` and `--thousands`" in numbers


@pytest.mark.parametrize("options", [{"header": False}, {"columns": ("a", "b")}])
def test_a_header_that_is_landed_as_a_row_is_told(tmp_path: Path, options: Any) -> None:
    batch = load(tmp_path, b"\nid,v\n1,2\n3,4\n", csv=CsvOptions(**options))
    assert notes(batch) == [
        "the first record looks like a header, and is landed as a row: `--skip-rows 2` leaves it "
        "out."
    ]
    options |= {"skip_rows": 2}
    left = load(tmp_path, b"\nid,v\n1,2\n3,4\n", csv=CsvOptions(**options))
    assert left.notes == () and list(table(left).values()) == [[1, 3], [2, 4]]


def test_records_may_end_with_a_delimiter_and_the_header_not(tmp_path: Path) -> None:
    batch = load(tmp_path, b"id,v\n1,2.5,\n2,3.5,\n")
    assert table(batch) == {"id": [1, 2], "v": [2.5, 3.5]}
    assert batch.warnings == ("column 3 has no name and no value: it is left out.",)
    for text in (b"id,v\n1,2.5,x\n", b"id,v\n1,2.5,\n2,3.5\n", b"id\n1,\n"):
        with pytest.raises(BadRecords, match="expected"):
            table(load(tmp_path, text))


def test_titles_may_be_filled_up_with_delimiters(tmp_path: Path) -> None:
    content = b"Sales;;;\n;;;\nby Ada;;;\nDay;Text;Sum;Note\n31.1.2024;a;1,5;\n1.2.2024;b;2,5;\n"
    batch = load(tmp_path, content)
    assert table(batch)["Sum"] == [1.5, 2.5] and "3 lines skipped" in batch.notes[0]
    plain = load(tmp_path, b"id,,\nx,1,z\n")
    assert list(table(plain)) == ["id", "column_2", "column_3"]


@pytest.mark.usefixtures("fast_path")
def test_a_column_of_quoted_empty_fields_has_no_value(tmp_path: Path) -> None:
    batch = load(tmp_path, b'id,v,w\n"1","",""\n"2",,"x"\n')
    assert batch.untyped == {"v": pa.null()}
    assert table(batch) == {"id": [1, 2], "v": [None, None], "w": ["", "x"]}
    report = lakeport.land(str(tmp_path / "in" / "0t.csv"), tmp_path / "lake", table="t")
    assert report.rows == 2
    found = DeltaTable(tmp_path / "lake" / "t").to_pyarrow_table()
    assert found["w"].to_pylist() == ["", "x"] and found["v"].null_count == 2


def test_names_that_are_there_twice_below_titles_are_told(tmp_path: Path) -> None:
    content = (
        b"Bank;X\n\nDay;Sum;Unit;Tax;Unit\n1.2.2024;1,5;EUR;0,5;EUR\n2.2.2024;2,5;EUR;1,5;EUR\n"
    )
    with pytest.raises(SourceError, match="two columns of the name 'Unit'") as caught:
        load(tmp_path, content)
    assert "`--skip-rows 3` and give all names with `--columns`" in caught.value.hint
    options = CsvOptions(skip_rows=3, columns=("day", "sum", "unit", "tax", "unit_2"))
    assert table(load(tmp_path, content, csv=options))["tax"] == [0.5, 1.5]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl"])
def test_a_bad_record_of_several_files_is_placed(tmp_path: Path, name: str) -> None:
    good, bad = (
        (b'{"a": 1}\n', b'{"a": 1}\n3\n') if "json" in name else (b"a,b\n1,2\n", b"a,b\n3\n")
    )
    if name.endswith(".gz"):
        good, bad = gzip.compress(good), gzip.compress(bad)
    batch = load(tmp_path, good, bad, name=name)
    assert batch.reader is not None
    (found,) = [bad for split in batch.splits for bad in batch.reader.scan(split).bad]
    assert f"'t', file '1{name}', line 2: " in str(found)


@pytest.mark.usefixtures("fast_path")
def test_spaces_around_numbers_and_dates_are_left_out(tmp_path: Path) -> None:
    first = b"  44; -2.5;1,5 ; 31.12.2023;x ; 1.234,5\n"
    batch = load(tmp_path, b"a; b;c ;d;e;f\n" + first + b"   7;13.0; 2,5;01.02.2024; y;0,5\n")
    assert table(batch) == {
        "a": [44, 7],
        " b": [-2.5, 13.0],
        "c ": [1.5, 2.5],
        "d": [date(2023, 12, 31), date(2024, 2, 1)],
        "e": ["x ", " y"],
        "f": [1234.5, 0.5],
    }
    for text in (b"007, 007\n1,2\n", b" 1,x\n  ,y\n", b"+ 1,x\n 2,y\n", b" ,x\n"):
        read = table(load(tmp_path, b"a,b\n" + text))
        assert all(isinstance(value, str) for value in read["a"])
    doubtful = load(tmp_path, b"a;b\n 1.234;0,5\n 5.678;1,5\n")
    assert table(doubtful)["a"] == [" 1.234", " 5.678"] and "--thousands" in doubtful.notes[-1]
    grouped = load(tmp_path, b"a;b\n 1.234;1.000,5\n 5.678;1,5\n")
    assert table(grouped)["a"] == [1234, 5678]
    plain = CsvOptions(decimal=".", thousands="")
    assert table(load(tmp_path, b"a,b\n 1,x\n", csv=plain))["a"] == [" 1"]


def test_files_of_one_load_have_their_own_dialects(tmp_path: Path) -> None:
    contents = (
        b"id,name\n1,Ada\n",
        "id;name\n2;Zoé\n".encode("cp1252"),
        "name\tid\nGrace\t3\n".encode("utf-16"),
    )
    batch = load(tmp_path, *contents)
    assert table(batch) == {"id": [1, 2, 3], "name": ["Ada", "Zoé", "Grace"]}
    assert notes(batch) == ["1t.csv: delimiter ';', Windows-1252", "2t.csv: delimiter tab, UTF-16"]
    same = load(tmp_path, b"a;b\n1,5;x\n", b"a;b\n2;y\n", b"a;b\n3,25;z\n")
    assert table(same)["a"] == [1.5, 2.0, 3.25]
    assert notes(same) == ["0t.csv and 2 more files: delimiter ';', decimal comma"]


def test_a_header_is_found_out_for_all_files_together(tmp_path: Path) -> None:
    assert table(load(tmp_path, b"1,x\n2,y\n", b"3,z\n4,w\n"))["column_1"] == [1, 2, 3, 4]
    mixed = load(tmp_path, b"id,n\n1,x\n2,y\n", b"3,z\n4,w\n")
    assert list(table(mixed)) == ["id", "n", "3", "z"]


def test_declared_columns_are_read_as_they_are_written(tmp_path: Path) -> None:
    content = b"when;price;n\n31.12.2023;1.234,50;1\n01.01.2024;0,10;2\n"
    batch = load(tmp_path, content, schema={"price": "decimal(10,2)", "when": "date"})
    assert table(batch) == {
        "when": [date(2023, 12, 31), date(2024, 1, 1)],
        "price": [Decimal("1234.50"), Decimal("0.10")],
        "n": [1, 2],
    }
    text = load(tmp_path, content, schema={"price": "number"}, csv=CsvOptions(infer_types=False))
    assert table(text)["price"] == [1234.5, 0.1] and table(text)["n"] == ["1", "2"]
    odd = load(
        tmp_path,
        b"a;b\n1;x\nn/a;y\n1.234,5;z\n",
        schema={"a": "number"},
        csv=CsvOptions(decimal=","),
    )
    assert odd.reader is not None
    (split,) = odd.splits
    assert [bad.line for bad in odd.reader.scan(split).bad] == [3]
    headless = load(tmp_path, b"1,x\n2,y\n", schema={"id": "integer", "name": "string"})
    assert table(headless) == {"id": [1, 2], "name": ["x", "y"]}


@pytest.mark.usefixtures("fast_path")
@pytest.mark.parametrize("split_bytes", [1 << 12, 1 << 14, 1 << 30])
def test_all_values_decide_wherever_files_are_cut(tmp_path: Path, split_bytes: int) -> None:
    def last(early: str, late: str) -> tuple[str, Any]:
        lines = [f"{early};x"] * 6_000 + [f"{late};y"]
        batch = load(tmp_path, "\n".join(["a;b", *lines]).encode(), split_bytes=split_bytes)
        assert batch.reader is not None
        return str(batch.reader.schema.field("a").type), table(batch)["a"][-1]

    assert last("7", "1,5") == ("double", 1.5)
    assert last("1.234", "1.234,5") == ("double", 1234.5)
    assert last("1.5", "1.234,5") == ("string", "1.234,5")
    assert last("", "1.234,5") == ("double", 1234.5)
    assert last("03/04/2023", "31/12/2023") == ("date32[day]", date(2023, 12, 31))
    assert last("31/12/2023", "12/31/2023") == ("string", "12/31/2023")
    assert last("1,5", "x") == ("string", "x")


def test_a_strange_byte_may_be_the_last_one(tmp_path: Path) -> None:
    assert table(load(tmp_path, b"a,b\n1,Caf\xe9")) == {"a": [1], "b": ["Café"]}
    whole = "a,b\n" + "x,1\n" * (1 << 18)
    cut = whole[: (1 << 20) - 1] + "ü\n"  # the sample ends within a character
    (note,) = load(tmp_path, cut.encode()).notes
    assert note.startswith("column 'b' looks like numbers, but not all")


def test_tasks_find_out_the_same(tmp_path: Path) -> None:
    def in_tasks(function: Any, items: Any) -> list[Any]:
        return [
            pickle.loads(pickle.dumps(result))
            for item in items
            for result in pickle.loads(pickle.dumps(function))(item)
        ]

    folder, spool = tmp_path / "in", tmp_path / "spool"
    folder.mkdir()
    spool.mkdir()
    lines = ["preis;tag", *["1.234;31.12.2023"] * 9000, "0,5;01.02.2024"]
    (folder / "a.csv").write_text("\n".join(lines))
    (folder / "b.csv").write_bytes("preis,tag,ort\n1,01.01.2024,K\xf6ln\n".encode("latin-1"))
    location = SpoolLocation(spool, local=False, mount=tmp_path)
    ((batch,),) = (
        flush.batches
        for flush in flushes_of(
            discover([str(folder)]), "t", location, in_tasks, split_bytes=1 << 14
        )
    )
    found = table(batch)
    assert len(batch.splits) > 5 and len(found["preis"]) == 9002
    assert found["ort"][-1] == "Köln" and found["tag"][-1] == date(2024, 1, 1)
    assert set(found["preis"]) == {"1.234", "0,5", "1"}  # one file has commas between fields
    assert batch.notes[:2] == ("a.csv: delimiter ';'", "b.csv: Windows-1252")


def test_compressed_files_are_looked_at_too(tmp_path: Path) -> None:
    packed = gzip.compress("id;name\n1;Zoé\n".encode("cp1252"))
    batch = load(tmp_path, packed, name="t.csv.gz")
    assert table(batch) == {"id": [1], "name": ["Zoé"]}


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"sep=;\n"])
def test_files_without_content(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(SourceError, match="is empty"):
        load(tmp_path, content)


TEXTS = st.text(st.sampled_from(list("abXY ,;|\t\"'\n.#-")), max_size=6).filter(
    lambda text: text.strip() == text
)


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    """Two columns or more, of which the first has words that no delimiter is in."""
    width = draw(st.integers(1, 3))
    words = st.text(st.sampled_from("abcxyz"), min_size=1, max_size=5)
    row = st.tuples(words, *[TEXTS] * width).map(list)
    return draw(st.lists(row, min_size=1, max_size=12))


@given(tables(), st.sampled_from(",;\t|"), st.sampled_from(["\n", "\r\n"]))
def test_what_python_writes_is_read_back_in_any_dialect(
    rows: list[list[str]], delimiter: str, newline: str
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=newline, quoting=csv.QUOTE_ALL)
    header = [f"c{n}" for n in range(len(rows[0]))]
    writer.writerow(header)
    writer.writerows(rows)
    with tempfile.TemporaryDirectory() as folder:
        options = CsvOptions(infer_types=False, null_values=("NA",))
        found = table(load(Path(folder), text.getvalue().encode(), csv=options))
    assert found == dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))


@given(st.binary(max_size=200))
def test_any_bytes_have_a_dialect(data: bytes) -> None:
    assert detect_dialect(data, CsvOptions(), is_whole=True).delimiter
