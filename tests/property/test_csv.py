from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lakeport.model import Split
from lakeport.sources.csv.dialect import CsvDialect, CsvOptions
from lakeport.sources.csv.reader import find_record_end, read_blocks, split_records
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.spool import SpoolLocation
from tests.unit.sources.file_batch import flushes_of

FIELDS = st.text(st.sampled_from(list("ab01\",;\n\r \\'é€")), max_size=8).filter(
    lambda text: text != "" and text != "NA"
)


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    width = draw(st.integers(1, 4))
    return draw(st.lists(st.lists(FIELDS, min_size=width, max_size=width), min_size=1, max_size=30))


@given(
    tables(),
    st.integers(1, 200),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([",", ";", "\t"]),
)
def test_any_csv_at_any_split_size_gives_the_same_rows(
    table: list[list[str]], split_bytes: int, quoting: int, newline: str, delimiter: str
) -> None:
    if newline == "\n" and quoting == csv.QUOTE_MINIMAL:  # Python leaves a lone \r unquoted then
        table = [[field.replace("\r", "r") for field in row] for row in table]
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=quoting, lineterminator=newline, delimiter=delimiter)  # type: ignore[arg-type]
    writer.writerow([f"c{n}" for n in range(len(table[0]))])
    writer.writerows(table)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.csv")
        path.write_bytes(text.getvalue().encode())
        file = SourceFile(str(path), path.name, "csv", path.stat().st_size)
        options = CsvOptions(delimiter=delimiter, infer_types=False)
        source = flushes_of(
            [file],
            "t",
            SpoolLocation(Path(folder)),
            csv=options,
            split_bytes=split_bytes,
        )
        (flush,) = source
        batch = flush.batches[0]
        reader = batch.reader
        assert reader is not None
        found = [
            list(row.values())
            for split in batch.splits
            for read in reader.read(split)
            for row in read.to_pylist()
        ]
        ends = [split.end for split in batch.splits]
        assert [split.start for split in batch.splits[1:]] == ends[:-1]
        data = path.read_bytes()
        assert [s.first_line for s in batch.splits] == [
            1 + data.count(b"\n", 0, s.start) for s in batch.splits
        ]
    assert found == table


@given(
    st.lists(st.sampled_from(['"', ",", "\n", "x", "\\", '""', "y"]), max_size=60),
    st.integers(1, 20),
)
def test_blocks_cut_where_records_end_whatever_the_text(parts: list[str], size: int) -> None:
    data = "".join(parts).encode()
    for options in (CsvDialect(), CsvDialect(escape="\\"), CsvDialect(quote="")):
        whole = [raw for raw, _ in split_records(data, options)]
        cut = list(read_blocks(io.BytesIO(data), Split("t.csv"), options, "t", block_bytes=size))
        assert b"".join(block.data for block in cut) == data
        assert [raw for block in cut for raw, _ in split_records(block.data, options)] == whole


def stray_records(data: bytes) -> list[bool]:
    """Read character by character: for each record, whether text stands behind a closing quote."""
    found: list[bool] = []
    state, stray, content = "start", False, False
    for char in data.decode() + "\n":
        if state == "quoted":
            state = "closing" if char == '"' else state
        elif state == "closing" and char == '"':
            state = "quoted"
        elif char in ",\n":
            if char == "\n" and (content or state != "start"):
                found.append(stray)
                stray = content = False
            content = content or char == ","
            state = "start"
        elif state == "start" and char == '"':
            state = "quoted"
        else:
            stray = stray or state == "closing"
            state = "text" if state != "closing" else "behind"
    return [*found, stray] if state == "quoted" else found


@given(
    st.lists(st.sampled_from(['"', ",", "\n", "x", '""', ' "y"']), max_size=40),
    st.integers(1, 20),
)
def test_text_behind_a_closing_quote_is_seen_whatever_the_text(parts: list[str], size: int) -> None:
    data = "".join(parts).encode()
    expected = stray_records(data)
    options = CsvDialect()
    found = [
        find_record_end(raw, options).has_stray_text
        for block in read_blocks(io.BytesIO(data), Split("t.csv"), options, "t", block_bytes=size)
        for raw, _ in split_records(block.data, options)
    ]
    assert found == expected
    whole = list(read_blocks(io.BytesIO(data), Split("t.csv"), options, "t"))
    assert any(block.has_stray_text for block in whole) == any(expected)
