"""What the quarantine files of a lake hold, read line by line."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Unpack
from urllib.parse import unquote

from lakeport.config.load import load_target
from lakeport.destinations import open_storage
from lakeport.loading.quarantine import QUARANTINE, Of, Rejection
from lakeport.writers.naming import table_name

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import StoreKeys, Target
    from lakeport.model import Storage

KEPT: Final = frozenset(Of) - {Of.SAMPLES}
"""What holds records that were set aside."""

_ENDINGS: Final = (Of.LINES, Of.ROWS, Of.SAMPLES)


@dataclass(frozen=True, slots=True)
class SetAside:
    """What a run has set aside of one stream.

    Attributes:
        run_id: the run.
        stream: the stream's name; empty for lines that are of none.
        table: the name of its table.
        records: how many; samples of rows for which a load has failed are not among them.
        samples: how many rows were kept as samples of a load that has failed.
        reasons: why, the most frequent first.
        files: URIs of the files.
        expectations: the names of those that rows among the records did not meet.
        rows: how many of the records are such rows; the others are as the source had them, before
            `sql`.
    """

    run_id: str
    stream: str
    table: str
    records: int
    samples: int
    reasons: tuple[Rejection, ...]
    files: tuple[str, ...]
    expectations: tuple[str, ...] = ()
    rows: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            **asdict(self),
            "reasons": [asdict(reason) for reason in self.reasons],
            "files": list(self.files),
            "expectations": list(self.expectations),
        }


def quarantined(
    to: Target | DestinationConfig,
    table: str = "",
    *,
    run: str = "",
    **keys: Unpack[StoreKeys],
) -> tuple[SetAside, ...]:
    """Tell what was set aside, by runs and streams; every quarantine file is read.

    Args:
        to: a folder, a URI, a config file, or the config itself.
        table: of this table alone, by its name or its stream's.
        run: of this run alone.
        keys: keys of the config, which win over those in `to`.

    Raises:
        LakeportError: the store can't be read.
    """
    config = load_target(to, keys)
    return set_aside(config, open_storage(config), table, run)


def set_aside(
    config: DestinationConfig, storage: Storage, table: str, run: str
) -> tuple[SetAside, ...]:
    """See `quarantined`."""
    found: dict[tuple[str, str], list[tuple[str, Of]]] = {}
    for key, run_id, of in _files(storage, run):
        for stream in {record["stream"] for record in _lines(storage, key)}:
            if not table or table in _names(config, stream):
                found.setdefault((run_id, stream), []).append((key, of))
    return tuple(
        _told(config, storage, run_id, stream, files)
        for (run_id, stream), files in sorted(found.items())
    )


def records(storage: Storage, found: SetAside, kinds: Collection[Of] = KEPT) -> Iterator[bytes]:
    """The records of a run and stream as they came, one after the other; no samples."""
    for uri in found.files:
        key = uri.removeprefix(f"{storage.uri().rstrip('/')}/")
        if _kind(key) in kinds:
            for line in _lines(storage, key):
                if line["stream"] == found.stream:
                    yield _raw(line)


def _told(
    config: DestinationConfig,
    storage: Storage,
    run_id: str,
    stream: str,
    files: list[tuple[str, Of]],
) -> SetAside:
    reasons, samples, rows = Counter[tuple[str, str]](), 0, 0
    expectations: dict[str, None] = {}
    for key, of in files:
        for line in _lines(storage, key):
            if line["stream"] != stream:
                continue
            samples += of is Of.SAMPLES
            reason = str(line.get("reason", ""))
            if of is not Of.SAMPLES:
                reasons[str(line.get("column", "")), reason] += 1
            if of is Of.ROWS:
                rows += 1
                expectations[reason] = None
    told = [Rejection(stream, *kind, count) for kind, count in reasons.most_common()]
    uris = tuple(storage.uri(key) for key, _ in files)
    table = table_name(config.table_pattern, stream) if stream else ""
    sums = reasons.total(), samples
    return SetAside(run_id, stream, table, *sums, tuple(told), uris, tuple(expectations), rows)


def _names(config: DestinationConfig, stream: str) -> set[str]:
    return {stream, table_name(config.table_pattern, stream)} if stream else set()


def _files(storage: Storage, run: str) -> Iterator[tuple[str, str, Of]]:
    """Quarantine files with their runs, and what each holds."""
    for stored in storage.list(QUARANTINE):
        parts = stored.key.removeprefix(f"{QUARANTINE}/").split("/")
        if len(parts) != 2 or not parts[1].endswith(".jsonl"):
            continue
        first = next(_lines(storage, stored.key), {})
        run_id = str(first.get("run_id") or unquote(parts[0]))
        if not run or run == run_id:
            yield stored.key, run_id, _kind(stored.key)


def _kind(key: str) -> Of:
    name = key.rpartition("/")[2].removesuffix(".jsonl")
    base = name.rpartition("-")[0] if name.rpartition("-")[2].isdecimal() else name
    return next((of for of in _ENDINGS if base.endswith(of.value)), Of.RECORDS)


def _lines(storage: Storage, key: str) -> Iterator[dict[str, Any]]:
    """The lines of a quarantine file; what is none of ours is passed over."""
    with storage.open(key) as file:
        for line in file:
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and isinstance(found.get("stream"), str):
                yield found


def _raw(line: dict[str, Any]) -> bytes:
    if "raw" in line:
        return str(line["raw"]).encode("utf-8", "surrogatepass")
    return base64.b64decode(str(line.get("raw_base64", "")))
