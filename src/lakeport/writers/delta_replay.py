"""What a Delta table holds at a version, from its log files alone: no Spark, for looking only.

Whatever is committed is decided on delta-spark's own view of the log, never on this one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakeport.model import Storage, StoredObject
from lakeport.writers.delta_state import TableState

__all__ = ["Contents", "LogFiles", "replay"]

_LOG_FILE = re.compile(
    r"/_delta_log/(\d{20})(?:\.(json)|\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet)$"
)
_CHECKPOINT_COLUMNS = ("add", "metaData", "protocol")


@dataclass(frozen=True, slots=True)
class Contents:
    """A table at one version.

    Attributes:
        state: version, schema, properties and protocol.
        files: the `add` actions of its data files.
    """

    state: TableState
    files: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of a table's log.

    Attributes:
        commits: version -> its commit file.
        checkpoints: version -> the files of a classic checkpoint, complete ones only.
    """

    commits: Mapping[int, StoredObject]
    checkpoints: Mapping[int, tuple[StoredObject, ...]]

    @classmethod
    def of(cls, storage: Storage, folder: str) -> LogFiles:
        """List a table's log; both mappings are empty when there is no table.

        Raises:
            DestinationError: the store refused.
        """
        commits: dict[int, StoredObject] = {}
        parts: dict[int, dict[int, StoredObject]] = {}
        expected: dict[int, int] = {}
        for item in storage.list(f"{folder}/_delta_log" if folder else "_delta_log"):
            match = _LOG_FILE.search(f"/{item.key}")
            if match is None:
                continue
            version = int(match[1])
            if match[2]:
                commits[version] = item
            else:
                parts.setdefault(version, {})[int(match[3] or 1)] = item
                expected[version] = int(match[4] or 1)
        whole = {
            version: tuple(found.values())
            for version, found in parts.items()
            if len(found) == expected[version]
        }
        return cls(dict(sorted(commits.items())), whole)

    @property
    def newest(self) -> int:
        """The newest version, -1 when there is no table."""
        return max((*self.commits, *self.checkpoints), default=-1)

    def at(self, moment: float) -> int:
        """The newest version that was committed by then, in seconds since 1970; -1 for none."""
        return max((v for v, item in self.commits.items() if item.modified <= moment), default=-1)


def replay(storage: Storage, log: LogFiles, version: int) -> Contents | None:
    """Read a table's contents at a version.

    Returns:
        None when the files that are there do not tell, such as with checkpoints of newer kinds.

    Raises:
        DestinationError: the store refused.
    """
    start = max((v for v in log.checkpoints if v <= version), default=-1)
    wanted = range(start + 1, version + 1)
    if any(number not in log.commits for number in wanted):
        return None
    files: dict[str, Mapping[str, Any]] = {}
    last: dict[str, Mapping[str, Any]] = {}
    for item in log.checkpoints.get(start, ()):
        _apply(_checkpoint(storage, item.key), files, last)
    for number in wanted:
        data = storage.get(log.commits[number].key) or b""
        _apply((json.loads(line) for line in data.splitlines() if line.strip()), files, last)
    if "metaData" not in last or "protocol" not in last:
        return None
    state = TableState(version, last["metaData"], last["protocol"])
    return Contents(state, tuple(files.values()))


def _apply(
    actions: Iterable[Mapping[str, Any]],
    files: dict[str, Mapping[str, Any]],
    last: dict[str, Mapping[str, Any]],
) -> None:
    for action in actions:
        for kind, body in action.items():
            if body is None:
                continue
            if kind == "add":
                files[body["path"]] = body
            elif kind == "remove":
                files.pop(body["path"], None)
            elif kind in ("metaData", "protocol"):
                last[kind] = body


def _checkpoint(storage: Storage, key: str) -> list[Mapping[str, Any]]:
    import pyarrow.parquet as pq

    with storage.open(key) as file:
        table = pq.read_table(file, columns=list(_CHECKPOINT_COLUMNS))
    rows: list[Mapping[str, Any]] = table.to_pylist(maps_as_pydicts="strict")
    return rows
