"""What holds of the spans and the pace of every run, and inputs of such runs."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import lakeport
from lakeport.loading.report import MOST_POINTS, MOST_SPANS

IN_TASKS = {"parsing", "reading", "encoding", "uploading"}


def check(report: lakeport.LandingReport) -> dict[tuple[str, str], list[lakeport.Span]]:
    """See that what a report tells of time can have been.

    Returns:
        Stream and stage -> its spans.
    """
    found: dict[tuple[str, str], list[lakeport.Span]] = {}
    for span in report.spans:
        assert 0 <= span.start <= span.end <= report.seconds, span
        assert span.busy >= 0 and (span.tasks > 0) == bool(span.stream and span.stage in IN_TASKS)
        if not span.tasks:
            assert span.busy <= span.end - span.start + 1e-6, span
        found.setdefault((span.stream, span.stage), []).append(span)
    assert [span.start for span in report.spans] == sorted(span.start for span in report.spans)
    assert len(report.spans) <= MOST_SPANS
    for spans in found.values():
        assert all(one.end <= other.start for one, other in pairwise(spans)), spans
    for pace in (report.pace, report.reading_pace):
        assert len(pace) <= MOST_POINTS
        assert all(0 <= at <= report.seconds for at, _, _ in pace), pace
        assert not pace or pace[0] == (0, 0, 0)
        for one, other in pairwise(pace):
            assert all(a <= b for a, b in zip(one, other, strict=True)), pace
    return found


def check_landed(report: lakeport.LandingReport, source: str = "parsing") -> None:
    """See that a run tells each stage of each stream, in order, and all of its rows and bytes.

    Args:
        report: of a run that landed all that its tasks wrote.
        source: the stage that making rows is.
    """
    found = check(report)
    assert report.ok and report.streams_left_out == 0
    opening, reading = found["", "opening"][0], found["", "reading"][0]
    assert opening.end <= reading.start
    for stream in (stream.stream for stream in report.streams):
        first = {name: spans[0] for (of, name), spans in found.items() if of == stream}
        in_tasks = {source, "encoding", "uploading"}
        assert first.keys() - {"checking"} == {"planning", "writing", "committing", *in_tasks}
        order = ["planning", "writing", "committing"]
        starts = [first[name].start for name in order]
        assert starts == sorted(starts) and reading.start <= starts[0]
        for name in in_tasks:
            assert first["writing"].start <= first[name].start
            assert first[name].end <= max(span.end for span in found[stream, "writing"])
    assert report.pace[-1][1:] == (report.rows, report.bytes)


def write_people(file: Path) -> Path:
    """Write a CSV file of 2,000 rows."""
    file.write_text("id,name\n" + "".join(f"{n},name {n % 7}\n" for n in range(2_000)))
    return file


def singer(*streams: str, records: int = 1_000) -> io.BytesIO:
    """Interleaved streams, one record of each stream after the other."""
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    lines: list[dict[str, Any]] = [
        {"type": "SCHEMA", "stream": name, "schema": schema, "key_properties": ["id"]}
        for name in streams
    ]
    lines += [
        {"type": "RECORD", "stream": name, "record": {"id": number}}
        for number in range(records)
        for name in streams
    ]
    return io.BytesIO("".join(f"{json.dumps(line)}\n" for line in lines).encode())
