"""The quarantine: bad records as JSON lines beside the lake, and how many a run may have.

Each line is one object: `stream`, `line` (from 1, 0 if unknown), `column` (empty: the whole
record), `reason`, `run_id`, and the record's bytes as they came, under `raw` where they are UTF-8,
else under `raw_base64`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from urllib.parse import quote

from lakeport.errors import BadRecord, InputError, ObjectExists
from lakeport.model import Rejection, Storage

QUARANTINE = "_lakeport/quarantine"
"""The folder of a lake below which its quarantine files are."""

_ENDS_LIKE_A_SEQUENCE = re.compile(r"-(?=[0-9]+$)")
_LONGEST = 200
_MOST_KINDS = 200
_MOST_REASONS = 20
_OTHERS = ("", "other reasons")


class RejectedKind(Enum):
    """Kind of the records in a quarantine file; the value ends the file's name."""

    RECORDS = ""
    """Records of a batch that break the schema, as they came."""

    LINES = "~lines"
    """Lines of a flush, with or without a stream, as they came."""

    ROWS = "~rows"
    """Rows of a batch that are not what is expected of them, as JSON."""

    SAMPLES = "~samples"
    """Some of the rows for which a load has failed, as JSON: nothing of it was landed."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Writes the bad records of one run.

    Attributes:
        storage: where; its root is the lake's.
        run_id: the run's name.
    """

    storage: Storage
    run_id: str

    def write(
        self,
        records: Iterable[BadRecord],
        sequence: int,
        kind: RejectedKind = RejectedKind.RECORDS,
    ) -> tuple[str, ...]:
        """Write one file for each stream; write before the batch lands, so that none gets lost.

        Args:
            records: bad records of one batch, or bad lines of one flush.
            sequence: the batch's (the flush's) ordinal in the run, from 0. A repeated run finds
                its files.
            kind: what they are.

        Returns:
            The files' URIs.

        Raises:
            DestinationError: the store refused.
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
        try:
            self.storage.put(key, data, create_only=True)
        except ObjectExists:
            if self.storage.get(key) != data:  # left by an attempt whose batch did not land
                self.storage.put(key, data)
        return self.storage.uri(key)


class Rejections:
    """Counts bad records by their reasons, of which a stream has a limited number."""

    def __init__(self) -> None:
        """Begin with none."""
        self._streams: dict[str, Counter[tuple[str, str]]] = {}

    def add(self, records: Iterable[BadRecord]) -> None:
        """Count records."""
        for record in records:
            kinds = self._streams.setdefault(record.stream, Counter())
            kind = record.column, record.reason
            kinds[kind if kind in kinds or len(kinds) < _MOST_KINDS else _OTHERS] += 1

    def most_frequent(self) -> tuple[Rejection, ...]:
        """Return each stream's most frequent reasons, and the sum of the others."""
        found: list[Rejection] = []
        for stream, kinds in self._streams.items():
            named = Counter(kinds)
            others = named.pop(_OTHERS, 0)
            ranked = named.most_common()
            others += sum(count for _, count in ranked[_MOST_REASONS:])
            rest = [(_OTHERS, others)] if others else []
            for (column, reason), count in [*ranked[:_MOST_REASONS], *rest]:
                found.append(Rejection(stream, column, reason, count))
        return tuple(found)


def quarantine_key(
    run_id: str,
    stream: str,
    sequence: int,
    kind: RejectedKind = RejectedKind.RECORDS,
) -> str:
    """Return the key of a quarantine file; no two streams, runs, batches or flushes share one.

    Example:
        >>> quarantine_key("r/1", "orders", 0)
        '_lakeport/quarantine/r%2F1/orders.jsonl'
        >>> quarantine_key("r1", "orders", 2)
        '_lakeport/quarantine/r1/orders-2.jsonl'
        >>> quarantine_key("r1", "", 0, RejectedKind.LINES)
        '_lakeport/quarantine/r1/~lines.jsonl'
    """
    name = _ENDS_LIKE_A_SEQUENCE.sub("%2D", _segment(stream))
    name += kind.value
    suffix = f"-{sequence}" if sequence else ""
    return f"{QUARANTINE}/{_segment(run_id)}/{name}{suffix}.jsonl"


def encode_record(record: BadRecord, run_id: str) -> bytes:
    r"""Encode one bad record as one line of JSON.

    Example:
        >>> encode_record(BadRecord("t", 2, "n", "not a number", b'{"n": "x"}'), "r1")
        b'{"stream": "t", "line": 2, "column": "n", "reason": "not a number", "run_id": "r1", "raw": "{\\"n\\": \\"x\\"}"}\n'
    """  # noqa: E501
    values = {
        "stream": record.stream,
        "line": record.line,
        "column": record.column,
        "reason": record.reason,
        "run_id": run_id,
        **({"file": record.file} if record.file else {}),
    }
    try:
        values["raw"] = record.raw.decode("utf-8")
    except UnicodeDecodeError:
        values["raw_base64"] = base64.b64encode(record.raw).decode("ascii")
    return json.dumps(values).encode("ascii") + b"\n"


def check_limit(bad: int, total: int, limit: float | None) -> None:
    """Raise InputError if a run has more bad records than `max_bad_records` allows.

    Args:
        bad: bad records so far.
        total: all records so far, bad ones included.
        limit: a count when it is an int, a share of `total` when it is a float; None: no limit.

    Raises:
        InputError: there are more.

    Example:
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


def _segment(name: str) -> str:
    """Escape a name as one segment of a key."""
    text = quote(name.encode("utf-8", "surrogatepass"), safe="").replace("~", "%7E")
    if text.startswith((".", "_")):
        text = f"%{ord(text[0]):02X}{text[1:]}"
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 17]}~{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return text
