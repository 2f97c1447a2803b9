"""What the commits of a Delta table did between two versions, from its log alone.

Source: Delta's protocol, actions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from lakeport.errors import SourceError
from lakeport.model import Storage

_LOG: Final = "_delta_log"
_READERS: Final = 8
_HINT: Final = (
    "land the whole table anew, with a full refresh; loads that are to go on from a version have "
    "to come before the table's log is cleaned."
)


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to a table's rows.

    Attributes:
        added: the `add` actions of files with new rows, as their log has them.
        moved_files: those of them whose rows were moved into other files since.
        rewritten: the first version that removed or changed rows; None where none did.
        operation: what that one was, such as `MERGE`.
    """

    added: tuple[str, ...] = ()
    moved_files: tuple[str, ...] = ()
    rewritten: int | None = None
    operation: str = ""


def changes_between(storage: Storage, after: int, last: int) -> Changes:
    """What the commits behind `after` did, up to `last`.

    Args:
        storage: rooted at the table's folder.
        after: a version.
        last: a version, not before `after`.

    Raises:
        SourceError: the log does not have one of the commits any more.
        DestinationError: the store refused.
    """
    added: dict[str, str] = {}
    moved: list[str] = []
    versions = range(after + 1, last + 1)
    with ThreadPoolExecutor(_READERS, "lakeport-log") as executor:
        texts = executor.map(storage.get, map(_key, versions))
        for version, text in zip(versions, texts, strict=True):
            if text is None:
                raise SourceError(
                    f"the log of {storage.uri()} does not have version {version} any more, and "
                    f"version {after} was the last one that was landed",
                    _HINT,
                )
            commit = list(_actions(text))
            if any(kind == "remove" and action["dataChange"] for kind, action, _ in commit):
                return Changes(rewritten=version, operation=_operation(commit))
            moved += (action["path"] for kind, action, _ in commit if kind == "remove")
            new = (one for one in commit if one[0] == "add" and one[1]["dataChange"])
            added.update((action["path"], line) for _, action, line in new)
    gone = [path for path in moved if path in added]
    return Changes(tuple(added.values()), tuple(map(unquote, gone)))


def _key(version: int) -> str:
    return f"{_LOG}/{version:020d}.json"


def _actions(text: bytes) -> Iterator[tuple[str, Any, str]]:
    """Kind, content and text of each action."""
    for line in text.decode().splitlines():
        if line.strip():
            ((kind, action),) = json.loads(line).items()
            yield kind, action, line


def _operation(commit: Sequence[tuple[str, Any, str]]) -> str:
    found = (str(action.get("operation", "")) for kind, action, _ in commit if kind == "commitInfo")
    return next(found, "")
