"""Which versions a run has made, whether it can be undone, and undoing it without Spark."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.cli.app import main
from lakeport.delta_log.reader import Commit
from lakeport.delta_log.transactions import CommitMark
from lakeport.errors import CommitConflict, SourceError
from lakeport.lake.undo import find_last_run, find_run_versions


def commit(number: int, run: str = "", operation: str = "WRITE", **parameters: Any) -> Commit:
    info: dict[str, Any] = {"operation": operation, "operationParameters": parameters}
    info["engineInfo"] = "delta-rs:1"
    if run:
        info["userMetadata"] = CommitMark(run, "s", 0, "", run, "c").format()
    return Commit(number, info, 1, 0, 1, 1, {})


def newest_first(*commits: Commit) -> list[Commit]:
    return sorted(commits, key=lambda commit: -commit.version)


def test_a_run_is_found_when_nothing_else_changed_the_table() -> None:
    kept = [commit(2, "", "OPTIMIZE"), commit(4, "", "VACUUM END")]
    log = newest_first(commit(0, "a"), commit(1, "b"), *kept, commit(3, "b"))
    assert find_run_versions(log, "b", "t") == (1, 3)
    with pytest.raises(CommitConflict, match=r"version 3 \(WRITE by run b\), version 1"):
        find_run_versions(log, "a", "t")
    foreign = newest_first(*log, commit(5, "", "DELETE"))
    with pytest.raises(CommitConflict, match=r"version 5 \(DELETE by delta-rs:1\)") as conflict:
        find_run_versions(foreign, "b", "t")
    assert conflict.value.hint.startswith("`restore`")  # what no run did can't be undone
    with pytest.raises(SourceError, match="no commit of a run 'x'") as caught:
        find_run_versions(log, "x", "t")
    assert "b, a" in caught.value.hint


def test_a_version_that_was_brought_back_stands_for_itself() -> None:
    log = [commit(0, "a"), commit(1, "b"), commit(2, "c"), commit(3, "", "RESTORE", version=1)]
    assert find_run_versions(newest_first(*log), "b", "t") == (1,)  # c is void
    with pytest.raises(SourceError, match="undone already, by version 3"):
        find_run_versions(newest_first(*log), "c", "t")
    again = [*log, commit(4, "c")]
    assert find_run_versions(newest_first(*again), "c", "t") == (4,)
    untold = [commit(0, "a"), commit(1, "b"), commit(2, "", "RESTORE", timestamp="2024-01-01")]
    with pytest.raises(CommitConflict, match="RESTORE"):
        find_run_versions(newest_first(*untold), "b", "t")


def test_the_last_run_is_found_unless_another_program_came_after_it() -> None:
    log = [commit(0, "a"), commit(1, "b"), commit(2, "", "OPTIMIZE")]
    assert find_last_run(newest_first(*log), "t") == "b"
    undone = [*log, commit(3, "", "RESTORE", version=0)]
    assert find_last_run(newest_first(*undone), "t") == "a"
    with pytest.raises(SourceError, match=r"version 3 \(DELETE by delta-rs:1\)") as caught:
        find_last_run(newest_first(*log, commit(3, "", "DELETE")), "t")
    assert "`lakeport table restore t --version 2`" in caught.value.hint
    with pytest.raises(SourceError, match="names no run"):
        find_last_run([], "t")


ID = {"properties": {"id": {"type": "integer"}}}


class Terminal(io.StringIO):
    """Stands for a terminal on which somebody types."""

    def isatty(self) -> bool:
        return True


def land(lake: Path, *ids: int, run: str) -> None:
    lakeport.land(pa.table({"id": ids}), lake, table="t", run_id=run, partition_keys=["id"])


def read(lake: Path) -> list[int]:
    """The rows as delta-rs reads them."""
    return sorted(DeltaTable(str(lake / "t")).to_pyarrow_table()["id"].to_pylist())


def test_a_plain_table_is_undone_and_restored_without_spark(tmp_path: Path) -> None:
    land(tmp_path, 1, 2, run="a")
    lakeport.land(pa.table({"id": [3], "v": ["x"]}), tmp_path, table="t", run_id="b")
    table = lakeport.Table(tmp_path / "t")
    plan = table.undo(dry_run=True)
    assert (plan.run_id, plan.rows_before, plan.rows_after) == ("b", 3, 2)
    assert (plan.version, plan.restored, plan.undone, plan.dry_run) == (1, 0, (1,), True)
    assert read(tmp_path) == [1, 2, 3]
    done = table.undo()
    assert (done.version, done.dry_run, done.committed) == (2, False, plan.committed)
    assert read(tmp_path) == [1, 2]
    assert "v" not in DeltaTable(str(tmp_path / "t")).to_pyarrow_table().column_names
    last = DeltaTable(str(tmp_path / "t")).history(1)[0]
    assert (last["operation"], last["operationParameters"]["version"]) == ("RESTORE", 0)
    assert table.restore(1).version == 3
    assert read(tmp_path) == [1, 2, 3]
    assert table.undo("b").version == 4
    land(tmp_path, 3, run="b")  # not taken for the one undone
    assert read(tmp_path) == [1, 2, 3]


def test_files_that_are_gone_are_named_before_anything_is_done(tmp_path: Path) -> None:
    for number, mode in enumerate(("append", "overwrite", "overwrite", "overwrite")):
        rows = pa.table({"id": [number]})
        lakeport.land(rows, tmp_path, table="t", mode=mode, run_id=f"r{number}")
    first, *_ = DeltaTable(str(tmp_path / "t"), version=0).file_uris()
    Path(first).unlink()
    table = lakeport.Table(tmp_path / "t")
    with pytest.raises(SourceError, match="1 of 1 file, part-") as caught:
        table.restore(0)
    assert Path(first).name in caught.value.message
    assert "`lakeport table restore" in caught.value.hint and "--version 1`" in caught.value.hint
    second, third = (DeltaTable(str(tmp_path / "t"), version=v).file_uris()[0] for v in (1, 2))
    for uri in (second, third):
        Path(uri).unlink()
    with pytest.raises(SourceError, match=r"version 2 of .* lacks data files") as caught:
        table.undo(dry_run=True)
    assert "No older version can" in caught.value.hint
    assert table.describe().version == 3


def test_the_command_says_what_it_will_do_and_needs_a_yes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path, 1, run="a")
    for run in ("b", "c", "d"):
        land(tmp_path, 2, 3, run=run)
    uri = str(tmp_path / "t")
    assert main(["table", "undo", uri]) == 2
    said = capsys.readouterr().err
    assert (
        "undoes run d, which made version 3 at " in said
        and "has 7 rows, and will have the 5 of version 2" in said
    )
    assert f"`lakeport table undo {uri} --yes`" in said
    assert main(["table", "undo", uri, "--json"]) == 2
    assert "--yes" in json.loads(capsys.readouterr().err)["error"]["hint"]
    assert main(["table", "undo", uri, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["undone"] == [3]
    assert read(tmp_path) == [1, 2, 2, 2, 3, 3, 3]
    assert main(["table", "undo", uri, "--yes"]) == 0
    assert "this undoes run d" in capsys.readouterr().out
    assert main(["table", "undo", uri, "c"]) == 0  # who names the run needs no other word
    assert read(tmp_path) == [1, 2, 3]

    monkeypatch.setattr("lakeport.cli.output.console.terminal_width", lambda _: 80)
    for answer, code, rows in (("n\n", 1, [1, 2, 3]), ("", 1, [1, 2, 3]), ("y\n", 0, [1])):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        assert main(["table", "undo", uri]) == code
        assert read(tmp_path) == rows
    assert main(["table", "undo", uri, "--yes"]) == 3
    assert f"`lakeport table drop {uri}`" in capsys.readouterr().err.replace("\n", " ")


def test_runs_and_pages_mark_a_run_that_was_undone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    land(tmp_path, 1, run="a")
    land(tmp_path, 2, run="b")
    lakeport.Table(tmp_path / "t").undo()
    land(tmp_path, 2, run="b")  # the same run again, which is not undone
    again, undone, first = lakeport.runs(tmp_path)
    assert [run.run_id for run in (again, undone, first)] == ["b", "b", "a"]
    assert [run.result for run in (again, undone, first)] == ["ok", "undone", "ok"]
    assert undone.undone == (str(tmp_path / "t"),)
    lakeport.Table(tmp_path / "t").undo("b")
    assert [run.result for run in lakeport.runs(tmp_path)] == ["undone", "undone", "ok"]
    assert main(["runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count(" undone\n") == 2
    assert main(["runs", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["undone"] == [str(tmp_path / "t")]
    assert main(["runs", str(tmp_path), "--last"]) == 0
    assert str(tmp_path / "t") in capsys.readouterr().out
    page = lakeport.page(tmp_path, tmp_path / "page.html").html
    assert page.count('<span class="state">undone</span>') == 2


def test_a_run_is_marked_though_other_tables_had_hundreds_of_runs_since(tmp_path: Path) -> None:
    land(tmp_path, 1, run="a")
    land(tmp_path, 2, run="b")
    lakeport.land(pa.table({"id": [1]}), tmp_path, table="other", run_id="c")
    reports = (tmp_path / "_lakeport/reports").iterdir()
    # Names of one second are in no order.
    (newest,) = (file for file in reports if json.loads(file.read_bytes())["run_id"] == "c")
    for number in range(250):
        newest.with_name(f"99991231-000000-{number:08x}.json").write_bytes(newest.read_bytes())
    lakeport.Table(tmp_path / "t").undo()
    (undone,) = (run for run in lakeport.runs(tmp_path, 300) if run.run_id == "b")
    assert undone.result == "undone"


def test_a_run_of_several_tables_is_undone_in_part(tmp_path: Path) -> None:
    lines = b"".join(
        json.dumps(line).encode() + b"\n"
        for stream in ("t", "u")
        for line in (
            {"type": "SCHEMA", "stream": stream, "schema": ID, "key_properties": []},
            {"type": "RECORD", "stream": stream, "record": {"id": 1}},
        )
    )
    for run in ("a", "b"):
        lakeport.land(io.BytesIO(lines), tmp_path, run_id=run)
    for table, result in (("t", "partly undone"), ("u", "undone")):
        lakeport.Table(tmp_path / table).undo()
        newest, _ = lakeport.runs(tmp_path)
        assert newest.result == result


def land_file(lake: Path, number: int, kind: str, **keys: Any) -> int:
    return lakeport.land(
        pa.table({"id": [number]}), lake, table="s/f", file_type=kind, run_id=f"r{number}", **keys
    ).rows


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_run_is_taken_out_of_a_table_of_files(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2, 3):
        land_file(tmp_path, number, kind)
    table, uri = lakeport.Table(tmp_path / "s" / "f"), str(tmp_path / "s" / "f")
    plan = table.undo(dry_run=True)
    assert (plan.run_id, plan.rows_before, plan.rows_after, plan.deleted) == ("r3", 3, 2, 1)
    assert main(["table", "undo", uri]) == 2
    assert "1 file will be deleted, and can't be brought back" in capsys.readouterr().err
    assert table.undo("r1").rows_after == 2  # whatever came after it
    assert main(["table", "undo", uri, "--yes"]) == 0
    left = [*(tmp_path / "s" / "f").rglob(f"*.{kind}")]
    assert len(left) == 1
    assert [run.result for run in lakeport.runs(tmp_path)] == ["undone", "ok", "undone"]
    assert land_file(tmp_path, 3, kind) == 1  # not taken for the one undone
    with pytest.raises(SourceError, match="names run 'r1'") as caught:
        table.undo("r1")
    assert "r3, r2" in caught.value.hint
    table.undo("r3")
    with pytest.raises(SourceError, match=r"made .*: no other run") as caught:
        table.undo()
    assert f"`lakeport table drop {uri}`" in caught.value.hint


def test_a_source_of_files_is_read_again_from_where_an_undone_run_began(tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", tmp_path / "lake"
    folder.mkdir()

    def load(number: int, run: str) -> int:
        (folder / f"{number}.csv").write_text(f"id\n{number}\n")
        keys: dict[str, Any] = {"file_type": "parquet", "table": "f", "run_id": run}
        return lakeport.land(
            lakeport.FilesSource(files=str(folder), new_only=True), lake, **keys
        ).rows

    assert [load(number, f"r{number}") for number in (1, 2, 3)] == [1, 1, 1]
    table = lakeport.Table(lake / "f")
    with pytest.raises(CommitConflict, match="later runs have read on"):
        table.undo("r2")
    assert table.describe().rows == 3
    table.undo()
    assert table.describe().rows == 2
    assert load(4, "r4") == 2  # the one undone, and the new one
