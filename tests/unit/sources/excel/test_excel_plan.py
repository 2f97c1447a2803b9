from __future__ import annotations

import datetime as dt
import gzip
import io
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pytest
import xlsxwriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpyxl.chart import BarChart
from openpyxl.utils.datetime import CALENDAR_MAC_1904

import lakeport
from lakeport.errors import BadRecords, ConfigError, MissingDependency, SchemaConflict, SourceError
from lakeport.sources.csv.dialect import CsvOptions
from lakeport.sources.input import decompression
from tests.unit.sources.file_batch import file_batch, read_table
from tests.unit.sources.landed import landed

UTC = dt.UTC
Rows = Sequence[Sequence[Any]]


def book(*rows: Sequence[Any], **sheets: Rows) -> bytes:
    """A workbook of a first sheet with these rows, and of others."""
    workbook = openpyxl.Workbook()
    first = workbook.active
    first.title = "First"
    for row in rows:
        first.append(row)
    for name, others in sheets.items():
        sheet = workbook.create_sheet(name)
        for row in others:
            sheet.append(row)
    return saved(workbook)


def saved(workbook: openpyxl.Workbook) -> bytes:
    target = io.BytesIO()
    workbook.save(target)
    return target.getvalue()


def edited(content: bytes, old: bytes, new: bytes, part: str = "xl/worksheets/sheet1.xml") -> bytes:
    """A workbook with a part of its XML changed."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(target, "w") as copy:
        for name in source.namelist():
            data = source.read(name)
            assert name != part or old in data
            copy.writestr(name, data.replace(old, new) if name == part else data)
    return target.getvalue()


def other_book() -> bytes:
    """A workbook as another library writes it, which shares texts as Excel does."""
    target = io.BytesIO()
    with xlsxwriter.Workbook(target, {"in_memory": True}) as workbook:
        sheet = workbook.add_worksheet("Data")
        bold, day = (
            workbook.add_format({"bold": True}),
            workbook.add_format({"num_format": "d.m.yy"}),
        )
        for n, name in enumerate(["name", "n", "day", "rich", "sum", "error"]):
            sheet.write(0, n, name, bold)
        sheet.write_string(1, 0, "x")
        sheet.write_string(2, 0, "x")
        sheet.write_number(1, 1, 1)
        sheet.write_number(2, 1, 0.1)
        sheet.write_datetime(1, 2, dt.datetime(2024, 3, 1), day)
        sheet.write_rich_string(1, 3, "a", bold, "b", "c")
        sheet.write_formula(1, 4, "=B2+1", None, 2)
        sheet.write_formula(1, 5, "=NA()", None, "#N/A")
    return target.getvalue()


def test_a_workbook_of_another_library(tmp_path: Path) -> None:
    assert table_of(tmp_path, other_book()).to_pydict() == {
        "name": ["x", "x"],
        "n": [1.0, 0.1],
        "day": [dt.date(2024, 3, 1), None],
        "rich": ["abc", None],
        "sum": [2, None],
    }  # the column of errors has no value, and so is in no file


def table_of(tmp_path: Path, content: bytes, **keys: Any) -> pa.Table:
    (tmp_path / "t.xlsx").write_bytes(content)
    return landed(tmp_path / "t.xlsx", tmp_path / "lake", **keys)


@pytest.mark.parametrize("file_type", ["parquet", "delta"])
def test_types_are_those_of_all_cells(tmp_path: Path, file_type: str) -> None:
    content = book(
        ["id", "price", "whole", "when", "day", "ok", "text", "time", "hours"],
        [1, 10.25, 3.0, dt.datetime(2024, 1, 2, 3, 4, 5, 678000), dt.date(2024, 2, 29), True,
         "007", dt.time(10, 30), dt.timedelta(hours=26, minutes=5)],
        [2, 10, 4, dt.datetime(2024, 1, 3), dt.date(1900, 1, 1), False, ' "a", b\nc ', None, None],
        [None] * 9,
        [-3, 1e300, 2**53, None, None, None, "1", dt.time(0, 0, 1, 500000), None],
    )  # fmt: skip
    table = table_of(tmp_path, content, file_type=file_type)
    assert [str(field.type) for field in table.schema] == [
        "int64", "double", "int64", "timestamp[us, tz=UTC]", "date32[day]", "bool",
        "string", "string", "string",
    ]  # fmt: skip
    assert table.to_pydict() == {
        "id": [1, 2, -3],
        "price": [10.25, 10.0, 1e300],
        "whole": [3, 4, 2**53],
        "when": [
            dt.datetime(2024, 1, 2, 3, 4, 5, 678000, UTC),
            dt.datetime(2024, 1, 3, tzinfo=UTC),
            None,
        ],
        "day": [dt.date(2024, 2, 29), dt.date(1900, 1, 1), None],
        "ok": [True, False, None],
        "text": ["007", ' "a", b\nc ', "1"],
        "time": ["10:30:00", None, "00:00:01.500000"],
        "hours": ["26:05:00", None, None],
    }


def test_what_is_mixed_is_text_as_it_shows(tmp_path: Path) -> None:
    cells = [1, 2.5, "x", True, dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, 4), None, 1e21]
    table = table_of(tmp_path, book(["a", "b"], *([cell, 0] for cell in cells)))
    shown = ["1", "2.5", "x", "TRUE", "2024-01-02", "2024-01-02 03:04:00", None, "1e+21"]
    assert table["a"].to_pylist() == shown


def test_integers_that_a_double_does_not_hold_are_never_rounded(tmp_path: Path) -> None:
    content = book(["a", "b", "c"], [1, 1, 1], [2, 2.5, 3])
    for old, new in (
        (b"<v>2</v>", b"<v>9007199254740993</v>"),
        (b"<v>3</v>", b"<v>1" + b"0" * 20 + b"</v>"),
    ):
        content = edited(content, old, new)
    content = edited(content, b"<v>2.5</v>", b"<v>9007199254740993</v>")
    content = edited(content, b'<c r="B2" t="n"><v>1</v>', b'<c r="B2" t="n"><v>0.5</v>')
    table = table_of(tmp_path, content)
    assert table["a"].to_pylist() == [1, 9007199254740993]
    assert table["b"].to_pylist() == ["0.5", "9007199254740993"]
    assert table["c"].to_pylist() == ["1", "1" + "0" * 20]


def test_dates_count_from_1904_where_the_workbook_says_so(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    workbook.epoch = CALENDAR_MAC_1904
    workbook.active.append(["day"])
    workbook.active.append([dt.date(2024, 1, 2)])
    assert table_of(tmp_path, saved(workbook))["day"].to_pylist() == [dt.date(2024, 1, 2)]


def test_a_day_that_excel_alone_has_is_refused(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    for row in (["at"], [59], [61], [60]):
        sheet.append(row)
    for cell in sheet["A"][1:]:
        cell.number_format = "yyyy-mm-dd"
    content = saved(workbook)
    with pytest.raises(SourceError, match=r"cell A4 of sheet 'Sheet' .* holds 1900-02-29"):
        table_of(tmp_path, content)
    workbook.epoch = CALENDAR_MAC_1904
    days = table_of(tmp_path, saved(workbook))["at"].to_pylist()
    assert days == [dt.date(1904, 2, 29), dt.date(1904, 3, 2), dt.date(1904, 3, 1)]


def test_errors_are_null_and_told(tmp_path: Path) -> None:
    batch = file_batch(tmp_path, book(["n", "m"], [1, "#N/A"], ["#DIV/0!", 2]), name="t.xlsx")
    assert batch.reader is not None and str(batch.reader.schema.field("n").type) == "int64"
    assert batch.warnings == (
        "column 'n' of file '0t.xlsx': 1 cell holds an error such as #N/A; they are null.",
        "column 'm' of file '0t.xlsx': 1 cell holds an error such as #N/A; they are null.",
    )
    assert read_table(batch).to_pylist() == [{"n": 1, "m": None}, {"n": None, "m": 2}]


def test_rows_and_columns_without_a_cell_are_left_out(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    for place, value in {
        "B3": "id",
        "D3": " net\n sales ",
        "B4": 1,
        "D4": 2,
        "E4": 3,
        "B6": 4,
    }.items():
        sheet[place] = value
    sheet["H20"].number_format = "0.00"
    sheet["Z1"].font = openpyxl.styles.Font(bold=True)
    (tmp_path / "t.xlsx").write_bytes(saved(workbook))
    table = landed(tmp_path / "t.xlsx", tmp_path / "lake")
    assert table.to_pylist() == [
        {"id": 1, "net sales": 2, "column_5": 3},
        {"id": 4, "net sales": None, "column_5": None},
    ]


def test_titles_above_the_header_are_left_out_and_told(tmp_path: Path) -> None:
    rows = (["Sales 2024"], [], ["made on Monday"], [None, "id", "v"], [None, 1, 2.5], [None, 2, 3])
    (tmp_path / "t.xlsx").write_bytes(book(*rows))
    report = lakeport.land(tmp_path / "t.xlsx", tmp_path / "delta", internal_columns=False)
    assert report.streams[0].notes == ("t.xlsx: 2 rows above the header left out",)
    found = lakeport.Table(tmp_path / "delta" / "t").preview(5)
    assert found.to_pylist() == [{"id": 1, "v": 2.5}, {"id": 2, "v": 3.0}]
    for skipped, name in ((0, "Sales 2024"), (3, "id")):
        folder = tmp_path / f"{skipped}"
        folder.mkdir()
        given = table_of(folder, book(*rows), csv=lakeport.CsvOptions(skip_rows=skipped))
        assert given.column_names[0] == name


@pytest.mark.parametrize(
    "rows",
    [
        (["name"], ["Ada"], ["Bob", "remark"], ["Cy"]),  # one column, and a remark
        (["name"], ["Ada", "remark"]),
        (["n"], [1, 2], [3, 4]),
        (["n"], ["x", "x"], ["y", "z"]),
        (["n"],) + (["v"],) * 30 + (["a", "b"], ["c", "d"]),
    ],
)
def test_what_may_be_no_title_is_none(tmp_path: Path, rows: Rows) -> None:
    found = table_of(tmp_path, book(*rows))
    assert found.column_names[0] == rows[0][0] and found.num_rows == len(rows) - 1


def test_a_stray_cell_costs_no_more_than_its_column(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    for n in range(100):
        workbook.active.append(["a"] if n == 0 else [n])
    workbook.active["XFD1048576"] = "far"
    batch = file_batch(tmp_path, saved(workbook), name="t.xlsx")
    assert batch.reader is not None and batch.reader.schema.names == ["a", "column_16384"]
    assert batch.bytes < 2_000_000


def test_a_merged_cell_is_its_first_one(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    for row in (["region", "n"], ["north", 1], [None, 2]):
        workbook.active.append(row)
    workbook.active.merge_cells("A2:A3")
    assert table_of(tmp_path, saved(workbook))["region"].to_pylist() == ["north", None]


def test_formulas_are_their_results(tmp_path: Path) -> None:
    content = book(["a", "b"], ["=1+1", "=x"], [1, "y"])
    content = edited(content, b"<f>1+1</f><v />", b"<f>1+1</f><v>2</v>")
    content = edited(content, b'r="B2"', b'r="B2" t="str"')
    assert table_of(tmp_path, content).to_pydict() == {"a": [2, 1], "b": [None, "y"]}
    with pytest.raises(SourceError, match=r"cell A2 of sheet 'First' .* without its result"):
        table_of(tmp_path, book(["a"], ["=1+1"]))


def test_characters_that_xml_can_not_have(tmp_path: Path) -> None:
    content = book(["a"], ["x_x000D_y"], ["_x0041_"], ["_xZZ_"])
    assert table_of(tmp_path, content)["a"].to_pylist() == ["x\ry", "A", "_xZZ_"]


def test_sheets(tmp_path: Path) -> None:
    workbook = openpyxl.load_workbook(io.BytesIO(book(["a"], [1], Second=[["b"], [2]], Third=[])))
    workbook["First"].sheet_state = "hidden"
    content = saved(workbook)
    assert table_of(tmp_path, content).to_pydict() == {"b": [2]}
    lake = tmp_path / "lake"
    hidden = landed(tmp_path / "t.xlsx", lake / "1", sheet="First")
    assert hidden.to_pydict() == {"a": [1]}
    with pytest.raises(SourceError, match=r"'t\.xlsx' has no sheet 'Nope'") as caught:
        lakeport.land(tmp_path / "t.xlsx", lake, sheet="Nope")
    assert caught.value.hint == "it has 'First' (hidden), 'Second', 'Third'."
    with pytest.raises(SourceError, match=r"no cell of 't\.xlsx' has a value"):
        lakeport.land(tmp_path / "t.xlsx", lake, sheet="Third")


def years() -> bytes:
    """A workbook with two sheets of sales, one of remarks, and others that nobody sees."""
    workbook = openpyxl.load_workbook(
        io.BytesIO(
            book(
                ["id", "v"],
                [1, 2],
                **{"2024 ü😀": [["id", "v"], [2, "x"]], "Notes": [["remark"], ["r"]]},
                **{"Empty": [], "Secret": [["a"], [1]]},
            )
        )
    )
    workbook["Secret"].sheet_state = "veryHidden"
    workbook.create_chartsheet("Chart").add_chart(BarChart())
    return saved(workbook)


def test_sheets_that_are_not_landed_are_told(tmp_path: Path) -> None:
    file = tmp_path / "t.xlsx"
    file.write_bytes(years())
    told = (
        "t.xlsx: sheet 'First' is landed, and not '2024 ü😀', 'Notes', 'Secret' (hidden); "
        "`--sheet` (`sheet`) names another, and '*' lands each in a table of its own"
    )
    assert told in lakeport.plan(file, tmp_path / "lake").streams[0].notes
    assert told in lakeport.land(file, tmp_path / "lake").streams[0].notes
    chosen = lakeport.land(file, tmp_path / "lake", sheet="Notes", table="n").streams[0]
    alone = tmp_path / "alone.xlsx"
    alone.write_bytes(book(["a"], [1], Sheet2=[], Sheet3=[]))
    only = lakeport.land(alone, tmp_path / "lake").streams[0]
    assert not [note for note in (*chosen.notes, *only.notes) if "sheet" in note]


@pytest.mark.parametrize(
    ("table", "tables"),
    [
        (None, ["in_2024 ü😀", "in_First", "in_Notes"]),
        ("raw_{stream}", ["raw_2024 ü😀", "raw_First", "raw_Notes"]),
    ],
)
def test_each_sheet_in_a_table_of_its_own(
    table: str | None, tables: list[str], tmp_path: Path
) -> None:
    folder, lake = tmp_path / "in", tmp_path / "lake"
    folder.mkdir()
    (folder / "a.xlsx").write_bytes(years())
    (folder / "b.xlsx").write_bytes(book(["id", "v"], [3, 4]))
    keys: dict[str, Any] = {"sheet": "*", "internal_columns": False, "table": table}
    plan = lakeport.plan(folder, lake, **keys)
    report = lakeport.land(folder, lake, **keys)
    assert sorted(path.name for path in lake.iterdir() if path.name[0] != "_") == tables
    assert len(plan.streams) == 3
    assert sorted(note for stream in report.streams for note in stream.notes) == [
        "a.xlsx: not landed are 'Secret' (hidden); `--sheet` (`sheet`) names a sheet",
        "sheets without a cell: 'Empty' of a.xlsx",
    ]
    first = lakeport.Table(lake / tables[1]).preview(9)
    assert sorted(first.to_pydict()["id"]) == [1, 3]
    assert lakeport.Table(lake / tables[0]).preview(9).to_pydict() == {"id": [2], "v": ["x"]}


def test_all_sheets_in_one_table_with_a_column_for_their_names(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(years())
    options: dict[str, Any] = {"sheet": "*", "sheet_column": "sheet"}
    found = landed(tmp_path / "t.xlsx", tmp_path / "lake", **options)
    assert sorted(found.to_pylist(), key=str) == [
        {"id": 1, "v": "2", "sheet": "First", "remark": None},
        {"id": 2, "v": "x", "sheet": "2024 ü😀", "remark": None},
        {"id": None, "v": None, "sheet": "Notes", "remark": "r"},
    ]
    with pytest.raises(BadRecords, match=r"t\.xlsx, sheet '2024 ü😀'"):
        lakeport.land(tmp_path / "t.xlsx", tmp_path / "n", columns={"v": "integer"}, **options)
    with pytest.raises(SourceError, match=r"sheet 'First' of file 't\.xlsx' has a column 'ID'"):
        lakeport.land(tmp_path / "t.xlsx", tmp_path / "n", sheet_column="ID")
    with pytest.raises(ConfigError, match="'First' and '2024 ü😀' would both land in table 't'"):
        lakeport.land(tmp_path / "t.xlsx", tmp_path / "n", sheet="*", table="t")


def test_a_header_without_rows_keeps_its_columns(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(book(["id", "name"]))
    report = lakeport.land(tmp_path / "t.xlsx", tmp_path / "lake", table="t")
    assert report.rows == 0
    columns = lakeport.Table(tmp_path / "lake/t").preview(1).column_names
    assert columns[:2] == ["id", "name"]


def test_options_of_csv_that_fit(tmp_path: Path) -> None:
    content = book(["a report"], [], ["id", "n"], [1, "-"], [2, 7])
    table = table_of(tmp_path, content, csv=CsvOptions(skip_rows=1, null_values=("", "-")))
    assert table.to_pydict() == {"id": [1, 2], "n": [None, 7]}
    (tmp_path / "v.xlsx").write_bytes(book(["x", 1], ["NA", 2]))
    table = landed(tmp_path / "v.xlsx", tmp_path / "v", csv=CsvOptions(header=False))
    assert table.to_pydict() == {"column_1": ["x", "NA"], "column_2": [1, 2]}
    texts = CsvOptions(infer_types=False)
    (tmp_path / "u.xlsx").write_bytes(book(["n"], [1.0], [True]))
    assert landed(tmp_path / "u.xlsx", tmp_path / "u", csv=texts)["n"].to_pylist() == ["1", "TRUE"]


def test_declared_columns(tmp_path: Path) -> None:
    content = book(["price", "n"], [0.1, "5"], [12.35, "6"])
    table = table_of(tmp_path, content, schema={"price": "decimal(10,2)", "n": "integer"})
    assert [str(v) for v in table["price"].to_pylist()] == ["0.10", "12.35"]
    assert table["n"].to_pylist() == [5, 6]
    (tmp_path / "t.xlsx").write_bytes(book([], [], ["n"], [1], [], ["x"]))
    with pytest.raises(BadRecords) as caught:
        lakeport.land(tmp_path / "t.xlsx", tmp_path / "bad", schema={"n": "integer"})
    assert caught.value.records[0].line == 6


def test_several_workbooks_are_put_together(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for name, rows in {
        "year=2023/a.xlsx": [["id", "n"], [1, 1]],
        "year=2024/b.xlsx": [["n", "x"], [2.5, "y"]],
        "year=2024/empty.xlsx": [],
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(book(*rows))
    assert sorted(landed(folder, tmp_path / "lake").to_pylist(), key=lambda row: row["n"]) == [
        {"id": 1, "n": 1.0, "x": None, "year": 2023},
        {"id": None, "n": 2.5, "x": "y", "year": 2024},
    ]


def test_the_next_workbook_has_to_fit_the_table(tmp_path: Path) -> None:
    for name, value in (("a", 1), ("b", "x")):
        (tmp_path / f"{name}.xlsx").write_bytes(book(["n"], [value]))
    lakeport.land(tmp_path / "a.xlsx", tmp_path / "lake", table="t")
    with pytest.raises(SchemaConflict):
        lakeport.land(tmp_path / "b.xlsx", tmp_path / "lake", table="t")


@pytest.mark.parametrize("name", ["t.xlsx.gz", "t.zip", "t.xlsx.zip", "t.XLSM"])
def test_compressed_workbooks(tmp_path: Path, name: str) -> None:
    content = book(["n"], [1])
    packed = content if name.endswith("M") else gzip.compress(content)
    if name.endswith("zip"):
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr("in/t.xlsx", content)
        packed = target.getvalue()
    (tmp_path / name).write_bytes(packed)
    assert landed(tmp_path / name, tmp_path / "lake").to_pydict() == {"n": [1]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"id\n1\n", "is no Excel workbook"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "with a password, or one of Excel 97"),
        (book(["a"], [1])[:-100], "is damaged or cut off"),
        (edited(book(["a"], [1]), b"</row>", b"</rowe>"), "can't be read as an Excel workbook"),
        (edited(other_book(), b"<v>1</v>", b"<v>99</v>"), "can't be read as an Excel"),
        (edited(book(["a"], [1]), b'r="2"', b'r="2000000"'), "row 2000000 stands behind"),
        (book(["a", "a"], [1, 2]), "t.xlsx"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t.xlsx").write_bytes(content)
    with pytest.raises(SourceError, match=message):
        lakeport.land(tmp_path / "t.xlsx", tmp_path / "lake")


def test_an_archive_that_is_no_workbook(tmp_path: Path) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("a.csv", "id\n1\n")
    (tmp_path / "t.xlsx").write_bytes(target.getvalue())
    with pytest.raises(SourceError, match=r"'t\.xlsx' can't be read as an Excel workbook"):
        lakeport.land(tmp_path / "t.xlsx", tmp_path / "lake")


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "_FLOOR", 1 << 16)
    target = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(book(["a"], [1]))) as source,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as copy,
    ):
        for name in source.namelist():
            copy.writestr(name, source.read(name) + b" " * (40 << 20) * name.endswith("styles.xml"))
    with pytest.raises(SourceError, match=r"t\.xlsx unpacks to more than 500 times its size"):
        file_batch(tmp_path, target.getvalue(), name="t.xlsx")


def test_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lakeport.sources.excel.sheet", raising=False)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingDependency) as caught:
        file_batch(tmp_path, book(["a"], [1]), name="t.xlsx")
    assert caught.value.hint == "pip install 'lakeport[excel]'"


XML = st.characters(
    codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff"
)
CELLS = {
    "integer": st.integers(-(2**53), 2**53),
    # 16 digits are what the libraries that write the files write.
    "double": st.floats(-1e300, 1e300, allow_nan=False).map(lambda f: float(f"{f:.16g}")),
    "text": st.text(XML, max_size=8).filter(lambda s: s and s[0] not in "=#" and "_x" not in s),
    "boolean": st.booleans(),
    "date": st.dates(dt.date(1900, 3, 1), dt.date(9999, 12, 31)),
}


def test_an_integer_that_a_double_is_may_stand_among_decimals(tmp_path: Path) -> None:
    batch = file_batch(tmp_path, book(["a"], [2**53 + 2], [1.5]), name="t.xlsx")
    assert read_table(batch).to_pylist() == [{"a": 9007199254740994.0}, {"a": 1.5}]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_cells_are_those_that_were_written(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=4))
    row = st.tuples(*(CELLS[kind] for kind in kinds))
    rows = data.draw(st.lists(row, min_size=1, max_size=6))
    with tempfile.TemporaryDirectory() as folder:
        content = book([f"c{n}" for n in range(len(kinds))], *rows)
        batch = file_batch(Path(folder), content, name="t.xlsx")
        found = [tuple(row.values()) for row in read_table(batch).to_pylist()]
    assert found == rows
