"""A table as delta-rs reads it: its commits, and every version's rows."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tests.histories.checker import Commit, Content, Row

_KEEPING = {"OPTIMIZE", "VACUUM START", "VACUUM END"}


@dataclass(frozen=True)
class Reader:
    """Reads one table.

    Attributes:
        uri: the table, as delta-rs names it.
        options: what delta-rs needs to open it.
    """

    uri: str
    options: dict[str, str]

    def newest(self) -> int:
        """The newest version."""
        return self._opened().version()

    def commits(self) -> list[Commit]:
        """The log's commits but the one that made the table, oldest first."""
        entries = sorted(self._opened().history(), key=lambda entry: int(entry["version"]))
        return [commit(entry) for entry in entries[1:]]

    def content(self, version: int | None = None) -> tuple[int, Content]:
        """A version, the newest if none is named, and its rows."""
        table = self._opened(version)
        return table.version(), rows(table.to_pyarrow_table())

    def _opened(self, version: int | None = None) -> DeltaTable:
        return DeltaTable(self.uri, version=version, storage_options=self.options)


def rows(table: pa.Table) -> Content:
    """The rows of a version."""
    columns = (table.column(name).to_pylist() for name in Row._fields)
    return Counter(Row(*values) for values in zip(*columns, strict=True))


def commit(entry: dict[str, Any]) -> Commit:
    """A commit, of what the log has in `commitInfo`.

    A commit of lakeport names its step as the run, one of delta-rs by itself, as it does the
    version that it has read.
    """
    version = int(entry["version"])
    ours = json.loads(entry.get("userMetadata") or "{}").get("lakeport", {})
    restored = entry["operation"] == "RESTORE"
    return Commit(
        version,
        step=ours.get("run_id") or entry.get("step", ""),
        read=int(entry.get("read", entry.get("readVersion", version - 1))),
        restored=int(entry["operationParameters"]["version"]) if restored else -1,
        keeps=entry["operation"] in _KEEPING,
    )
