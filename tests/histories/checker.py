"""Whether each version of a table is what a serial order of its commits makes of it. Pure.

The log gives the order, and each commit's intent is applied to the version before. Appends that
read nothing may come later in the serial order than in the log: Delta lets a change commit on top
of those that came after the version it has read (`WriteSerializable`, Delta's default isolation).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple


class Row(NamedTuple):
    """A row: `value` names the step that wrote it, `part` is the partition."""

    key: int
    value: str
    part: str


Content = Counter[Row]
Kind = Literal["append", "merge", "replace", "undo", "keep"]
Said = Literal["landed", "refused", "unknown"]


@dataclass(frozen=True)
class Intent:
    """What a step wants to do: with `rows`, or to the run that it takes back.

    `append` adds rows, `merge` gives rows with the same key another value and adds the others,
    `replace` puts rows in place of all in their partitions, `keep` changes no row.
    """

    kind: Kind
    rows: tuple[Row, ...] = ()
    run: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a writer said of a step, `refused`: it is not there; and of its version, if anything."""

    intent: Intent
    said: Said
    version: int = -1


@dataclass(frozen=True)
class Commit:
    """A commit as the log tells it.

    Attributes:
        version: it made.
        step: that made it; empty where the log does not tell.
        read: the version that it was planned on.
        restored: the version whose content it brought back; -1 for none.
        keeps: its operation never changes rows.
    """

    version: int
    step: str
    read: int
    restored: int = -1
    keeps: bool = False


def anomalies(
    commits: Sequence[Commit], contents: Sequence[Content], outcomes: Mapping[str, Outcome]
) -> list[str]:
    """Everything that no serial order of the commits explains, in words.

    Args:
        commits: version 1 and later.
        contents: each version's rows, from version 0.
        outcomes: by step.
    """
    versions = [commit.version for commit in commits]
    if versions != list(range(1, len(contents))):
        return [f"the log has the versions {versions}, but {len(contents)} can be read"]
    steps = {commit.version: _step(commit, commits, outcomes) for commit in commits}
    told = list(_counted(steps, outcomes))
    for commit in commits:
        outcome = outcomes.get(steps[commit.version])
        if outcome is None and not commit.keeps:
            told.append(f"version {commit.version} is of no step that was begun")
            continue
        intent = Intent("keep") if outcome is None else outcome.intent
        late = [
            outcomes[steps[version]].intent
            for version in range(commit.read + 1, commit.version)
            if steps[version] in outcomes and outcomes[steps[version]].intent.kind == "append"
        ]
        told += _unexplained(commit, intent, late, contents, steps)
    return told


def _step(commit: Commit, commits: Sequence[Commit], outcomes: Mapping[str, Outcome]) -> str:
    """The step that made a commit; of one that restores, the step that undoes the run after."""
    if commit.restored < 0:
        return commit.step
    undone = commits[commit.restored].step  # version 1 comes first
    undoing = (step for step, outcome in outcomes.items() if outcome.intent == _undo(undone))
    return next(undoing, "")


def _undo(run: str) -> Intent:
    return Intent("undo", run=run)


def _counted(steps: Mapping[int, str], outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Steps that are there too often, not at all, or elsewhere than they said."""
    for step, outcome in outcomes.items():
        if outcome.intent.kind == "keep":
            continue
        made = [version for version, name in steps.items() if name == step]
        if len(made) > 1:
            yield f"{step} ({outcome.said}) was committed as {made}"
        elif made and outcome.said == "refused":
            yield f"{step} said that nothing was committed, but made version {made[0]}"
        elif not made and outcome.said == "landed":
            yield f"{step} said that it landed, but made no version"
        elif made and outcome.version not in (-1, made[0]):
            yield f"{step} said version {outcome.version}, but made {made[0]}"


def _unexplained(
    commit: Commit,
    intent: Intent,
    late: Sequence[Intent],
    contents: Sequence[Content],
    steps: Mapping[int, str],
) -> Iterator[str]:
    """Say how a version differs, unless it is the intent's effect before some of the late ones."""
    before, after = contents[commit.version - 1], contents[commit.version]
    undone = next((contents[v - 1 : v + 1] for v, step in steps.items() if step == intent.run), [])
    for chosen in _subsets(late):
        rows = Counter(row for one in chosen for row in one.rows)
        if not rows <= before:
            continue
        base = before - rows
        if intent.kind == "undo" and (not undone or base != undone[1]):
            continue
        if (undone[0] if intent.kind == "undo" else applied(intent, base)) + rows == after:
            return
    if intent.kind == "undo":
        yield f"version {commit.version} takes back more than the run {intent.run}, or not all"
        return
    wanted = applied(intent, before)
    yield (
        f"version {commit.version} ({intent.kind} of {steps[commit.version] or 'no step'}, planned "
        f"on {commit.read}) lacks {_told(wanted - after)} and has besides {_told(after - wanted)}"
    )


def _subsets(intents: Sequence[Intent]) -> Iterator[Iterable[Intent]]:
    for size in range(len(intents) + 1):
        yield from combinations(intents, size)


def applied(intent: Intent, before: Content) -> Content:
    """The content after an `append`, `merge`, `replace` or `keep`."""
    rows = Counter(intent.rows)
    if intent.kind == "append":
        return before + rows
    if intent.kind == "merge":
        coming = {row.key: row for row in intent.rows}
        after = Counter({row: n for row, n in before.items() if row.key not in coming})
        for key, row in coming.items():
            after[row] = max(1, sum(n for old, n in before.items() if old.key == key))
        return after
    if intent.kind == "replace":
        parts = {row.part for row in intent.rows}
        return Counter({row: n for row, n in before.items() if row.part not in parts}) + rows
    return before


def _told(rows: Content) -> str:
    return ", ".join(f"{n} x {row.key}={row.value}" for row, n in rows.items()) or "nothing"
