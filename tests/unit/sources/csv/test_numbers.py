"""Texts that look like numbers: what lands; and where other readers differ, on purpose."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.sources.csv.conversion import convert_texts
from tests.unit.sources.csv.numbers import (
    CODES,
    GROUPED,
    NOT_FINITE,
    PADDED,
    SIGNED,
    TEXTS,
    TOO_LONG,
    differing,
    one_row,
)
from tests.unit.sources.landed import landed as landed_table

DATES = {"2024-01-02"}


def landed(source: Path, **options: Any) -> list[dict[str, Any]]:
    """The rows that a load of a file into a new lake leaves."""
    lake = source.parent / f"lake-{len(list(source.parent.iterdir()))}"
    return landed_table(str(source), lake, **options).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.usefixtures("fast_path")
def test_what_lands_of_each_text(tmp_path: Path) -> None:
    texts = one_row(tmp_path / "t.csv")
    [row] = landed(tmp_path / "t.csv")
    assert differing(texts, row.values()) == set()
    assert repr(row[f"c{texts.index('-0')}"]) == "-0.0"


def test_where_pandas_differs(tmp_path: Path) -> None:
    texts = one_row(tmp_path / "t.csv")
    frame = pd.read_csv(tmp_path / "t.csv", keep_default_na=False)
    values = [frame[name].tolist()[0] for name in frame]
    wanted = CODES | PADDED | SIGNED | GROUPED | TOO_LONG | NOT_FINITE | DATES
    wanted |= {"0.12345678901234567"}  # the double beside it
    assert differing(texts, values) == wanted - {"nan", "NaN", "-nan", "1e400", "123e4567"} - {
        "9" * 30
    }


def test_where_duckdb_differs(tmp_path: Path) -> None:
    found = []
    with duckdb.connect() as connection:
        for text in TEXTS:
            (tmp_path / "t.csv").write_text(f'a,b\n"{text}",x\n')
            query = "SELECT a FROM read_csv(?, header = true, delim = ',', quote = '\"')"
            try:
                row = connection.execute(query, [str(tmp_path / "t.csv")]).fetchone()
            except duckdb.Error:  # of a type that it took a text for, and that the text is not of
                row = (b"",)
            assert row is not None
            found.append(row[0])
    hexadecimal = {"0x10", "0X1F", "0b1"}
    booleans = {"yes", "no", "T", "F", "t"}
    times = {"24:00", "23:59", "10:30", "2024-1-2", "0000-01-01"}
    wanted = CODES | GROUPED | TOO_LONG | NOT_FINITE | {"-007"} | hexadecimal | booleans | times
    assert differing(TEXTS, found) == wanted - {"+7E3", "007E3"}


def _float(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@pytest.mark.parametrize(
    ("read", "more", "less"),
    [
        (  # as `csv.QUOTE_NONNUMERIC` reads fields
            _float,
            PADDED
            | SIGNED
            | {"1_000", "１２", "٣", "١٢", "TRUE", "false"}
            | {"9007199254740993", "9223372036854775807"},
            set(),
        ),
        (_json, {"TRUE", ".5", "-.5", "5.", "1.e5", ".5E3", "5.E-3"}, {"+7E3", "007E3"}),
    ],
    ids=["float", "json"],
)
def test_where_python_differs(read: Callable[[str], Any], more: set[str], less: set[str]) -> None:
    wanted = CODES | GROUPED | TOO_LONG | NOT_FINITE | DATES | more
    if read is _json:
        wanted -= NOT_FINITE - {"NaN", "Infinity", "-Infinity"}
    assert differing(TEXTS, map(read, TEXTS)) == wanted - less


@pytest.mark.parametrize("text", sorted(CODES))
def test_a_code_is_a_number_where_it_is_declared(tmp_path: Path, text: str) -> None:
    values, wrong = convert_texts(pa.array([text]), pa.float64())
    if wrong is None:
        assert values.to_pylist() == [float(text)]
        (tmp_path / "t.csv").write_text(f"a\n{text}\n")
        [row] = landed(tmp_path / "t.csv", columns={"a": "number"})
        assert row == {"a": float(text)}
    else:
        assert text in {"123e4567", "1e400", "1E-400"}


@pytest.mark.parametrize("values", [["7E3"], ["1", "7E3"], ["1.5", "2", "7E3"]])
def test_one_code_makes_a_column_text_wherever_it_stands(tmp_path: Path, values: list[str]) -> None:
    filler = ["1"] * 40_000  # the first values tell no more than numbers
    for texts in (values, filler + values, values + filler):
        (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{text},x\n" for text in texts))
        rows = landed(tmp_path / "t.csv")
        assert [row["a"] for row in rows] == texts
    report = lakeport.land(str(tmp_path / "t.csv"), str(tmp_path / "told"))
    [note] = [note for note in report.streams[0].notes if "stays text" in note]
    assert "has a value like 1E5, which may be codes: `--column a=number`" in note


def test_keys_that_are_codes_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("k,x\n1E5,a\n100000,b\n")
    for _ in range(2):
        lakeport.land(
            str(tmp_path / "t.csv"), str(tmp_path / "lake"), mode="merge", merge_keys=["k"]
        )
    table = DeltaTable(tmp_path / "lake" / "t").to_pyarrow_table(columns=["k", "x"])
    assert sorted(table.to_pylist(), key=str) == [
        {"k": "100000", "x": "b"},
        {"k": "1E5", "x": "a"},
    ]
