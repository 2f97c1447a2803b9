"""Files that hold something else than their names say."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from lakeport.errors import SourceError
from lakeport.sources.csv.dialect import CsvOptions
from lakeport.sources.files.discovery import discover
from tests.unit.sources.file_batch import file_batch

TABLE = pa.table({"id": [1]})


def written(write: Any) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def workbook(buffer: io.BytesIO) -> None:
    openpyxl.Workbook().save(buffer)


PARQUET = written(lambda buffer: pq.write_table(TABLE, buffer))


@pytest.mark.parametrize(
    ("name", "content", "holds", "way"),
    [
        ("a.csv", PARQUET, "Parquet", "--source-format parquet"),
        ("a.json", PARQUET, "Parquet", "--source-format parquet"),
        ("a.orc", PARQUET, "Parquet", "--source-format parquet"),
        ("a.parquet", written(lambda b: orc.write_table(TABLE, b)), "ORC", "--source-format orc"),
        ("a.csv", written(lambda b: feather.write_feather(TABLE, b)), "Arrow", "arrow"),
        ("a.tsv", b"Obj\x01...", "Avro", "--source-format avro"),
        ("a.csv", written(workbook), "an Excel workbook", "--source-format xlsx"),
        ("a.csv", b'[{"id": 1}, {"id": 2}]', "JSON", "--source-format json"),
        ("a.csv", b'\xef\xbb\xbf\n{"id": 1}\n{"id": 2}\n', "JSON", "--source-format json"),
        ("a.csv", b'{"type": "STATE", "value": {}}\n', "Singer", "--source-format singer"),
        ("a.csv.gz", gzip.compress(b'[{"id": 1}]'), "JSON", "--source-format json"),
        ("a.csv", b"<!DOCTYPE html>\n<html></html>", "an HTML page", "such as CSV"),
        ("a.json", b"<html><body>Log in</body></html>", "an HTML page", "such as CSV"),
        ("a.csv", b"<?xml version='1.0'?>\n<a/>\n", "XML", "such as CSV"),
        ("a.csv", b"%PDF-1.7\n", "a PDF document", "such as CSV"),
        ("a.csv", b"SQLite format 3\0", "an SQLite database", "such as CSV"),
        ("a.csv", bytes.fromhex("d0cf11e0a1b11ae1"), "Office 97", "--source-format xlsx"),
    ],
)
def test_what_a_file_holds_is_said(
    tmp_path: Path, name: str, content: bytes, holds: str, way: str
) -> None:
    with pytest.raises(SourceError, match=f"holds .*{holds}") as caught:
        file_batch(tmp_path, content, name=name)
    assert way in caught.value.hint


def tar(buffer: io.BytesIO) -> None:
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("a.csv")
        member.size = 5
        archive.addfile(member, io.BytesIO(b"id\n1\n"))


@pytest.mark.parametrize("csv", [CsvOptions(), CsvOptions(detect=False)])
@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.csv", written(tar), "a tar archive"),
        ("a.csv.gz", gzip.compress(written(tar)), "a tar archive"),
        ("a.tsv", b"7z\xbc\xaf\x27\x1c\0\4", "a 7z archive"),
        ("a.csv", b"Rar!\x1a\x07\0", "a RAR archive"),
    ],
)
def test_archives_that_are_not_read_are_never_rows(
    tmp_path: Path, name: str, content: bytes, kind: str, csv: CsvOptions
) -> None:
    with pytest.raises(SourceError, match=f"is {kind}") as caught:
        file_batch(tmp_path, content, name=name, csv=csv)
    assert "unpack it" in caught.value.hint


@pytest.mark.parametrize("name", ["a.tar", "a.tgz", "a.tar.gz", "a.tar.zst", "a.7z"])
def test_archives_that_are_not_read_are_to_be_unpacked(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(written(tar))
    with pytest.raises(SourceError, match="can't be told from its name") as caught:
        discover([str(tmp_path / name)])
    assert caught.value.hint == "unpack it, and give the folder."


@pytest.mark.parametrize(
    "content",
    [b"{a},b\n1,2\n", b'"{""x"": 1}",b\n1,2\n', b"<id>,b\n1,2\n", b"PK,b\n1,2\n", b"[x]\n1\n"],
)
def test_a_csv_file_may_begin_oddly(tmp_path: Path, content: bytes) -> None:
    assert file_batch(tmp_path, content, name="a.csv").splits


def test_nothing_is_found_out_where_that_is_off(tmp_path: Path) -> None:
    batch = file_batch(tmp_path, b"<html>\n1\n", name="a.csv", csv=CsvOptions(detect=False))
    assert batch.reader is not None and batch.reader.schema.names == ["<html>"]


@pytest.mark.parametrize(
    ("content", "message"), [(b"a,b\n1,2\n", "is no Excel workbook"), (b"", "is empty")]
)
def test_a_workbook_that_is_none(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        file_batch(tmp_path, content, name="a.xlsx")
    assert "--source-format" in caught.value.hint
