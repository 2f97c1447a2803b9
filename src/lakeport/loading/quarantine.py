"""The quarantine of a lake: bad records as JSON lines, and the limit of a run.

Each line is one object: `stream`, `line` (from 1, 0 if unknown), `column` (empty: the whole
record), `reason`, `run_id`, and the record's bytes as they came: `raw` if they are UTF-8, else
`raw_base64`. A record of a CSV file has `texts`, too: column -> text.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from lakeport.errors import BadRecord, InputError, ObjectExists
from lakeport.model import Rejection, Storage
from lakeport.writers.naming import quarantine_stem

_MOST_COUNTED_REASONS = 200  # of a stream that are counted each by itself
_MOST_REASONS = 20  # of a stream that a report has
_OTHER_REASONS = ("", "other reasons")


class RejectedKind(Enum):
    """Kind of rejected records in a quarantine file; the value is a suffix of the file name."""

    RECORDS = ""
    """Records of a batch that break the schema, as they came."""

    LINES = "~lines"
    """Lines of a flush, with or without a stream, as they came."""

    ROWS = "~rows"
    """Rows of a batch that violate an expectation, as JSON."""

    SAMPLES = "~samples"
    """Some of the rows for which a load has failed, as JSON; nothing of the batch was landed."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Writes a run's bad records to JSON files in the lake's folder `_lakeport/quarantine`."""

    storage: Storage
    run_id: str

    def write(
        self,
        records: Iterable[BadRecord],
        sequence: int,
        kind: RejectedKind = RejectedKind.RECORDS,
    ) -> tuple[str, ...]:
        """Write bad records as JSON lines, one file per stream; return the files' URIs.

        `sequence` is the ordinal of the batch (of the flush, for lines) in the run, from 0, by
        which a repeated run finds its files.
        """
        streams: dict[str, list[BadRecord]] = {}
        for record in records:
            streams.setdefault(record.stream, []).append(record)
        return tuple(
            self._put(
                quarantine_key(
                    self.run_id, stream, sequence, kind if stream else RejectedKind.LINES
                ),
                b"".join(encode_record(record, self.run_id) for record in found),
            )
            for stream, found in streams.items()
        )

    def _put(self, key: str, data: bytes) -> str:
        """Write a file, replacing one with other content; return its URI."""
        try:
            self.storage.put(key, data, create_only=True)
        except ObjectExists:
            if self.storage.get(key) != data:  # left by an attempt whose batch did not land
                self.storage.put(key, data)
        return self.storage.uri(key)


class Rejections:
    """Counts bad records by stream, column and reason; 200 reasons a stream, then the rest."""

    def __init__(self) -> None:
        """Begin without records."""
        self._streams: dict[str, Counter[tuple[str, str]]] = {}

    def add(self, records: Iterable[BadRecord]) -> None:
        """Count bad records by stream, column and reason."""
        for record in records:
            kinds = self._streams.setdefault(record.stream, Counter())
            kind = record.column, record.reason
            counted = kind in kinds or len(kinds) < _MOST_COUNTED_REASONS
            kinds[kind if counted else _OTHER_REASONS] += 1

    def most_frequent(self) -> tuple[Rejection, ...]:
        """Return each stream's 20 most frequent reasons, then one for its other reasons, if any."""
        found: list[Rejection] = []
        for stream, kinds in self._streams.items():
            named = Counter(kinds)
            others = named.pop(_OTHER_REASONS, 0)
            ranked = named.most_common()
            others += sum(count for _, count in ranked[_MOST_REASONS:])
            rest = [(_OTHER_REASONS, others)] if others else []
            for (column, reason), count in [*ranked[:_MOST_REASONS], *rest]:
                found.append(Rejection(stream, column, reason, count))
        return tuple(found)


def quarantine_key(
    run_id: str,
    stream: str,
    sequence: int,
    kind: RejectedKind = RejectedKind.RECORDS,
) -> str:
    """Return the unique key of a quarantine file for a run, stream, batch number and kind.

    >>> quarantine_key("r/1", "orders", 2)
    '_lakeport/quarantine/r%2F1/orders-2.jsonl'
    >>> quarantine_key("r1", "", 0, RejectedKind.LINES)
    '_lakeport/quarantine/r1/~lines.jsonl'
    """
    suffix = f"-{sequence}" if sequence else ""
    return f"{quarantine_stem(run_id, stream)}{kind.value}{suffix}.jsonl"


def encode_record(record: BadRecord, run_id: str) -> bytes:
    """Encode a bad record as a line of JSON: UTF-8 as `raw`, other bytes as `raw_base64`."""
    values = {
        "stream": record.stream,
        "line": record.line,
        "column": record.column,
        "reason": record.reason,
        "run_id": run_id,
        **({"file": record.file} if record.file else {}),
        **({"texts": dict(record.texts)} if record.texts else {}),
    }
    try:
        values["raw"] = record.raw.decode("utf-8")
    except UnicodeDecodeError:
        values["raw_base64"] = base64.b64encode(record.raw).decode("ascii")
    return json.dumps(values).encode("ascii") + b"\n"


def check_limit(bad: int, total: int, limit: float | None) -> None:
    """Raise InputError if a run has more bad records than `max_bad_records` allows.

    The limit is a count when it is an int, a share of `total` when it is a float; None: no limit.

    >>> check_limit(1, 100, 0.01)
    >>> check_limit(2, 100, 0.01)
    Traceback (most recent call last):
    lakeport.errors.InputError: 2 of 100 records are bad, more than `max_bad_records: 1%`
    <BLANKLINE>
    Hint: the quarantine files tell each record's fault; correct the source or raise the limit.
    """
    if limit is None:
        return
    share = isinstance(limit, float)
    if bad <= (Decimal(str(limit)) * total if share else limit):
        return
    shown = f"{limit:.6%}".rstrip("%").rstrip("0").rstrip(".") + "%" if share else str(limit)
    raise InputError(
        f"{bad} of {total} records are bad, more than `max_bad_records: {shown}`",
        "the quarantine files tell each record's fault; correct the source or raise the limit.",
    )
