from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakeport
from lakeport.errors import BadRecords, InputError, SourceError
from lakeport.model import StoredObject
from lakeport.sources.files.discovery import discover, stream_name
from lakeport.sources.files.source_file import digest_files
from lakeport.sources.input import decompression
from lakeport.sources.input.decompression import UnpackLimits
from tests.unit.sources.landed import landed


def zipped(members: Mapping[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target.getvalue()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), target)
    return target.getvalue()


SALES = {
    "sales/2024/a.csv": "id,name\n1,x\n",
    "sales/b.CSV.gz": gzip.compress(b"name,id\ny,2\n"),
    "../../../etc/c.csv": "id,name\n3,z\n",
    "/abs/d.csv": "id\n4\n",
    "sales/readme.txt": "not data",
    "__MACOSX/sales/._a.csv": "\0\0junk",
    "sales/.hidden.csv": "x\n1\n",
    "sales/_tmp/e.csv": "x\n1\n",
    "sales/empty/": "",
}


@pytest.mark.parametrize("file_type", ["parquet", "delta"])
def test_the_files_of_an_archive_are_one_load(tmp_path: Path, file_type: str) -> None:
    (tmp_path / "sales.zip").write_bytes(zipped(SALES))
    table = landed(tmp_path / "sales.zip", tmp_path / "lake", file_type=file_type)
    assert sorted(table.to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "name": "x"},
        {"id": 2, "name": "y"},
        {"id": 3, "name": "z"},
        {"id": 4, "name": None},
    ]
    outside = [p for p in tmp_path.rglob("*.csv") if "lake" not in p.parts]
    assert outside == [] and not Path("/abs").exists()


def test_the_table_is_called_like_the_archive(tmp_path: Path) -> None:
    path = tmp_path / "sales.zip"
    path.write_bytes(zipped(SALES))
    assert stream_name([str(path)], discover([str(path)])) == "sales"
    path = tmp_path / "flights.csv.zip"
    path.write_bytes(zipped({"whatever.csv": "a\n1\n"}))
    assert stream_name([str(path)], discover([str(path)])) == "flights"


def test_folders_in_an_archive_are_columns(tmp_path: Path) -> None:
    content = zipped({"year=2023/a.csv": "id\n1\n", "year=2024/a.csv": "id\n2\n"})
    archive = tmp_path / "year=7.zip"
    archive.write_bytes(content)
    rows = landed(archive, tmp_path / "lake").to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "year": 2023},
        {"id": 2, "year": 2024},
    ]
    off = landed(archive, tmp_path / "off", partition_columns="off")
    assert off.column_names == ["id"]


def test_archives_stand_beside_files(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.zip").write_bytes(zipped({"1.csv": "id\n1\n", "2.csv": "id\n2\n"}))
    (folder / "b.zip").write_bytes(zipped({"1.csv": "id\n3\n"}))
    (folder / "c.csv").write_text("id\n4\n")
    assert sorted(landed(folder, tmp_path / "lake")["id"].to_pylist()) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("members", "rows"),
    [
        ({"a.json": '[{"id": 1}]', "b.json": '{"id": 2}'}, [1, 2]),
        ({"a.jsonl": '{"id": 1}\n', "x/b.ndjson": '{"id": 2}'}, [1, 2]),
        ({"a.tsv": "id\tn\n1\t\n", "b.tsv": "id\tn\n2\tx\n"}, [1, 2]),
        ({"a.parquet": parquet([{"id": 1}]), "b.parquet": parquet([{"id": 2}])}, [1, 2]),
    ],
)
def test_any_format(tmp_path: Path, members: dict[str, Any], rows: list[int]) -> None:
    (tmp_path / "t.zip").write_bytes(zipped(members, zipfile.ZIP_STORED))
    assert sorted(landed(tmp_path / "t.zip", tmp_path / "lake")["id"].to_pylist()) == rows


def test_singer_dumps_in_an_archive(tmp_path: Path) -> None:
    lines = (
        '{"type":"SCHEMA","stream":"t","schema":{"properties":{"id":{"type":"integer"}}}}\n'
        '{"type":"RECORD","stream":"t","record":{"id":1}}\n'
    )
    (tmp_path / "x.zip").write_bytes(zipped({"a.singer": lines, "b.singer": lines}))
    assert landed(tmp_path / "x.zip", tmp_path / "lake")["id"].to_pylist() == [1, 1]


def test_the_format_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zipped({"a.txt": "id\n1\n", "b.dat": "id\n2\n"}))
    with pytest.raises(SourceError, match="holds no file of a known format") as caught:
        lakeport.land(tmp_path / "x.zip", tmp_path / "lake")
    assert "x.zip!/a.txt" in caught.value.hint
    table = landed(tmp_path / "x.zip", tmp_path / "lake", source_format="csv")
    assert sorted(table["id"].to_pylist()) == [1, 2]


def test_mixed_formats_name_the_members(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zipped({"a.csv": "id\n1\n", "b/c.json": "{}"}))
    with pytest.raises(SourceError) as caught:
        lakeport.land(tmp_path / "x.zip", tmp_path / "lake")
    assert caught.value.message == (
        "the source mixes formats: csv ('x.zip!/a.csv'), json ('x.zip!/b/c.json')"
    )
    assert "unpack the archive" in caught.value.hint


def encrypted() -> bytes:
    data = bytearray(zipped({"a.csv": "id\n1\n", "b.csv": "id\n2\n"}))
    for magic, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.rindex(magic) + place] |= 1
    return bytes(data)


def doubled() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("a.csv", "id\n1\n")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.csv", "id\n2\n")
    return target.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (encrypted, "file 'b.csv' of archive .*x.zip' is encrypted"),
        (doubled, "holds 2 files with the name 'a.csv'"),
        (lambda: zipped({"a.csv": "id\n1\n"}, zipfile.ZIP_BZIP2), "'a.csv' .* method 12"),
        (lambda: zipped({"a.csv.zip": "", "b.csv": ""}), "'a.csv.zip' .* is an archive itself"),
        (lambda: zipped({"__MACOSX/a.csv": "", "d/": ""}), "holds no file"),
        (lambda: zipped({}), "holds no file"),
        (lambda: zipped({"a.csv": "id\n1\n" * 99})[:-30], "is damaged or cut off"),
        (lambda: b"PK\x03\x04", "is damaged or cut off"),
    ],
)
def test_what_is_no_archive(tmp_path: Path, content: Any, message: str) -> None:
    (tmp_path / "x.zip").write_bytes(content())
    with pytest.raises(SourceError, match=message):
        discover([str(tmp_path / "x.zip")])


@pytest.mark.parametrize(
    ("was", "now", "reason"),
    [(b"2345", b"2445", r"Bad CRC-32 .*b\.csv"), (b"PK\3\4", b"QQQQ", "Bad magic number")],
)
def test_a_damaged_member_is_refused(tmp_path: Path, was: bytes, now: bytes, reason: str) -> None:
    data = zipped({"a.csv": "id\n1\n", "b.csv": "id\n2345\n"}, zipfile.ZIP_STORED)
    (tmp_path / "x.zip").write_bytes(data.replace(was, now))
    with pytest.raises(SourceError, match=rf"x\.zip' is damaged or cut off: {reason}"):
        lakeport.land(tmp_path / "x.zip", tmp_path / "lake")


@pytest.mark.parametrize("name", ["x.zip", "x.csv", "x.xlsx"])
@settings(max_examples=30, deadline=None, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_damage_anywhere_is_an_error_of_the_source(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    whole = bytearray(zipped({"a.csv": "id\n1\n" * 9, "é/b.csv": "id\n2\n"}))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / name).write_bytes(whole)
    lake = tmp_path / uuid4().hex  # damage may give any columns
    with suppress(InputError):
        lakeport.land(tmp_path / name, lake, table="t", file_type="parquet")


def test_errors_name_the_member(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zipped({"a/ok.csv": "id\n1\n", "a/bad.csv": "id,id\n1,2\n"}))
    with pytest.raises(SourceError, match=r"x\.zip!/a/bad\.csv"):
        lakeport.land(tmp_path / "x.zip", tmp_path / "lake")


def test_lines_are_those_of_the_member(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zipped({"a.csv": "id\n1\n", "b.csv": "id\n1\n2\nx,y\n"}))
    with pytest.raises(BadRecords) as caught:
        lakeport.land(tmp_path / "x.zip", tmp_path / "lake")
    assert caught.value.records[0].line == 4


@pytest.mark.parametrize("count", [1, 40])
def test_a_bomb_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(decompression, "_FLOOR", 1 << 20)
    data = b"0\n" * (2 << 20) if count == 1 else b"0\n" * (1 << 18)
    path = tmp_path / "x.zip"
    path.write_bytes(zipped({f"{n}.csv": data for n in range(count)}))
    with pytest.raises(SourceError, match=r"x\.zip unpacks to more than 500 times its size"):
        discover([str(path)])
    with pytest.raises(SourceError, match=r"x\.zip unpacks to more than 1 MB"):
        discover([str(path)], limits=UnpackLimits(0, 1 << 20))
    assert len(discover([str(path)], limits=UnpackLimits(0, 0))) == count


def test_limits_that_are_lifted_hold_for_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompression, "_FLOOR", 1 << 16)
    path = tmp_path / "x.zip"
    path.write_bytes(zipped({"a.csv": b"id\n" + b"0\n" * (1 << 20)}))
    assert len(digest_files(discover([str(path)], limits=UnpackLimits(0, 0)))) == 64


class Store:
    def __init__(self, content: bytes) -> None:
        self.content = content

    def uri(self, key: str = "") -> str:
        return f"s3://bucket/{key}"

    def list(self, prefix: str, *, after: str = "") -> list[StoredObject]:
        return [StoredObject("x.zip", len(self.content))]

    def open(self, key: str) -> io.BytesIO:
        return io.BytesIO(self.content)


def test_an_archive_in_a_store(tmp_path: Path) -> None:
    store: Any = Store(zipped({"a.csv": "id\n1\n", "b.csv": "id\n2\n"}))
    files = discover(["s3://bucket/x.zip"], storage_for=lambda uri: store)
    assert [(file.uri, file.name) for file in files] == [
        ("s3://bucket/x.zip", "x.zip!/a.csv"),
        ("s3://bucket/x.zip", "x.zip!/b.csv"),
    ]
    with files[1].open() as content:
        assert content.read() == b"id\n2\n"


def test_the_digest_is_of_the_content(tmp_path: Path) -> None:
    first = {"a.csv": "id\n1\n", "b.csv": "id\n2\n"}
    (tmp_path / "1.zip").write_bytes(zipped(first))
    (tmp_path / "2.zip").write_bytes(zipped(first, zipfile.ZIP_STORED))
    (tmp_path / "3.zip").write_bytes(zipped({**first, "b.csv": "id\n3\n"}))
    one, two, three = (digest_files(discover([str(tmp_path / f"{n}.zip")])) for n in (1, 2, 3))
    assert one == two != three


def test_what_is_called_an_archive_and_is_none_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.csv.zip").write_bytes(b"id\n1\n")
    assert landed(tmp_path / "a.csv.zip", tmp_path / "lake")["id"].to_pylist() == [1]


def test_what_is_an_archive_and_not_called_so_has_to_be_one_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(zipped({"x.csv": "id\n1\n", "__MACOSX/x": ""}))
    assert landed(tmp_path / "a.csv", tmp_path / "lake")["id"].to_pylist() == [1]
    (tmp_path / "b.csv").write_bytes(zipped({"x.csv": "id\n1\n", "y.csv": ""}))
    with pytest.raises(SourceError, match="holds 2 files instead of one"):
        lakeport.land(tmp_path / "b.csv", tmp_path / "lake")


def test_a_damaged_member_is_named_as_its_user_knows_it(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped({"in/a.parquet": b"no Parquet"}))
    with pytest.raises(SourceError, match=r"file 'a\.zip!/in/a\.parquet' can't be read as Parquet"):
        lakeport.land(tmp_path / "a.zip", tmp_path / "lake")
