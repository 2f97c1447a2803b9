"""Whether what a store holds is what was promised: read by delta-rs and pyarrow, never by lakeport.

Each check returns what is wrong, in words; nothing wrong is an empty list.
"""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.errors import LakeportError
from tests.faults.requests.operations import (
    BATCH,
    RIVAL,
    TABLE,
    Contents,
    Operation,
    Said,
    contents_of,
)
from tests.faults.requests.sites import Place

_COLUMNS = ("id", "name", "day")


def seen(place: Place, operation: Operation) -> list[Contents]:
    """What each version holds, oldest first; of files, what is there.

    Raises:
        Exception: a version can't be read.
    """
    files = place.target.files
    keys = [key.removeprefix(f"{TABLE}/") for key in files.keys() if key.startswith(f"{TABLE}/")]  # noqa: SIM118
    if place.target.format != "delta":
        return [_contents(pq.read_table(io.BytesIO(files.read(f"{TABLE}/{k}"))) for k in keys)]
    numbers = sorted(
        int(key[len("_delta_log/") : -len(".json")])
        for key in keys
        if key.startswith("_delta_log/") and key.endswith(".json") and key[11:-5].isdigit()
    )
    if numbers != list(range(len(numbers))):
        raise AssertionError(f"the log has versions {numbers}")
    found = []
    for number in numbers[-1:] if operation.forgets else numbers:
        table = place.target.delta(TABLE)
        table.load_as_version(number)
        found.append(_contents([table.to_pyarrow_table()]))
    return found


def _contents(tables: Any) -> Contents:
    return contents_of(
        tuple(row[name] for name in _COLUMNS)
        for table in tables
        for row in pa.table(table).select(_COLUMNS).to_pylist()
    )


def judge(place: Place, operation: Operation, began: int) -> tuple[int, list[str]]:
    """Look at every version.

    Args:
        place: where.
        operation: what was done.
        began: how many versions there were before.

    Returns:
        How far the operation has come, as an index of its contents, and what is wrong.
    """
    try:
        versions = seen(place, operation) or [contents_of(())]
    except Exception as error:
        return 0, [f"unreadable: {type(error).__name__}: {str(error)[:300]}"]
    since = versions[max(0, began - 1) :] if not operation.forgets else versions
    rivals = [version.pop(RIVAL, 0) for version in since]
    if rivals != sorted(rivals) or rivals[-1] != len(place.rivals):
        return 0, [f"another writer's {len(place.rivals)} rows are in the versions {rivals} times"]
    for version in since:
        if version not in operation.contents:
            return 0, [f"contents that nobody may see: {_told(version)}"]
    steps = [operation.contents.index(version) for version in since]
    return steps[-1], ["contents went back"] if steps != sorted(steps) else []


def _told(contents: Contents) -> str:
    twice = sum(1 for count in contents.values() if count > 1)
    ids = sorted(row[0] for row in contents)
    span = f"ids {ids[0]} to {ids[-1]}" if ids else "no ids"
    return f"{contents.total()} rows, {twice} of them more than once, {span}"


def told(
    operation: Operation,
    said: Said,
    step: int,
    started: int,
    before: Said | None,
    *,
    repeatable: bool,
) -> list[str]:
    """What is untrue of what an operation said.

    Args:
        operation: it.
        said: its words.
        step: how far it has come, as `judge` found.
        started: how far it had come before.
        before: what the run said that this one repeats; what that did not tell may be told now.
        repeatable: it has a run id, so that a failure need not tell what has landed.
    """
    last = len(operation.contents) - 1
    per_step = operation.rows // max(1, last)
    wrong = []
    if said.states and max(said.states) > step * BATCH:
        wrong.append(f"STATE claims {max(said.states)} rows at content {step}")
    if said.error is None:
        there = per_step * (step - started)
        untold = 0 if before is None else per_step * started - max(0, before.rows)
        if step < last:
            wrong.append(f"it said that all is well, and content {step} of {last} is there")
        # A stream that finds nothing new tells of no rows.
        elif operation.rows >= 0 and not there <= max(0, said.rows) <= there + untold:
            wrong.append(f"it said {said.rows} rows, and it landed {there}")
        return wrong
    words = str(said.error).replace("\n", " ")[:300]
    if not isinstance(said.error, LakeportError):
        wrong.append(f"no error of ours: {type(said.error).__name__}: {words}")
    elif operation.rows >= 0 and said.rows >= 0:  # who was killed has told nothing
        known = said.rows // per_step + started
        denied = "nothing of this batch was committed" in words
        open_ = said.unknown or (repeatable and not denied)
        if step not in ({known, known + 1} if open_ else {known}):
            wrong.append(f"it told of content {known}, and {step} is there; it said: {words}")
    return wrong
