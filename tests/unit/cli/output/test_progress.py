from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Iterator

import pytest

from lakeport.cli.output import progress
from lakeport.cli.output.console import Console
from lakeport.cli.output.loads import ConsoleLoads
from lakeport.host.activity import Activity, activity, add_progress
from lakeport.loading.progress import Lines, ProgressState
from lakeport.model import Landed


class Screen(io.StringIO):
    """A terminal that remembers what was written."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Condition()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            self._lock.notify_all()
            return super().write(text)

    def wait_for(self, words: str) -> None:
        with self._lock:
            assert self._lock.wait_for(lambda: words in self.getvalue(), 30), self.getvalue()


@pytest.fixture(autouse=True)
def wanted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("LAKEPORT_PROGRESS")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    yield
    progress.end()


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9?]*[a-zA-Z]", "", text)


def test_lines_come_at_intervals_or_rarely_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = [(0.5, 1), (5.4, 1), (5.6, 1), (61.0, 1), (62.0, 2), (119.0, 1), (121.0, 1)]
    drawn = {}
    for rare in (False, True):
        out = io.StringIO()
        lines = Lines(out, rare=rare)
        for now, number in read:
            going = tuple(Activity("reading", f"s{n}", 0.0) for n in range(number))
            lines.draw(ProgressState("landing", 0.0, now, going))
        drawn[rare] = len(out.getvalue().splitlines())
    assert drawn == {False: 5, True: 2}
    monkeypatch.delenv("LAKEPORT_VERBOSE")
    piped, screen = io.StringIO(), Screen()
    assert progress.is_brief(piped, piped)
    assert not progress.is_brief(screen, piped) and not progress.is_brief(piped, screen)


def test_a_terminal_shows_what_goes_on_within_its_columns() -> None:
    screen = Screen()
    output = Console(screen, screen)
    output.begin("landing")
    screen.wait_for("landing ...")
    with activity("reading", "a-stream-with-a-name-that-is-long", total=93_000_000):
        add_progress(31_000_000, rows=1_200_000)
        screen.wait_for("31.0 of 93.0 MB (33%)")
        output.on_landed(Landed("a", "/lake/a", 0, 5, ("f",), 10))
        screen.wait_for("1 batch landed, 5 rows")
    output.close()
    assert all(len(each) < 60 for each in re.split(r"[\r\n]+", _plain(screen.getvalue())))
    assert screen.getvalue().endswith("\x1b[2K")  # nothing is left


def test_a_run_of_loads_shows_a_line_for_each_that_goes_on() -> None:
    screen = Screen()
    output = Console(screen, screen)
    output.begin("running")
    loads = ConsoleLoads(output)
    loads.on_begun("people")
    loads.on_landed("people", Landed("people", "/lake/people", 0, 5, ("f",), 10))
    screen.wait_for("5 rows landed")
    output.close()
    assert re.search(r"people +\d+ s +5 rows landed", _plain(screen.getvalue()))


def test_words_for_good_stand_above_what_goes_on() -> None:
    screen = Screen()
    output = Console(screen, screen)
    output.begin("landing")
    screen.wait_for("landing")
    output.on_warning("careful")
    shown = screen.getvalue()
    before = shown[: shown.index("Warning: careful")]
    assert before.endswith("\x1b[2K")
    assert shown[shown.index("Warning: careful") :].startswith("Warning: careful\n")
    output.close()


@pytest.mark.parametrize(
    "begin",
    [
        lambda: progress.begin_early(["land", "a.csv", "--json"]),
        lambda: progress.begin_early(["land", "--help"]),
        lambda: progress.begin_early(["tables", "-h"]),
        lambda: progress.begin_early(["version"]),
        lambda: progress.begin_early([]),
    ],
)
def test_what_is_quick_or_for_machines_begins_without_a_word(begin: Callable[[], None]) -> None:
    begin()
    assert not any(each.name == "lakeport-progress" for each in threading.enumerate())


@pytest.mark.parametrize("command", ["land", "plan", "check", "table", "tables", "runs"])
def test_what_may_ask_a_store_begins_with_a_word(command: str) -> None:
    progress.begin_early([command, "s3://bucket/raw"])
    assert any(each.name == "lakeport-progress" for each in threading.enumerate())


def test_a_result_that_is_piped_leaves_the_words_to_standard_error() -> None:
    out, err = io.StringIO(), Screen()
    progress.begin("landing", out, err)
    err.wait_for("landing ...")
    progress.end()
    assert out.getvalue() == ""


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen()
    progress.begin("landing", screen, screen)
    screen.wait_for("landing ...")
    progress.end()
    assert screen.getvalue() == "landing ...\n"
