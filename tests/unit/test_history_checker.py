"""The checker of histories finds each kind of anomaly, and accepts what a serial order explains."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.histories.checker import Commit, Content, Intent, Outcome, Row, Said, anomalies

A1, A2, B1 = Row(1, "a", "p1"), Row(2, "a", "p2"), Row(1, "b", "p1")
C3, D4 = Row(3, "c", "p1"), Row(4, "d", "p2")

OUTCOMES = {
    "a": Outcome(Intent("append", (A1, A2)), "landed", 1),
    "b": Outcome(Intent("merge", (B1,)), "landed", 2),
    "c": Outcome(Intent("replace", (C3,)), "landed", 3),
    "d": Outcome(Intent("append", (D4,)), "unknown"),
    "e": Outcome(Intent("undo", run="d"), "landed", 6),
    "f": Outcome(Intent("append", (Row(6, "f", "p2"),)), "refused"),
    "g": Outcome(Intent("keep"), "landed"),
}
COMMITS = [
    Commit(1, "a", 0),
    Commit(2, "b", 1),
    Commit(3, "c", 2),
    Commit(4, "d", 3),
    Commit(5, "", 4, keeps=True),
    Commit(6, "", 5, restored=3),
]
VERSIONS: list[tuple[Row, ...]] = [(), (A1, A2), (B1, A2), (C3, A2), (C3, A2, D4), (C3, A2, D4)]
VERSIONS.append((C3, A2))


def contents(**versions: tuple[Row, ...]) -> list[Content]:
    """The contents of the history above, with others for some versions: `v3=(...)`."""
    return [
        Counter(versions.get(f"v{number}", rows)) for number, rows in enumerate(VERSIONS, start=0)
    ]


def test_a_history_that_a_serial_order_explains() -> None:
    assert anomalies(COMMITS, contents(), OUTCOMES) == []


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        ({"v2": (A1, A2)}, "lacks 1 x 1=b and has besides 1 x 1=a"),  # the update was lost
        ({"v1": (A1, A1, A2)}, "has besides 1 x 1=a"),  # a row twice
        ({"v2": (A1, B1, A2)}, "has besides 1 x 1=a"),  # old and new
        ({"v1": (A1,)}, "lacks 1 x 2=a"),  # half of a commit
        ({"v3": (B1, C3, A2)}, "has besides 1 x 1=b"),  # a partition that was not replaced
        ({"v3": (C3,)}, "lacks 1 x 2=a"),  # another one that was
        ({"v5": (C3, A2)}, "lacks 1 x 4=d"),  # what keeps rows has lost one
        ({"v6": (C3, A2, D4)}, "takes back more than the run d, or not all"),
        ({"v6": (C3,)}, "takes back more than the run d, or not all"),
    ],
)
def test_contents_that_no_order_explains(versions: dict[str, tuple[Row, ...]], found: str) -> None:
    told = anomalies(COMMITS, contents(**versions), OUTCOMES)
    assert any(found in text for text in told), told


@pytest.mark.parametrize(
    ("step", "said", "version", "found"),
    [
        ("b", "refused", -1, "b said that nothing was committed, but made version 2"),
        ("f", "landed", -1, "f said that it landed, but made no version"),
        ("c", "landed", 2, "c said version 2, but made 3"),
        ("e", "landed", 4, "e said version 4, but made 6"),
        ("e", "refused", -1, "e said that nothing was committed, but made version 6"),
    ],
)
def test_words_that_are_not_true(step: str, said: Said, version: int, found: str) -> None:
    outcomes = {**OUTCOMES, step: replace(OUTCOMES[step], said=said, version=version)}
    assert anomalies(COMMITS, contents(), outcomes) == [found]


def test_a_step_that_landed_twice() -> None:
    commits = [*COMMITS, Commit(7, "a", 6)]
    told = anomalies(commits, [*contents(), Counter((C3, A2, A1, A2))], OUTCOMES)
    assert told == ["a (landed) was committed as [1, 7]"]


def test_commits_of_nobody_and_versions_that_are_missing() -> None:
    stranger = [*COMMITS, Commit(7, "x", 6)]
    told = anomalies(stranger, [*contents(), contents()[-1]], OUTCOMES)
    assert told == ["version 7 is of no step that was begun"]
    assert "the log has the versions" in anomalies(COMMITS[:-1], contents(), OUTCOMES)[0]


def test_what_read_before_an_append_comes_before_it_and_no_further() -> None:
    """`c` replaces p1 on what it read at version 1; the append to p1 at version 2 stays."""
    late = Row(9, "b", "p1")
    outcomes = {**OUTCOMES, "b": Outcome(Intent("append", (late,)), "landed", 2)}
    commits = [COMMITS[0], COMMITS[1], Commit(3, "c", 1)]
    seen = [Counter(rows) for rows in ((), (A1, A2), (A1, A2, late), (C3, A2, late))]
    landed = {step: outcomes[step] for step in "abc"}
    assert anomalies(commits, seen, landed) == []
    knew = [*commits[:2], Commit(3, "c", 2)]
    assert "has besides 1 x 9=b" in anomalies(knew, seen, landed)[0]


def test_an_undo_that_takes_back_another_ones_change() -> None:
    """`e` undoes `d`, but `c` has changed the table in between."""
    outcomes = {
        "a": OUTCOMES["a"],
        "d": OUTCOMES["d"],
        "c": Outcome(Intent("merge", (Row(1, "c", "p1"),)), "landed"),
        "e": Outcome(Intent("undo", run="d"), "landed"),
    }
    commits = [Commit(1, "a", 0), Commit(2, "d", 1), Commit(3, "c", 2), Commit(4, "", 2, 1)]
    changed = (Row(1, "c", "p1"), A2, D4)
    seen = [Counter(rows) for rows in ((), (A1, A2), (A1, A2, D4), changed, (A1, A2))]
    assert anomalies(commits, seen, outcomes) == [
        "version 4 takes back more than the run d, or not all"
    ]
