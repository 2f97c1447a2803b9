"""Singer messages: every record in its stream once and in order, as a plain loop finds them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from lakeport.errors import LakeportError
from lakeport.schema.types import FieldType, Kind, kind_to_arrow_type
from lakeport.sources.singer.singer_source import SingerSource
from lakeport.sources.spool import SpoolWriter
from tests.fuzz.case import Case, Changed
from tests.fuzz.oracle.kernels import FAST_PATHS, MEMORY, fast_path, rows_of
from tests.fuzz.oracle.model import Bad, Either, landed, parsed
from tests.singer_kit import ShortReads, singer_config

_SCHEMA = {"properties": {"id": {"type": "integer"}, "v": {"type": ["null", "string"]}}}

_SETTINGS = ("flush_rows", "flush_bytes", "on_bad_record")


def check(case: Case) -> None:
    for name in FAST_PATHS:
        with fast_path(name):
            _check_fast_path(case)


def _check_fast_path(case: Case) -> None:
    config = singer_config(**{key: case.options[key] for key in _SETTINGS})
    stray = case.options["stray_lines"]
    stream: Any = ShortReads(case.data, case.options["seed"], case.options["most"])
    found: dict[str, list[Any]] = {}
    states: list[bytes] = []
    bad = 0
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        try:
            writer = SpoolWriter(Path(folder), case.options["split_bytes"])
            for flush in SingerSource(stream, writer, config, stray_lines=stray):
                states += flush.states
                bad += len(flush.bad)
                for batch in flush.batches:
                    for split in batch.splits:
                        bad += len(batch.reader.scan(split).bad)
                        found.setdefault(batch.stream, []).extend(_read(batch.reader, split))
        except LakeportError:
            return
    _compare(case, found, states, bad)


def _read(reader: Any, split: Any) -> list[Any]:
    scan = reader.scan(split)
    reader = reader.skip_bad_records()
    if scan.unknown:
        try:
            reader = reader.add_columns({n: kind_to_arrow_type(k) for n, k in scan.unknown.items()})
        except LakeportError:
            return [None] * scan.rows
    return [(row.get("id"), row.get("v")) for row in rows_of(reader, split)]


def _compare(case: Case, found: dict[str, list[Any]], states: list[bytes], bad: int) -> None:
    expected = _expected(case.data)
    if expected is None:
        return
    records, last = expected
    for stream, sent in records.items():
        rows = [row for record in sent if (row := _row(record)) is not None]
        if stream in found and found[stream] != rows:
            raise Changed("a stream has other records", stream, found[stream], rows)
        if stream not in found and rows and not bad:
            raise Changed("a stream's records are gone", stream, rows)
    if states and repr(parsed(states[-1])) != repr(last):
        raise Changed("the last state is another one", states, last)


def _expected(data: bytes) -> tuple[dict[str, list[Any]], Any] | None:
    """The records of each stream and the last state; None where damage leaves that open."""
    records: dict[str, list[Any]] = {}
    last: Any = None
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            message = parsed(line.strip(b" \t\r"))  # JSON's white space, no other
        except Bad:
            if any(word in line.lower() for word in (b"tate", b"chema", b"atch")):
                return None
            continue
        if not isinstance(message, dict):
            continue
        kind, stream = message.get("type"), message.get("stream")
        told = kind.upper() if isinstance(kind, str) else ""
        if kind == "STATE" and "value" in message:
            last = message["value"]
        elif told == "SCHEMA" and message.get("schema") == _SCHEMA and type(stream) is str:
            records.setdefault(stream, [])
        elif told in ("SCHEMA", "BATCH", "STATE"):
            return None
        elif told == "RECORD" and type(stream) is str and stream in records:
            # Before its stream's SCHEMA it is bad.
            record = message.get("record")
            if isinstance(record, dict) and not record.keys() <= {"id", "v"}:
                return None
            records[stream] += [record] if isinstance(record, dict) else []
    return records, last


def _row(record: dict[str, Any]) -> tuple[Any, Any] | None:
    """The record's id and text; None where it is bad."""
    try:
        values = [
            None if record.get(name) is None else landed(FieldType(kind), record[name], drop=False)
            for name, kind in (("id", Kind.INTEGER), ("v", Kind.STRING))
        ]
    except (Bad, Either):
        return None
    return values[0], values[1]
