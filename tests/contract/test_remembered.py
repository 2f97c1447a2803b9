"""What tables remember of their sources: it changes with the rows, or not at all."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport.errors import CommitConflict, ConfigError, LakeportError, SourceError
from lakeport.sources.tap import TapBookmarks, compose_state
from lakeport.writers.files.writer import FilesWriter
from tests.contract.targets import Target

TAP = """
import json, sys
told, numbers, fails = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "fails"
state = json.load(open(sys.argv[sys.argv.index("--state") + 1])) if "--state" in sys.argv else {}
open(told, "a").write(json.dumps(state) + "\\n")
marks = dict(state.get("bookmarks", {}))
def say(message): print(json.dumps(message), flush=True)
for stream in ("users", "orders"):
    say({"type": "SCHEMA", "stream": stream, "key_properties": ["id"],
         "schema": {"properties": {"id": {"type": "integer"}}}})
for number in range(numbers):
    for stream in ("users", "orders"):
        if number > marks.get(stream, -1):
            say({"type": "RECORD", "stream": stream, "record": {"id": number}})
            marks[stream] = number
    say({"type": "STATE", "value": {"bookmarks": dict(marks)}})
if fails:
    print("the service hung up", file=sys.stderr)
    sys.exit(7)
"""
Run = Callable[..., lakeport.LandingReport]


@pytest.fixture
def tap(target: Target, tmp_path: Path) -> Run:
    program = tmp_path / "tap.py"
    program.write_text(TAP)

    def run(numbers: int, *, fails: bool = False, **keys: Any) -> lakeport.LandingReport:
        told = str(tmp_path / "told")
        command = (sys.executable, str(program), told, str(numbers), "fails" if fails else "well")
        refresh = keys.pop("full_refresh", False)
        source = lakeport.TapSource(tap=command, name="service")
        return lakeport.land(source, target.config(**keys), full_refresh=refresh)

    return run


def told(tmp_path: Path) -> list[Any]:
    return [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]


def test_a_tap_goes_on_from_what_its_tables_remember(
    target: Target, tap: Run, tmp_path: Path
) -> None:
    assert tap(3).rows == 6
    assert tap(3).rows == 0
    assert tap(5).rows == 4
    assert target.ids("users") == target.ids("orders") == [0, 1, 2, 3, 4]
    states = [{}, *({"bookmarks": {"users": n, "orders": n}} for n in (2, 2))]
    assert told(tmp_path) == states


def test_a_tap_that_fails_loses_nothing_and_lands_nothing_twice(target: Target, tap: Run) -> None:
    with pytest.raises(SourceError, match=r"exit code 7.*\n.*the service hung up"):
        tap(6, fails=True, maximum_batch_rows=3)
    some = target.ids("users") if target.exists("users") else []
    assert some == list(range(len(some)))
    tap(6, maximum_batch_rows=3)
    assert target.ids("users") == target.ids("orders") == list(range(6))


def test_a_taps_first_loads_side_by_side_land_nothing_twice(
    target: Target, tap: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, others = TapBookmarks.next_bookmarks, [3]

    def after_another(self: TapBookmarks, *given: Any) -> Any:
        if others:
            with ThreadPoolExecutor(1) as executor:
                executor.submit(tap, others.pop()).result()
        return kept(self, *given)

    monkeypatch.setattr(TapBookmarks, "next_bookmarks", after_another)
    with pytest.raises(CommitConflict):
        tap(3)
    assert tap(5).rows == 4
    assert target.ids("users") == target.ids("orders") == [0, 1, 2, 3, 4]


def test_tables_of_a_flush_that_was_cut_off_go_on_each_from_its_own_commit(
    target: Target, tap: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tap(2)
    kept = lakeport.loading.stream.StreamLoader._commit  # type: ignore[attr-defined]

    def cut_off(self: Any, staged: Any, *rest: Any) -> Any:
        if staged.batch.stream == "orders":
            raise LakeportError("cut off")
        return kept(self, staged, *rest)

    with monkeypatch.context() as patch:
        patch.setattr("lakeport.loading.stream.StreamLoader._commit", cut_off)
        with pytest.raises(LakeportError, match="cut off"):
            tap(4)
    assert (target.ids("users"), target.ids("orders")) == ([0, 1, 2, 3], [0, 1])
    tap(5)
    assert target.ids("users") == target.ids("orders") == [0, 1, 2, 3, 4]
    assert told(tmp_path)[-1] == {"bookmarks": {"users": 3, "orders": 1}}


@pytest.mark.before_the_store
def test_a_full_refresh_begins_anew_and_replaces_the_table(
    target: Target, tap: Run, tmp_path: Path
) -> None:
    tap(3)
    if target.format != "delta":
        with pytest.raises(ConfigError, match="files are only ever added"):
            tap(2, full_refresh=True)
        return
    assert tap(2, full_refresh=True, maximum_batch_rows=1).rows == 4
    assert target.ids("users") == [0, 1]
    assert told(tmp_path)[-1] == {}
    assert tap(3).rows == 2
    assert target.ids("users") == [0, 1, 2]


def test_of_two_loads_at_a_time_one_lands_and_the_other_says_so(
    target: Target, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.csv").write_text(f"id\n{number}\n")

    def load(_: int) -> int:
        source = lakeport.FilesSource(files=str(folder), new_only=True)
        try:
            return lakeport.land(source, target.config(table="t")).rows
        except CommitConflict as conflict:
            assert "since this one began" in conflict.message or "another" in conflict.message
            return 0

    with ThreadPoolExecutor(2) as pool:
        landed = sum(pool.map(load, range(2)))
    assert target.ids("t") == [0, 1, 2]
    assert landed == 3
    assert load(0) == 0


@pytest.mark.spark
@pytest.mark.before_the_store
def test_a_version_that_is_brought_back_brings_back_what_it_remembered(
    target: Target, tmp_path: Path
) -> None:
    if target.format != "delta":
        return
    folder = tmp_path / "in"
    folder.mkdir()
    source = lakeport.FilesSource(files=str(folder), new_only=True)
    for number in range(2):
        (folder / f"{number}.csv").write_text(f"id\n{number}\n")
        lakeport.land(source, target.config(table="t"))
    lakeport.Table("t", target.config()).restore(version=0)
    assert target.ids("t") == [0]
    assert lakeport.land(source, target.config(table="t")).rows == 1
    assert target.ids("t") == [0, 1]


def test_a_state_without_bookmarks_by_stream_falls_back_to_the_one_before() -> None:
    flush = {"order": 5, "streams": ["a", "b"], "before": '{"page":1}', "state": '{"page":2}'}
    assert compose_state({"a": flush, "b": flush}) == (b'{"page":2}', ())
    assert compose_state({"a": flush, "b": {**flush, "order": 4}}) == (b'{"page":1}', ("a",))
    assert compose_state({"a": flush}) == (b'{"page":1}', ("a",))
    assert compose_state({}) == (b"", ())


@pytest.mark.before_the_store
@pytest.mark.parametrize("command", [("no-such-tap",), ("/",)])
def test_a_tap_that_can_not_be_started_is_named(command: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be started"):
        lakeport.land(lakeport.TapSource(tap=command), str(tmp_path / "lake"))


@pytest.mark.parametrize("step", ["publish", "finish"])
def test_a_load_of_files_that_was_cut_off_is_finished_by_the_next(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    if target.format == "delta":
        return
    folder = tmp_path / "in"
    folder.mkdir()
    source = lakeport.FilesSource(files=str(folder), new_only=True)
    (folder / "0.csv").write_text("id\n0\n")
    lakeport.land(source, target.config(table="t"))
    (folder / "1.csv").write_text("id\n1\n")
    owner = {
        "publish": "lakeport.writers.files.journal.FilePublisher.publish",
        "finish": "lakeport.writers.files.journal.Journal.write_done",
    }

    def cut_off(*about: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner[step], cut_off)
        with pytest.raises(KeyboardInterrupt):
            lakeport.land(source, target.config(table="t"))
    before = target.files.keys()
    lakeport.plan(source, target.config(table="t"))
    assert target.files.keys() == before
    (folder / "2.csv").write_text("id\n2\n")
    lakeport.land(source, target.config(table="t"))
    assert target.ids("t") == [0, 1, 2]
    assert lakeport.land(source, target.config(table="t")).rows == 0


def test_a_load_whose_files_names_are_taken_is_left_alone_while_it_finds_others(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another load of this process comes between the clash and what is staged anew."""
    if target.format == "delta":
        return
    folder = tmp_path / "in"
    folder.mkdir()
    source = lakeport.FilesSource(files=str(folder), new_only=True)
    (folder / "0.csv").write_text("id\n0\n")
    commit, begun, told = FilesWriter.commit, list[Any](), list[str]()

    def clashing(self: FilesWriter, plan: Any, staged: Any, *about: Any) -> Any:
        begun.append(plan)
        if len(begun) > 1:
            return commit(self, plan, staged, *about)
        taken = plan.detail.names.key(0)
        self.storage.put(taken, b"")
        try:
            return commit(self, plan, staged, *about)
        finally:  # of a store that renames nothing, by a clash
            self.storage.delete(taken)
            with ThreadPoolExecutor(1) as pool:
                told.append(pool.submit(other).result())

    def other() -> str:
        try:
            return f"{lakeport.land(source, target.config(table='t')).rows} rows"
        except CommitConflict as conflict:
            return conflict.message

    monkeypatch.setattr(FilesWriter, "commit", clashing)
    assert lakeport.land(source, target.config(table="t")).rows == 1
    renames = target.keys["destination"] == "local"
    assert told[0].startswith("0 rows" if renames else "another load is landing what is new")
    assert target.ids("t") == [0]
    assert lakeport.land(source, target.config(table="t")).rows == 0


@pytest.mark.before_the_store
@pytest.mark.parametrize("batch", [1, 1000])
def test_a_full_refresh_of_a_load_that_merges_keeps_one_row_of_each_key(
    target: Target, tmp_path: Path, batch: int
) -> None:
    if target.format != "delta":
        return
    folder = tmp_path / "in"
    folder.mkdir()
    source = lakeport.FilesSource(files=str(folder), new_only=True)
    keys = {"table": "t", "mode": "merge", "merge_keys": "id", "maximum_batch_rows": batch}
    (folder / "0.csv").write_text("id,v\n1,a\n2,b\n3,c\n")
    lakeport.land(source, target.config(**keys))
    (folder / "1.csv").write_text("id,v\n1,new\n")
    lakeport.land(source, target.config(**keys))
    (folder / "0.csv").write_text("id,v\n1,a\n2,b\n")
    report = lakeport.land(source, target.config(**keys), full_refresh=True)
    rows = target.delta("t").to_pyarrow_table().sort_by("id")
    assert rows.select(["id", "v"]).to_pydict() == {"id": [1, 2], "v": ["new", "b"]}
    assert report.rows == 3
    assert lakeport.land(source, target.config(**keys)).rows == 0


@pytest.mark.before_the_store
def test_a_taps_full_refresh_begins_each_table_anew_once(target: Target, tap: Run) -> None:
    if target.format != "delta":
        return
    keys = {"mode": "merge", "merge_keys": "id", "maximum_batch_rows": 2}
    tap(5, **keys)
    tap(3, full_refresh=True, **keys)
    assert target.ids("users") == target.ids("orders") == [0, 1, 2]
    tap(4, **keys)
    assert target.ids("users") == target.ids("orders") == [0, 1, 2, 3]


def test_a_plan_of_a_tap_writes_nothing(target: Target, tmp_path: Path) -> None:
    program = tmp_path / "tap.py"
    program.write_text(TAP)
    command = (sys.executable, str(program), str(tmp_path / "told"), "3", "well")
    plan = lakeport.plan(lakeport.TapSource(tap=command), target.config())
    assert [(stream.stream, stream.rows) for stream in plan.streams] == [
        ("users", 3),
        ("orders", 3),
    ]
    assert target.files.keys() == []
