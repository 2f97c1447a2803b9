"""What a new user sees in the first ten minutes, in terminals of 60 and 120 columns."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.first_ten_minutes.script import STEPS, Step
from tests.screens.kept import FOLDER, WIDTHS, file, played, text, too_wide, warm

_CUT = re.compile(r"[\w.,-]*\d[\w.,-]*(…|\.{3})")  # of a number or an id
_FOREIGN = re.compile(r"\b(None|nan|NaN|NaT)\b|Traceback")


@pytest.fixture(scope="session")
def cache() -> Iterator[Path]:
    with warm() as found:
        yield found


@pytest.fixture(
    scope="session",
    params=[WIDTHS[0], *(pytest.param(w, marks=pytest.mark.soak) for w in WIDTHS[1:])],
)
def outputs(request: pytest.FixtureRequest, cache: Path) -> tuple[int, dict[str, bytes]]:
    """What each step's command wrote in a terminal of so many columns."""
    return request.param, {step.name: output for step, output in played(request.param, cache)}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_the_screen_is_the_one_that_was_reviewed(
    step: Step, outputs: tuple[int, dict[str, bytes]]
) -> None:
    columns, written = outputs
    seen = text(step, written[step.name], columns)
    kept = file(step, columns).read_text("utf-8")
    if seen != kept:
        lines = (each.splitlines() for each in (kept, seen))
        told = "\n".join(difflib.unified_diff(*lines, "kept", "seen", lineterm=""))
        pytest.fail(f"{told}\n\n`python -m tests.screens {step.name}` keeps what is seen now")
    assert not too_wide(written[step.name], columns)
    assert not _CUT.search(seen) and not _FOREIGN.search(seen)


def test_each_screen_that_is_kept_is_one_of_the_script() -> None:
    there = {path.relative_to(FOLDER) for path in FOLDER.rglob("*.txt")}
    assert there == {file(step, width).relative_to(FOLDER) for step in STEPS for width in WIDTHS}
