"""Records of a stream: the reader, `RecordParser` and Python's json must tell the same."""

from __future__ import annotations

from typing import Any

from lakeport.errors import InputError
from lakeport.model import UnknownPolicy
from lakeport.schema.jsonschema import parse_schema
from lakeport.schema.types import kind_to_arrow_type
from lakeport.sources.json.reader import JsonReader, UnknownCounts, merge_unknown
from lakeport.sources.json.record import Fault, RecordParser, create_batch_from_rows
from tests.fuzz.case import Case, Changed
from tests.fuzz.oracle.kernels import rows_of, split_of
from tests.fuzz.oracle.model import Bad, Either, row_of, same


def check(case: Case) -> None:
    fields = parse_schema("s", case.options["schema"], case.options.get("keys", ()))
    policy = UnknownPolicy(case.options["unknown"])
    reader = JsonReader("s", fields, case.options["envelope"], policy)
    check_reader(reader, case.data)


def check_reader(reader: JsonReader, data: bytes) -> None:
    """Compare what a reader makes of lines with them one by one, and with an independent one."""
    lines = _lines(data)
    rows, faults, unknown = _line_by_line(reader, lines)
    scan = reader.scan(split_of(data))
    bad = {b.line: (b.column, b.reason) for b in scan.bad}
    if bad != faults or scan.rows != len(rows):
        raise Changed(
            "a record's verdict depends on the path", sorted(bad.items() ^ faults.items())
        )
    if (scan.unknown, scan.unknown_values) != unknown:
        raise Changed("undeclared fields depend on the path", scan.unknown, unknown)
    _check_model(reader, lines, faults)
    final = reader
    if scan.unknown and reader.unknown is not UnknownPolicy.DROP:
        if reader.unknown is UnknownPolicy.FAIL:
            return
        try:
            final = reader.add_columns({n: kind_to_arrow_type(k) for n, k in scan.unknown.items()})
        except InputError:
            return
        rows, faults, _ = _line_by_line(final, lines)
    found = rows_of(final.skip_bad_records(), split_of(data))
    wanted = rows_dicts(create_batch_from_rows(list(rows.values()), final.schema)) if rows else []
    if repr(found) != repr(wanted):
        raise Changed("a record's values depend on the path", found, wanted)
    for number, got in zip(rows, found, strict=True):
        _check_values(reader, number, lines[number], got)


def rows_dicts(batch: Any) -> list[dict[str, Any]]:
    return batch.to_pylist() if batch.num_columns else [{}] * batch.num_rows


def _lines(data: bytes) -> dict[int, bytes]:
    data = data.removeprefix(b"\xef\xbb\xbf")
    stripped = ((n, line.strip(b" \t\r")) for n, line in enumerate(data.split(b"\n"), 1))
    return {n: line for n, line in stripped if line}


def _line_by_line(
    reader: JsonReader, lines: dict[int, bytes]
) -> tuple[dict[int, list[Any]], dict[int, tuple[str, str]], tuple[dict[str, str], dict[str, int]]]:
    """The slow path's rows and faults by line, and the kinds and counts of undeclared fields."""
    parser = RecordParser(
        reader.columns, reader.unknown, envelope=reader.envelope, metadata=bool(reader.metadata)
    )
    rows, faults = {}, {}
    unknown: UnknownCounts = {}
    for number, line in lines.items():
        try:
            rows[number] = parser.parse(line)
        except Fault as fault:
            faults[number] = fault.column, fault.reason
        else:
            merge_unknown(unknown, {name: (kind, 1) for name, kind in parser.unknown.items()})
    kinds = {name: kind for name, (kind, _) in unknown.items()}
    return rows, faults, (kinds, {name: count for name, (_, count) in unknown.items()})


def _check_model(reader: JsonReader, lines: dict[int, bytes], faults: dict[int, Any]) -> None:
    """A record is bad for lakeport if it is for the independent reader."""
    for number, line in lines.items():
        try:
            row_of(
                line,
                reader.fields,
                envelope=reader.envelope,
                drop=reader.unknown is UnknownPolicy.DROP,
            )
        except Bad as why:
            if number not in faults:
                raise Changed(f"landed, although it is bad: {why}"[:70], line) from None
        except Either:
            continue
        else:
            if number in faults:
                raise Changed(f"a good record is bad: {faults[number][1]}", line)


def _check_values(reader: JsonReader, number: int, line: bytes, got: dict[str, Any]) -> None:
    try:
        row = row_of(
            line,
            reader.fields,
            envelope=reader.envelope,
            drop=reader.unknown is UnknownPolicy.DROP,
        )
    except Either:
        return
    for name, wanted in row.items():
        if not same(got[name], wanted):
            raise Changed("a value changed", number, name, wanted, got[name])
