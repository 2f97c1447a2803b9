"""Damaged files are errors of the source in loads with a session, as in those without one."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import openpyxl
import pytest

import lakeport
from lakeport.engine.spark.session import DriverSession
from lakeport.errors import SourceError

CSV = b"id,t\n" + b"".join(b"%d,%x\n" % (n, n * 2654435761 % 2**32) for n in range(20_000))


def zipped(method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        archive.writestr("t.csv", CSV)
    return target.getvalue()


def workbook() -> bytes:
    book, target = openpyxl.Workbook(), io.BytesIO()
    for n in range(3000):
        book.active.append([n, f"{n * 2654435761 % 2**32:x}"])
    book.save(target)
    return target.getvalue()


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes, at: int | None = None) -> bytes:
    changed = bytearray(data)
    changed[len(data) // 2 if at is None else at] ^= 0xFF
    return bytes(changed)


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("cut.zip", cut(zipped()), "damaged or cut off"),
        ("flipped.zip", flipped(zipped()), "damaged or cut off"),
        ("stored.zip", flipped(zipped(zipfile.ZIP_STORED)), "Bad CRC-32"),
        ("cut.csv.gz", cut(gzip.compress(CSV)), "corrupt or cut off: it ends early"),
        ("flipped.csv.gz", flipped(gzip.compress(CSV)), "corrupt or cut off"),
        ("sum.csv.gz", flipped(gzip.compress(CSV), -8), "incorrect data check"),
        ("cut.xlsx", cut(workbook()), "damaged or cut off"),
        ("flipped.xlsx", flipped(workbook()), "can't be read as an Excel workbook|damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
def test_damaged_files_are_refused(
    driver: DriverSession, tmp_path: Path, name: str, data: bytes, told: str
) -> None:
    (tmp_path / name).write_bytes(data)
    (tmp_path / "well.csv").write_bytes(CSV)
    lake = tmp_path / "lake"
    assert driver.context.applicationId  # once the session is there, tasks are Spark's
    for source in ([tmp_path / name], [tmp_path / name, tmp_path / "well.csv"]):
        if source[1:] and name.endswith(".xlsx"):
            continue
        with pytest.raises(SourceError, match=told) as caught:
            lakeport.land(list(map(str, source)), lake, table="t")
        assert name in caught.value.message
    assert not (lake / "t").exists()
    lakeport.land(tmp_path / "well.csv", lake, table="t")
    assert lakeport.Table(lake / "t").preview(5).num_rows == 5
