"""Long texts that a Parquet dictionary repeats: refused as a bomb, or written out in pieces."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.errors import SourceError
from lakeport.model import Batch
from lakeport.sources.typed import parquet as parquet_texts
from lakeport.sources.typed.parquet import find_repeating_columns
from tests.unit.sources.file_batch import planned

LONG = 1 << 20


def repeated(length: int, rows: int) -> pa.Array:
    """One text in every row."""
    indices = pa.array([0] * rows, pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(["x" * length]))


def pieces(batch: Batch) -> list[pa.RecordBatch]:
    return [piece for split in batch.splits for piece in batch.reader.read(split)]


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("within", ["", "struct", "list"])
def test_a_bomb_of_one_text_is_refused(tmp_path: Path, within: str, typed: bool) -> None:
    path, column = tmp_path / "bomb.parquet", repeated(LONG, 1 << 16)
    if within == "struct":
        column = pa.StructArray.from_arrays([column], ["b"])
    elif within == "list":
        column = pa.ListArray.from_arrays(range((1 << 16) + 1), column)
    pq.write_table(pa.table({"a": column}), path, compression="zstd", store_schema=typed)
    assert path.stat().st_size < 8192  # and 64 GiB in one batch of Arrow's
    batch = planned(path)
    before = pa.total_allocated_bytes()
    with pytest.raises(SourceError, match=r"bomb\.parquet unpacks to more than 500 times") as told:
        for split in batch.splits:
            for piece in batch.reader.read(split):
                assert piece.nbytes < 80 << 20
                assert pa.total_allocated_bytes() - before < 300 << 20
    assert "max_unpack_ratio" in told.value.hint


def test_repeated_texts_come_in_pieces_and_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_texts, "_PIECE_BYTES", 1 << 16)
    monkeypatch.setattr(parquet_texts, "_MAX_REPEATED_BYTES", 1 << 10)
    texts = [None if n % 7 == 0 else f"{n % 3}" * 2000 for n in range(2000)]
    table = pa.table(
        {
            "flat": texts,
            "raw": pa.array([None if text is None else text.encode() for text in texts]),
            "list": [[text, "é"] if text else [] for text in texts],
            "struct": [{"deep": {"b": text}, "n": n} for n, text in enumerate(texts)],
            "map": pa.array([[("k", text)] for text in texts], pa.map_(pa.string(), pa.string())),
            "n": range(2000),
        }
    )
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, compression="zstd", store_schema=False)
    metadata = pq.ParquetFile(path).metadata
    assert len(find_repeating_columns(metadata, [0])) == 6
    found = pieces(planned(path, max_unpack_ratio=0))
    assert len(found) > 300 and max(piece.nbytes for piece in found) < 1 << 18
    assert pa.Table.from_batches(found).to_pylist() == table.to_pylist()


def test_texts_that_hardly_repeat_are_left_to_arrow(tmp_path: Path) -> None:
    texts = [f"{n * 7919 % 1_000_003:x}-{n * n:x}" for n in range(20_000)]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": texts, "b": ["red", "blue"] * 10_000}), path)
    assert find_repeating_columns(pq.ParquetFile(path).metadata, [0]) == []


@pytest.mark.parametrize("columns", ["an integer", "a list of texts"])
def test_a_footer_that_contradicts_itself_is_refused(tmp_path: Path, columns: str) -> None:
    path = tmp_path / "t.parquet"
    values = [1, None] if columns == "an integer" else [["x"], None]
    pq.write_table(pa.table({"odd": pa.array(values)}), path)
    # "optional" becomes "required" in Thrift's compact form, and the counts of levels differ.
    data, changes = re.subn(b"(?<=[%5])\x02(?=\x18\x03odd)", b"\0", path.read_bytes())
    assert changes == 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"t\.parquet' can't be read as Parquet: .*histogram"):
        pieces(planned(path))
