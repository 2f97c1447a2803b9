"""What a version did, by the operation that its writer names, or by what it added and removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeport.html.facts import Change
from lakeport.writers.delta.log.history import Version

_OPERATIONS: Mapping[str, Change] = {
    "COPY INTO": Change.APPEND,
    "CONVERT": Change.APPEND,
    "MERGE": Change.MERGE,
    "UPDATE": Change.MERGE,
    "DELETE": Change.DELETE,
    "TRUNCATE": Change.DELETE,
    "OPTIMIZE": Change.OPTIMIZE,
    "REORG": Change.OPTIMIZE,
    "RESTORE": Change.RESTORE,
    "CREATE OR REPLACE TABLE AS SELECT": Change.OVERWRITE,
    "CREATE OR REPLACE TABLE": Change.OVERWRITE,
    "REPLACE TABLE AS SELECT": Change.OVERWRITE,
    "REPLACE TABLE": Change.OVERWRITE,
    "VACUUM START": Change.OTHER,
    "VACUUM END": Change.OTHER,
}
_MODES: Mapping[str, Change] = {
    "append": Change.APPEND,
    "errorifexists": Change.APPEND,
    "ignore": Change.APPEND,
    "overwrite": Change.OVERWRITE,
    "complete": Change.OVERWRITE,
    "update": Change.MERGE,
}


def change_of(version: Version) -> Change:
    """What a version did to the rows before it.

    >>> change_of(Version(0, {"operation": "WRITE", "operationParameters": {"mode": "Append"}}))
    <Change.APPEND: 'append'>
    """
    operation = str(version.info.get("operation") or "").upper()
    if operation in _OPERATIONS:
        return _OPERATIONS[operation]
    if operation in ("WRITE", "STREAMING UPDATE"):
        told: Any = version.info.get("operationParameters")
        parameters = told if isinstance(told, Mapping) else {}
        mode = str(parameters.get("mode") or parameters.get("outputMode") or "").lower()
        if mode in _MODES:
            return _MODES[mode]
    return _by_files(version)


def _by_files(version: Version) -> Change:
    match bool(version.added.files), bool(version.removed.files):
        case True, False:
            return Change.APPEND
        case False, True:
            return Change.DELETE
        case False, False:
            return (
                Change.SCHEMA
                if version.info.get("operation") or version.changes_metadata
                else Change.OTHER
            )
        case _:
            return Change.OTHER
