"""Write values as CSV: RFC 4180 quoting, LF, UTF-8 without a byte-order mark.

| value | text |
|---|---|
| null | nothing, unquoted |
| empty string | `""` |
| string | as it is, NUL included; quoted if it has a comma, a quote, CR or LF |
| boolean | `true`, `false` |
| integer, decimal | plain digits, never an exponent |
| floating point | shortest that reads back the same: `1.0`, `1e+300`, `NaN`, `Infinity` |
| date | `2024-03-04` |
| timestamp | `2024-03-04T15:30:45.123456+00:00` |
| binary | base64 |
| list, struct, map | compact JSON; nested values as above, NaN and infinities null, JSON as it is |

A null in a file of one column is an empty line: read it with blank lines kept. Everything is done
on whole columns, so that no Python code runs per value (binary and rare decimals excepted).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.model import StageWriter
from lakeport.schema.text import contains_any, get_string_bytes, to_plain_text
from lakeport.writers.parquet import EncodedFile

_SLICE_BYTES = 32 << 20
_CSV_SPECIAL = (b'"', b",", b"\n", b"\r")


class EncodedCsv(EncodedFile):
    """A CSV file, compressed as a whole: writes the header when opened, and each batch at once."""

    def __init__(self, out: StageWriter, schema: pa.Schema, compression: str) -> None:
        super().__init__(out)
        self._packer: Any = self._stream
        if compression == "gzip":
            # At level 6, since Arrow's stream only knows the slow level 9.
            self._packer = gzip.GzipFile(
                mode="wb", compresslevel=6, fileobj=cast(BinaryIO, self._stream), mtime=0
            )
        elif compression == "zstd":
            self._packer = pa.CompressedOutputStream(pa.PythonFile(self._stream, "w"), compression)
        self._packer.write(encode_header(schema.names))

    def write(self, batch: pa.RecordBatch) -> None:
        """Encode and append rows at once; InputError for a date or time outside years 1 to 9999."""
        self.rows += batch.num_rows
        for text in encode_rows(batch):
            self._packer.write(text)

    def close(self) -> None:
        """Flush and close the compressor; the stage writer stays open."""
        self._packer.close()


def encode_header(names: Sequence[str]) -> bytes:
    """Return the header row as UTF-8, its names quoted where needed.

    >>> encode_header(["id", "a,b"])
    b'id,"a,b"\\n'
    """
    return (",".join(_quote(pa.array(names, pa.string())).to_pylist()) + "\n").encode()


def encode_rows(batch: pa.RecordBatch) -> Iterator[pa.Buffer]:
    """Yield the rows of a batch as CSV bytes, in pieces of some 32 MB, below Arrow's 2 GB limit.

    Raises:
        InputError: a date or timestamp outside the years 1 to 9999.
    """
    rows = batch.num_rows
    step = max(1, rows * _SLICE_BYTES // max(batch.nbytes, _SLICE_BYTES))
    for start in range(0, rows, step):
        part = batch.slice(start, step)
        cells = [
            pc.fill_null(_encode_cells(column, field.name), "")
            for column, field in zip(part.columns, part.schema, strict=True)
        ]
        cells[-1] = pc.binary_join_element_wise(cells[-1], "\n", "")
        yield get_string_bytes(pc.binary_join_element_wise(*cells, ","))


def _encode_cells(array: pa.Array, column: str) -> pa.Array:
    """Return a column's cells as CSV text, quoted where needed; null stays null."""
    text, kind = to_plain_text(array, column), array.type
    needs_quotes = pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_nested(kind)
    return _quote(text) if needs_quotes else text


def _quote(text: pa.Array) -> pa.Array:
    """Return the texts, in quotes if empty or with a comma, a quote or a line break."""
    if contains_any(text, _CSV_SPECIAL):
        special = pc.match_substring_regex(text, '[",\\r\\n]|^$')
        text_inside = pc.replace_substring(text, '"', '""')
    else:
        special = pc.equal(pc.binary_length(text), 0)
        text_inside = text
    if not pc.any(special).as_py():
        return text
    return pc.if_else(special, pc.binary_join_element_wise('"', text_inside, '"', ""), text)
