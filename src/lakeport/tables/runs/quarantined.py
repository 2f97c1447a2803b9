"""Samples of the bad records that a run has set aside, from its quarantine files.

A report is data: whoever may write beside the lake may have put any path into it. Only quarantine
files of the lake's own store are read.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from lakeport.errors import LakeportError
from lakeport.html.facts import BadSample
from lakeport.html.text import cut

if TYPE_CHECKING:
    from lakeport.model import Storage

_FOLDER = "_lakeport/quarantine"
_FILES = 32
_BYTES = 256 << 10
_CHARACTERS = 500
_THREADS = 8


def samples(storage: Storage, report: Mapping[str, Any], limit: int = 50) -> list[BadSample]:
    """Bad records of a run, of each reason as many as there is room for.

    Reads the beginnings of at most 32 files. One that is damaged, gone or can't be read gives
    nothing.

    Args:
        storage: the lake's.
        report: the run's, as `LandingReport.to_dict` gave it.
        limit: how many at most.

    Returns:
        They, by stream, column and reason.
    """
    uris = report.get("quarantine")
    found = dict.fromkeys(_key(storage, uri) for uri in uris) if isinstance(uris, list) else {}
    keys = [key for key in found if key][:_FILES]
    with ThreadPoolExecutor(_THREADS) as pool:
        read = list(pool.map(lambda key: _head(storage, key), keys))
    seen: Counter[tuple[str, str, str]] = Counter()
    ranked: list[tuple[int, BadSample]] = []
    for sample in (sample for head in read for sample in _samples(head)):
        ranked.append((seen[_kind(sample)], sample))
        seen[_kind(sample)] += 1
    ranked.sort(key=lambda one: one[0])  # the first of each kind, then the second ones
    return sorted((sample for _, sample in ranked[:limit]), key=_kind)


def _kind(sample: BadSample) -> tuple[str, str, str]:
    return sample.stream, sample.column, sample.reason


def _key(storage: Storage, uri: object) -> str:
    """The key of a quarantine file; empty for what is none of this store."""
    start = f"{storage.uri().rstrip('/')}/"
    if not isinstance(uri, str) or not uri.startswith(start):
        return ""
    key = uri.removeprefix(start)
    apart = any(part in ("", ".", "..") for part in key.split("/"))
    inside = key.startswith(f"{_FOLDER}/") and key.endswith(".jsonl") and not apart
    return key if inside else ""


def _head(storage: Storage, key: str) -> bytes:
    """The first whole lines of a file."""
    try:
        with storage.open(key) as file:
            head = file.read(_BYTES)
    except (LakeportError, OSError):
        return b""
    return head if len(head) < _BYTES else head[: head.rfind(b"\n") + 1]


def _samples(head: bytes) -> Iterator[BadSample]:
    for line in head.splitlines():
        sample = _sample(line)
        if sample is not None:
            yield sample


def _sample(line: bytes) -> BadSample | None:
    """What a line of a quarantine file tells; None for one that is none."""
    try:
        values = json.loads(line)
        raw = values.get("raw")
        if raw is None:
            raw = base64.b64decode(values["raw_base64"]).decode("utf-8", "backslashreplace")
        number, file = int(values["line"]), str(values.get("file", ""))
        place = [file, f"line {number}"] if number else [file]
        return BadSample(
            stream=str(values["stream"]),
            column=str(values["column"]),
            reason=str(values["reason"]),
            where=", ".join(filter(None, place)),
            record=cut(str(raw), _CHARACTERS),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
