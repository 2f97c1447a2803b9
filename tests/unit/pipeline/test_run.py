"""A run of a lake's file: order, failures, what is left out, and what is kept of it."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeport.config.sources import FilesSource
from lakeport.errors import ConfigError, LoadsFailed, SchemaConflict, SourceError
from lakeport.loading.cancellation import Cancellation, EndRequested
from lakeport.pipeline.run import run_lake as run
from tests.unit.pipeline.kit import Lander, failing, lake_of, load_of

WAIT = 60.0  # seconds that a test waits at most for what happens at once


def kept(folder: Path) -> list[dict[str, Any]]:
    """The reports of runs, oldest first."""
    paths = sorted((folder / "lake" / "_lakeport" / "runs").glob("*.json"))
    return [json.loads(path.read_text()) for path in paths]


def outcomes(report: Any) -> dict[str, str]:
    return {load.load: load.outcome for load in report.loads}


def test_a_load_begins_when_those_that_it_uses_have_ended(tmp_path: Path, lander: Lander) -> None:
    lake = lake_of(tmp_path, late={"depends": ["mid"]}, mid={"depends": ["early"]}, early={})
    report = run(lake)
    assert lander.names == ["early", "mid", "late"]
    assert report.ok
    assert report.rows == 3
    assert outcomes(report) == dict.fromkeys(("late", "mid", "early"), "landed")


def test_loads_run_side_by_side(tmp_path: Path, lander: Lander) -> None:
    both = threading.Barrier(2)
    lander.steps = dict.fromkeys("ab", lambda _: both.wait(WAIT))
    assert run(lake_of(tmp_path, a={}, b={}), parallel=2).ok


def test_no_more_run_at_once_than_is_said(tmp_path: Path, lander: Lander) -> None:
    lake = lake_of(tmp_path, **{name: {} for name in "abcde"})
    run(lake, parallel=1)
    assert lander.most == 1
    assert lander.names == list("abcde")


@pytest.mark.parametrize("parallel", [0, -1])
def test_at_least_one_load_runs(tmp_path: Path, lander: Lander, parallel: int) -> None:
    with pytest.raises(ConfigError, match="`parallel`"):
        run(lake_of(tmp_path, a={}), parallel=parallel)


def test_one_that_fails_stops_only_those_that_need_it(tmp_path: Path, lander: Lander) -> None:
    lander.steps["bad"] = failing(SourceError("no such file", "name one."))
    lake = lake_of(tmp_path, bad={}, user={"depends": ["bad"]}, other={})
    with pytest.raises(LoadsFailed) as caught:
        run(lake, parallel=1)
    report = caught.value.report
    assert outcomes(report) == {"bad": "failed", "user": "skipped", "other": "landed"}
    assert report["user"].reason == "needs bad, which failed"
    assert report["bad"].error is not None
    assert report["bad"].error.hint == "name one."
    assert caught.value.message == "load 'bad' failed: no such file"
    assert caught.value.hint.startswith("name one. `--resume`")
    assert isinstance(caught.value.__cause__, SourceError)
    assert not report.ok


@pytest.mark.parametrize(
    ("second", "code"), [(SourceError("gone"), 3), (SchemaConflict("no"), 1), (OSError(5, "io"), 1)]
)
def test_the_exit_code_is_the_failed_loads(
    tmp_path: Path, lander: Lander, second: Exception, code: int
) -> None:
    lander.steps = {"a": failing(SourceError("gone")), "b": failing(second)}
    with pytest.raises(LoadsFailed, match="2 of 3 loads failed") as caught:
        run(lake_of(tmp_path, a={}, b={}, c={}, not_asked_for={}), only="abc")
    assert caught.value.exit_code == code
    assert "\n  - a: gone" in caught.value.message


def test_a_secret_of_a_target_is_in_no_report(tmp_path: Path, lander: Lander) -> None:
    lander.steps["a"] = failing(SourceError("refused sesame-open"))
    lake = lake_of(tmp_path, a={})
    secrets = type(lake.loads["a"].target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "secrets", lambda self: ("sesame-open",))
        with pytest.raises(LoadsFailed) as caught:
            run(lake)
    assert "sesame-open" not in str(caught.value)
    assert "sesame-open" not in json.dumps(kept(tmp_path))


def test_only_the_named_ones_run_not_what_they_use(tmp_path: Path, lander: Lander) -> None:
    lake = lake_of(tmp_path, a={}, b={"depends": ["a"]}, c={})
    report = run(lake, only=["b"])
    assert lander.names == ["b"]
    assert outcomes(report) == {"a": "left out", "b": "landed", "c": "left out"}
    assert report.ok


def test_a_tag_chooses(tmp_path: Path, lander: Lander) -> None:
    lake = lake_of(tmp_path, a={"tags": ["nightly"]}, b={}, c={"tags": ["nightly", "x"]})
    run(lake, tag="nightly", parallel=1)
    assert lander.names == ["a", "c"]
    with pytest.raises(ConfigError, match="no load has the tag 'weekly'") as caught:
        run(lake, tag="weekly")
    assert caught.value.hint == "there are: nightly, x."


@pytest.mark.parametrize("given", [{"only": ["flihgts"]}, {"full_refresh": ["flihgts"]}])
def test_an_unknown_name_is_told_with_the_nearest(
    tmp_path: Path, lander: Lander, given: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="did you mean `flights`"):
        run(lake_of(tmp_path, flights={}), **given)
    assert lander.calls == []
    assert kept(tmp_path) == []


def test_a_full_refresh_is_that_of_the_named_ones(tmp_path: Path, lander: Lander) -> None:
    run(lake_of(tmp_path, a={}, b={}), full_refresh=["b"])
    assert {name: given.get("full_refresh", False) for name, given in lander.calls} == {
        "a": False,
        "b": True,
    }


def test_a_run_id_where_rows_could_land_twice(tmp_path: Path, lander: Lander) -> None:
    new = FilesSource(files="in/*.csv", new_only=True)
    lake = lake_of(
        tmp_path,
        plain={},
        new={"source": new},
        whole={"mode": "overwrite"},
        merged={"mode": "merge", "merge_keys": ["id"]},
        own={"run_id": "mine"},
    )
    report = run(lake)
    ids = {name: given["run_id"] for name, given in lander.calls}
    assert ids == {
        "plain": f"{report.run_id}/plain",
        "new": None,
        "whole": None,
        "merged": None,
        "own": "mine",
    }


def test_the_report_lies_beside_the_lake(tmp_path: Path, lander: Lander) -> None:
    seen: list[Any] = []
    lander.steps["b"] = lambda _: seen.extend(kept(tmp_path))
    report = run(lake_of(tmp_path, a={}, b={"depends": ["a"]}))
    (meanwhile,) = seen  # while `b` runs
    assert meanwhile["finished"] is None
    assert [load["outcome"] for load in meanwhile["loads"]] == ["landed", "waiting"]
    (end,) = kept(tmp_path)
    assert end == report.to_dict()
    assert end["loads"][0]["report"]["rows"] == 1
    assert end["file"] == str(tmp_path / "lake.yaml")


def test_resume_does_what_was_left_undone(tmp_path: Path, lander: Lander) -> None:
    lander.steps["bad"] = failing(SourceError("gone"))
    lake = lake_of(tmp_path, good={}, bad={}, user={"depends": ["bad"]})
    with pytest.raises(LoadsFailed) as caught:
        run(lake)
    first = caught.value.report
    lander.steps, lander.calls = {}, []
    second = run(lake, resume=True)
    assert lander.names == ["bad", "user"]
    assert second.resumes == first.run_id
    assert outcomes(second) == {"good": "left out", "bad": "landed", "user": "landed"}
    ids = [given["run_id"] for _, given in lander.calls]
    assert ids == [f"{first.run_id}/bad", f"{first.run_id}/user"]
    lander.calls = []
    third = run(lake, resume=True)
    assert lander.calls == []
    assert third.ok
    assert third.resumes == second.run_id
    assert len(kept(tmp_path)) == 2


def test_resume_does_what_is_new_in_the_file(tmp_path: Path, lander: Lander) -> None:
    run(lake_of(tmp_path, a={}))
    run(lake_of(tmp_path, a={}, b={}), resume=True)
    assert lander.names == ["a", "b"]


def test_resume_goes_on_with_the_same_files_run(tmp_path: Path, lander: Lander) -> None:
    run(lake_of(tmp_path, a={}))
    renamed = replace(lake_of(tmp_path, a={}), path=tmp_path / "b.yaml")
    with pytest.raises(ConfigError, match=r"no run of .*b.yaml has left a report in .*lake"):
        run(renamed, resume=True)


def test_a_first_run_resumes_nothing_and_does_all(tmp_path: Path, lander: Lander) -> None:
    report = run(lake_of(tmp_path, a={}, b={}), resume=True)
    assert outcomes(report) == {"a": "landed", "b": "landed"}
    assert report.resumes == ""
    (warning,) = report.warnings
    assert warning.startswith("`resume`: no run has left a report")
    assert run(lake_of(tmp_path, a={}, b={}), resume=True).resumes == report.run_id


def test_nothing_is_kept_without_manifests(tmp_path: Path, lander: Lander) -> None:
    lake = lake_of(tmp_path, a={"manifest": False})
    assert run(lake).ok
    assert kept(tmp_path) == []
    with pytest.raises(ConfigError, match="has left a report to go on with"):
        run(lake, resume=True)


def test_a_report_that_cannot_be_kept_is_a_warning(tmp_path: Path, lander: Lander) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "_lakeport").write_text("in the way")
    report = run(lake_of(tmp_path, a={}))
    assert report.ok
    assert len(report.warnings) == 1
    assert report.warnings[0].startswith("the run's report can't be kept")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What starts pytest may have it ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_all_that_run(tmp_path: Path, lander: Lander) -> None:
    both = threading.Barrier(2)

    def until_asked(given: Any) -> None:
        if both.wait(WAIT) == 0:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        while True:
            Cancellation.of_this_thread().check()
            threading.Event().wait(0.01)

    lander.steps = {"a": until_asked, "b": until_asked}
    lake = lake_of(tmp_path, a={}, b={}, queued={}, user={"depends": ["a"]})
    with pytest.raises(KeyboardInterrupt):
        run(lake, parallel=2)
    (report,) = kept(tmp_path)
    ends = {load["load"]: load["outcome"] for load in report["loads"]}
    assert ends == {"a": "interrupted", "b": "interrupted", "queued": "waiting", "user": "waiting"}
    assert report["finished"] is not None
    assert not report["ok"]
    lander.steps, lander.calls = {}, []
    assert run(lake, resume=True, parallel=1).ok
    assert lander.names == ["a", "b", "queued", "user"]


def test_a_function_is_that_beside_the_file(
    tmp_path: Path, lander: Lander, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, folder in enumerate(("elsewhere", ".")):
        (tmp_path / folder).mkdir(exist_ok=True)
        words = f"def f(frame):\n    return {number}\n"
        (tmp_path / folder / "beside_the_file.py").write_text(words)
    monkeypatch.chdir(tmp_path / "elsewhere")
    lake = lake_of(tmp_path, a={})
    load = replace(lake.loads["a"], python="beside_the_file:f", folder=str(tmp_path))
    assert run(replace(lake, loads={"a": load})).ok
    assert lander.calls[0][1]["python"](None) == 1


def test_loads_that_share_a_table_do_not_run_at_once(tmp_path: Path, lander: Lander) -> None:
    loads = {name: load_of(name, tmp_path / "lake", table="shared") for name in "abc"}
    lake = replace(lake_of(tmp_path, a={}), loads=loads)
    assert run(lake, parallel=3).ok
    assert lander.most == 1


def test_a_full_refresh_never_takes_the_rows_of_another_load(
    tmp_path: Path, lander: Lander
) -> None:
    loads = {name: load_of(name, tmp_path / "lake", table="shared") for name in "ab"}
    lake = replace(lake_of(tmp_path, a={}), loads=loads)
    with pytest.raises(ConfigError, match="in which 'b' landed, too"):
        run(lake, only=["a"], full_refresh=["a"])
    assert lander.calls == []


def test_another_thread_ends_a_run(tmp_path: Path, lander: Lander) -> None:
    stop = Cancellation()

    def end(_: Any) -> None:
        stop.request_end()
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            Cancellation.of_this_thread().check()
            time.sleep(0.01)

    lander.steps["a"] = end
    with stop.activate(), pytest.raises(EndRequested):
        run(lake_of(tmp_path, a={}, b={"depends": ["a"]}))
    (report,) = kept(tmp_path)
    assert [load["outcome"] for load in report["loads"]] == ["interrupted", "waiting"]


def test_a_run_with_a_name_gives_it_to_its_loads(tmp_path: Path, lander: Lander) -> None:
    lake = lake_of(tmp_path, a={}, b={"mode": "overwrite"}, c={"run_id": "own"})
    reports = [run(lake, run_id="friday") for _ in range(2)]
    assert [report.run_id for report in reports] == ["friday"] * 2
    ids = [load.run_id for load in reports[0].loads]
    assert ids == ["friday/a", None, "own"]
    assert len(kept(tmp_path)) == 2  # each has a report of its own
