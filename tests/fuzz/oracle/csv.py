"""CSV: however it is cut and whichever way its values go, what Python's csv reads has to land."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from lakeport.errors import BadRecords, LakeportError
from lakeport.model import Split
from lakeport.sources.csv.conversion import narrowest_type
from lakeport.sources.csv.detection import read_header, split_file
from lakeport.sources.csv.dialect import CsvDialect
from lakeport.sources.csv.inference import (
    TRACES,
    UNSEEN_TRACES,
    ColumnInference,
    merge_candidates,
)
from lakeport.sources.csv.reader import CsvLayout, CsvReader, read_blocks
from lakeport.sources.files.source_file import SourceFile
from lakeport.writers.files.csv import encode_header, encode_rows
from tests.fuzz.case import Case, Changed
from tests.fuzz.oracle.kernels import FAST_PATHS, Held, fast_path, rows_of
from tests.fuzz.oracle.model import EPOCH, Bad, Either, double, exact

_TYPES = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "decimal": pa.decimal128(12, 2),
}


def check(case: Case) -> None:
    given = case.options
    options = CsvDialect(
        header=given["header"],
        delimiter=given["delimiter"],
        quote=given["quote"],
        escape=given["escape"],
        null_values=tuple(given["null_values"]),
    )
    file = SourceFile("held", "t.csv", "csv", len(case.data), Held(case.data), "t")  # type: ignore[arg-type]
    try:
        head = read_header(file, options)
        if not head.columns:
            return
        splits = split_file(file, head, options, given["split_bytes"])
    except LakeportError:
        if given["regular"]:
            raise
        return
    whole = [file.split(head.start, file.bytes, head.line)]
    _check_cuts(case.data, whole[0], splits, options, given["block_bytes"])
    texts = _read(head.columns, options, dict.fromkeys(head.columns, pa.string()), splits)
    if texts != _read(head.columns, options, dict.fromkeys(head.columns, pa.string()), whole):
        raise Changed("rows depend on where a file is cut", texts)
    _check_texts(case, head.columns, head.start, options, *texts)
    if given["way"] != "text" and len(set(head.columns)) == len(head.columns):
        _check_types(case, head.columns, options, splits, texts[0])


def _read(
    layout: tuple[str, ...], options: CsvDialect, types: dict[str, Any], splits: list[Split]
) -> tuple[list[dict[str, Any]], list[tuple[int, str]]]:
    """Rows, and the bad records: line and reason; the same whichever way they are read."""
    found = []
    for name in FAST_PATHS:
        with fast_path(name):
            found.append(_read_so(layout, options, types, splits))
    if repr(found[0]) != repr(found[1]):
        raise Changed("the kernel reads otherwise", *found)
    return found[0]


def _read_so(
    layout: tuple[str, ...], options: CsvDialect, types: dict[str, Any], splits: list[Split]
) -> tuple[list[dict[str, Any]], list[tuple[int, str]]]:
    reader = CsvReader("t", pa.schema(list(types.items())), (CsvLayout(layout, options),))
    rows: list[dict[str, Any]] = []
    bad: list[tuple[int, str]] = []
    for split in splits:
        scan = reader.scan(split)
        found = rows_of(reader.skip_bad_records(), split)
        if len(found) != scan.rows:
            raise Changed("scan and read count differently", scan.rows, len(found))
        rows += found
        bad += [(b.line, b.reason) for b in scan.bad]
        try:
            rows_of(reader, split)
        except BadRecords:
            if not scan.bad:
                raise Changed("a record is bad for read alone") from None
    return rows, bad


def _check_cuts(
    data: bytes, whole: Split, splits: list[Split], options: CsvDialect, size: int
) -> None:
    ends = [whole.start, *(split.end for split in splits)]
    if [split.start for split in splits] != ends[:-1] or ends[-1] != whole.end:
        raise Changed("splits leave something out", ends)
    cut = []
    for name in FAST_PATHS:
        source = io.BytesIO(data)
        source.seek(whole.start)
        with fast_path(name):
            found = read_blocks(source, Split("t.csv", whole.start), options, "t", block_bytes=size)
            cut.append(list(found))
    if b"".join(block.data for block in cut[0]) != data[whole.start :]:
        raise Changed("blocks leave something out")
    if cut[0] != cut[1]:
        raise Changed("the kernel cuts otherwise", *cut)


def _check_texts(
    case: Case,
    layout: tuple[str, ...],
    start: int,
    options: CsvDialect,
    rows: list[dict[str, Any]],
    bad: list[tuple[int, str]],
) -> None:
    """The rows as Python's csv reads them; it knows no escapes as we do, and no bad records."""
    if options.escape:
        return
    try:
        text = case.data[start:].decode()
        found = list(
            csv.reader(
                io.StringIO(text, newline=""),
                delimiter=options.delimiter or ",",
                quotechar=options.quote or None,
                quoting=csv.QUOTE_MINIMAL if options.quote else csv.QUOTE_NONE,
                strict=True,
            )
        )
    except (csv.Error, UnicodeDecodeError) as error:
        if not bad:
            raise Changed(f"no bad record, although {str(error)[:40]}", case.data) from None
        return
    width = len(layout)
    good = [row for row in found if len(row) == width or (not row and width == 1)]
    wrong = [row for row in found if row and len(row) != width]
    if len(bad) != len(wrong):
        raise Changed("another number of bad records than Python's csv finds", bad, wrong)
    if len(rows) != len(good):
        raise Changed("another number of rows than Python's csv finds", rows, good)
    for got, row in zip(rows, good, strict=True):
        wanted = dict(zip(layout, row or [""], strict=True))
        for name, value in wanted.items():
            if got[name] != value and not (
                got[name] is None and value in (*options.null_values, "")
            ):
                raise Changed("a text changed", got[name], value)
    if case.options["regular"] and len(text) % 16 == 0 and not wrong and "\0" not in text:
        _check_duckdb(text, layout, options, good)


def _check_duckdb(
    text: str, layout: tuple[str, ...], options: CsvDialect, good: list[list[str]]
) -> None:
    """What DuckDB reads; it leaves blank lines out, and reads one kind of line break a file.

    It drops a byte order mark where Python, which is handed what is behind the header, keeps it.
    """
    breaks = set(re.findall(r"\r\n|\r|\n", text))
    if not good or [] in good or len(breaks) > 1 or "\r" in breaks or not options.quote:
        return
    if "\ufeff" in text:
        return
    columns = dict.fromkeys(layout, "VARCHAR")
    try:
        found = duckdb.read_csv(
            io.StringIO(text),
            header=False,
            sep=options.delimiter,
            quotechar=options.quote,
            escapechar=options.quote,
            dtype=columns,
            all_varchar=True,
            auto_detect=False,
            na_values=["\\lakeport"],
            lineterminator="\\r\\n" if "\r\n" in breaks else "\\n",
            columns=columns,
        ).fetchall()
    except duckdb.Error:
        return
    if len(found) == len(good) and [[v or "" for v in row] for row in found] != good:
        raise Changed("DuckDB reads other texts than Python's csv", found, good)


def _check_types(
    case: Case,
    layout: tuple[str, ...],
    options: CsvDialect,
    splits: list[Split],
    texts: list[dict[str, Any]],
) -> None:
    """Typed values are what the texts say, and bad where they say none."""
    if case.options["way"] == "inferred":
        infer = ColumnInference(CsvLayout(layout, options), frozenset(layout))
        kinds, again = (_kinds(infer, splits, name) for name in FAST_PATHS)
        if kinds != again:
            raise Changed("the kernel infers otherwise", kinds, again)
        if kinds.pop(TRACES, UNSEEN_TRACES) != UNSEEN_TRACES:
            return  # types are those of the texts without the marks, which plans leave out
        types = {name: narrowest_type(kind) for name, kind in kinds.items()}
    else:
        told = case.options["types"]
        types = {name: _TYPES[told[at % len(told)]] for at, name in enumerate(layout)}
    rows, bad = _read(layout, options, types, splits)
    typed_bad = sum(1 for _, reason in bad if reason.startswith("the text is"))
    if case.options["way"] == "inferred" and typed_bad:
        raise Changed("an inferred type does not fit", bad, types)
    if len(rows) + typed_bad != len(texts):
        raise Changed("rows vanish when they get types", len(rows), bad, len(texts))
    expected = [{n: _value(types[n], t) for n, t in r.items()} for r in texts]
    landed = iter(rows)
    left = len(texts) - typed_bad
    for row, text in zip(expected, texts, strict=True):
        values = row.values()
        if any(v is Bad for v in values):
            continue
        if any(v is Ellipsis for v in values) and typed_bad:
            return  # which of the rows are bad is not told: nothing to align by
        got = next(landed, None)
        left -= 1
        if got is None:
            raise Changed("a text that has a value is bad", text, types, bad)
        for name, wanted in row.items():
            if wanted is not Ellipsis and not _same(got[name], wanted):
                raise Changed(
                    f"a typed value changed: {types[name]}", text[name], got[name], wanted
                )
    if left > 0:
        raise Changed("a text that has no value landed", texts, rows, types)
    _check_written(rows, pa.schema(list(types.items())))


def _kinds(infer: ColumnInference, splits: list[Split], name: str) -> dict[str, int]:
    with fast_path(name):
        return merge_candidates([found for split in splits for found in infer(split)])


def _value(type_: pa.DataType, text: str | None) -> Any:
    """What a text means: None for null, `Bad` for nothing, and `...` where it is not told."""
    if text is None or type_ == pa.string():
        return text
    if text == "":
        return None
    text = text.strip(" \t\n\r\v\f")
    try:
        if type_ == pa.int64():
            return _integer(text)
        if type_ == pa.float64():
            return _double(text)
        if type_ == pa.bool_():
            return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), Bad)
        if type_ == pa.date32():
            return date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.A) else Bad
        if pa.types.is_decimal(type_):
            return _decimal(text, type_)
        return _stamp(text)
    except (ValueError, OverflowError, Bad):
        return Bad


def _integer(text: str) -> Any:
    if re.fullmatch(r"[+-]?[0-9]+(\.0*)?", text):
        value = int(Decimal(text))
        return value if -(2**63) <= value < 2**63 else Bad
    return Bad if not re.search(r"[eE.]", text) else ...


def _double(text: str) -> Any:
    try:
        value = double(text)
    except Either:
        return ...
    return ... if value and abs(value) < 2.3e-308 else value  # both ways refuse the smallest


def _decimal(text: str, type_: Any) -> Any:
    if re.search("[eE]", text):
        return ...
    digits, exponent = exact(text)
    if exponent < -type_.scale or (
        digits and len(str(abs(digits))) + exponent > type_.precision - type_.scale
    ):
        return Bad
    return Decimal(f"{digits}E{exponent}")


def _stamp(text: str) -> Any:
    if not re.fullmatch(
        r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?([Zz]|[+-]\d\d:\d\d)?)?", text, re.A
    ):
        return ...
    if text[11:13] == "24":
        return ...
    found = datetime.fromisoformat(text.upper())
    return EPOCH + ((found if found.tzinfo else found.replace(tzinfo=UTC)) - EPOCH)


def _same(got: Any, wanted: Any) -> bool:
    return (
        bool(got == wanted) and repr(got) == repr(wanted)
        if isinstance(wanted, float)
        else bool(got == wanted)
    )


def _check_written(rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    """CSV that lakeport writes says the same to Python's csv."""
    if not rows:
        return
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    data = encode_header(schema.names) + b"".join(bytes(piece) for piece in encode_rows(batch))
    found = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    if len(found) != len(rows) + 1 or found[0] != schema.names:
        raise Changed("CSV that was written has other rows", data)
    for texts, row in zip(found[1:], rows, strict=True):
        for column, text in zip(schema, texts or [""], strict=True):
            value = row[column.name]
            if value is None or value == "":
                if text != "":
                    raise Changed("CSV that was written has a text for null", text)
            elif not _same(
                float(text) if column.type == pa.float64() else _value(column.type, text), value
            ):
                raise Changed(f"CSV that was written changed: {column.type}", text, value)
