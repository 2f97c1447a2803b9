"""The reports of runs, kept beside the lake of the file's first target."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeport.errors import LakeportError

if TYPE_CHECKING:
    from lakeport.model import Storage
    from lakeport.pipeline.report import PipelineReport

_FOLDER = "_lakeport/runs"
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Earlier:
    """What an earlier run of a file has left.

    Attributes:
        run_id: its name.
        outcomes: load -> what became of it; `waiting`, too, where the run was killed meanwhile.
        run_ids: load -> the `run_id` that it landed by, of those that had one.
    """

    run_id: str
    outcomes: Mapping[str, str]
    run_ids: Mapping[str, str]


def keep(report: PipelineReport, storage: Storage) -> str:
    """Write a run's report, in place of what was written of it before.

    While the run goes on, the loads' own reports are left out: it is written after each of them.

    Returns:
        Why that was not possible, for the user; empty if it was.
    """
    document = json.dumps(report.to_dict(whole=report.finished is not None))
    try:
        storage.put(f"{_FOLDER}/{report.run_id}{_SUFFIX}", document.encode() + b"\n")
    except LakeportError as error:
        return f"the run's report can't be kept, by which `--resume` would go on: {error.message}"
    return ""


def last_of(file: str, storage: Storage) -> Earlier | None:
    """What the newest run of a file has left; None where none has left anything.

    Raises:
        DestinationError: the store refused.
    """
    for found in _newest_first(storage):
        with suppress(KeyError, TypeError, AttributeError):  # it is no report of ours
            if found["file"] == file:
                loads = found["loads"]
                return Earlier(
                    found["run_id"],
                    {each["load"]: each["outcome"] for each in loads},
                    {each["load"]: each["run_id"] for each in loads if each["run_id"]},
                )
    return None


def last_file(storage: Storage) -> str:
    """The file of the newest run of any; empty where none has left anything.

    Raises:
        DestinationError: the store refused.
    """
    files = (found.get("file") for found in _newest_first(storage) if isinstance(found, dict))
    return next((file for file in files if isinstance(file, str)), "")


def _newest_first(storage: Storage) -> Iterator[dict[str, Any]]:
    # A name begins with the time, and the store lists by name.
    keys = [item.key for item in storage.list(_FOLDER) if item.key.endswith(_SUFFIX)]
    for key in reversed(keys):
        with suppress(ValueError):
            yield json.loads(storage.get(key) or b"")
