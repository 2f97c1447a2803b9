"""Singer messages: every record in its stream once and in order, as a plain loop finds them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from lakeport.errors import LakeportError
from lakeport.sources.singer import SingerSource
from tests.fuzz.case import Case, Changed
from tests.fuzz.oracle.kernels import MEMORY, rows_of
from tests.fuzz.oracle.model import Bad, Either, parsed
from tests.singer_kit import ShortReads

_SCHEMA = {"properties": {"id": {"type": "integer"}, "v": {"type": ["null", "string"]}}}


def check(case: Case) -> None:
    given = case.options
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        source = SingerSource(
            ShortReads(case.data, given["seed"], given["most"]),  # type: ignore[arg-type]
            spool_dir=Path(folder),
            **{
                k: given[k]
                for k in (
                    "flush_rows",
                    "flush_bytes",
                    "split_bytes",
                    "on_bad_record",
                    "stray_lines",
                )
            },
        )
        found: dict[str, list[Any]] = {}
        states: list[bytes] = []
        bad = 0
        fields: dict[str, Any] = {}
        try:
            for flush in source:
                states += flush.states
                bad += len(flush.bad)
                for batch in flush.batches:
                    reader: Any = batch.reader
                    fields[batch.stream] = reader.fields
                    for split in batch.splits:
                        bad += len(reader.scan(split).bad)
                        found.setdefault(batch.stream, []).extend(_read(reader, split))
        except LakeportError:
            return
    _compare(case, found, states, bad)


def _read(reader: Any, split: Any) -> list[Any]:
    scan = reader.scan(split)
    reader = reader.tolerant()
    if scan.unknown:
        from lakeport.schema.inference import type_of_kind

        try:
            reader = reader.extended({n: type_of_kind(k) for n, k in scan.unknown.items()})
        except LakeportError:
            return [None] * scan.rows
    return [(row.get("id"), row.get("v")) for row in rows_of(reader, split)]


def _compare(case: Case, found: dict[str, list[Any]], states: list[bytes], bad: int) -> None:
    wanted: dict[str, list[Any]] = {}
    unsure = False
    last: Any = None
    declared: set[str] = set()
    for line in case.data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            message = parsed(line.strip())
        except Bad:
            unsure = (
                unsure
                or b"tate" in line.lower()
                or b"chema" in line.lower()
                or b"atch" in line.lower()
            )
            continue
        if not isinstance(message, dict):
            continue
        kind, stream = message.get("type"), message.get("stream")
        if kind == "STATE" and "value" in message:
            last = message["value"]
        elif isinstance(kind, str) and kind.upper() == "RECORD" and type(stream) is str and stream:
            record = message.get("record")
            if stream not in declared:
                continue  # a record before its stream's SCHEMA is bad
            if isinstance(record, dict) and set(record) <= {"id", "v"}:
                wanted.setdefault(stream, []).append((line, record))
            else:
                unsure = unsure or isinstance(record, dict)
        elif isinstance(kind, str) and kind.upper() in ("SCHEMA", "BATCH", "STATE"):
            unsure = unsure or kind.upper() != "SCHEMA" or message.get("schema") != _SCHEMA
            declared.add(str(stream))
    if unsure:
        return
    for stream, records in wanted.items():
        rows = [row for line, record in records if (row := _row(record)) is not None]
        if stream in found and found[stream] != rows:
            raise Changed("a stream has other records", stream, found[stream], rows)
        if stream not in found and rows and not bad:
            raise Changed("a stream's records are gone", stream, rows)
    if states and repr(parsed(states[-1])) != repr(last):
        raise Changed("the last state is another one", states, last)


def _row(record: dict[str, Any]) -> tuple[Any, Any] | None:
    """The record's id and text; None where it is bad."""
    from lakeport.schema.types import FieldType, Kind
    from tests.fuzz.oracle.model import landed

    try:
        values = [
            None if record.get(name) is None else landed(FieldType(kind), record[name], drop=False)
            for name, kind in (("id", Kind.INTEGER), ("v", Kind.STRING))
        ]
    except (Bad, Either):
        return None
    return values[0], values[1]
