"""`target-lakeport` as a command on Spark: its messages, its output, its exit codes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakeport.cli.app import run
from lakeport.cli.singer import NAME, app
from tests.contract.targets import INTEGER, record, schema, singer, state

USERS = schema("users", {"id": INTEGER}, "id")
Call = Callable[..., tuple[int, list[Any]]]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Run the command on lines; its exit code, and what it wrote to stdout."""

    def command(*messages: Any, **config: Any) -> tuple[int, list[Any]]:
        lake = {"destination": "local", "path": str(tmp_path / "lake")}
        (tmp_path / "config.json").write_text(json.dumps(lake | config))
        (tmp_path / "lines.singer").write_bytes(singer(*messages))
        files = ["--config", tmp_path / "config.json", "--input", tmp_path / "lines.singer"]
        out = io.TextIOWrapper(io.BytesIO(), "utf-8")
        with redirect_stdout(out):
            code = run(app, NAME, list(map(str, files)))
        out.seek(0)
        return code, [json.loads(line) for line in out.read().splitlines()]

    return command


def rows(folder: Path) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    return sorted(table, key=lambda row: row["id"])


@pytest.mark.parametrize("processed", [True, False])
def test_rows_of_earlier_versions(call: Call, tmp_path: Path, processed: bool) -> None:
    config = {"load_method": "upsert", "add_record_metadata": True}
    config["process_activate_version_messages"] = processed
    for version, ids in ((1, (1, 2)), (2, (2, 3))):
        sent = [{**record("users", id=i), "version": version} for i in ids]
        activate = {"type": "ACTIVATE_VERSION", "stream": "users", "version": version}
        code, said = call(USERS, *sent, activate, state(users=version), **config)
        assert (code, said) == (0, [{"bookmarks": {"users": version}}])
    found = rows(tmp_path / "lake" / "users")
    assert [(row["id"], row["_sdc_table_version"]) for row in found] == [(1, 1), (2, 2), (3, 2)]
    gone = [row["id"] for row in found if row["_sdc_deleted_at"] is not None]
    assert gone == ([1] if processed else [])


def test_only_durable_states_go_out(
    call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The flush that fails keeps its STATE; what landed before it stays."""
    lines = [USERS, record("users", id=1), state(users=1), record("users", id=2)]
    lines += [state(users=2), record("users", id="x"), state(users=3)]
    code, said = call(*lines, batch_size_rows=2)
    assert (code, said) == (3, [{"bookmarks": {"users": 1}}])
    assert [row["id"] for row in rows(tmp_path / "lake" / "users")] == [1, 2]
    errors = capsys.readouterr().err
    assert "line 6" in errors
    assert "\nHint: " in errors


def test_an_absent_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"destination": "local", "path": str(tmp_path / "lake")}))
    missing = str(tmp_path / "missing.singer")
    assert run(app, NAME, ["--config", str(config), "--input", missing]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "missing.singer" in captured.err


def test_a_stream_without_records_makes_an_empty_table(call: Call, tmp_path: Path) -> None:
    for _ in range(2):  # a repeat finds it
        config = {"run_id": "monday", "on_bad_record": "quarantine"}
        assert call(USERS, state(users=0), **config) == (0, [{"bookmarks": {"users": 0}}])
        table = DeltaTable(str(tmp_path / "lake" / "users"))
        assert (table.version(), table.to_pyarrow_table().num_rows) == (0, 0)
        assert table.schema().to_arrow().names[0] == "id"
    assert call(USERS, record("users", id=1), run_id="monday") == (0, [])
    assert [row["id"] for row in rows(tmp_path / "lake" / "users")] == [1]
    for other in ({"file_type": "parquet"}, {"load_method": "upsert"}):
        assert call(schema("others", {"id": INTEGER}, "id"), **other) == (0, [])
        assert not (tmp_path / "lake" / "others").exists()


def test_an_overwrite_without_records_leaves_the_table_and_says_so(
    call: Call, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    call(USERS, record("users", id=1))
    code, said = call(USERS, state(users=0), load_method="overwrite")
    assert (code, said) == (0, [{"bookmarks": {"users": 0}}])
    assert "stream 'users' brought no record" in capfd.readouterr().err + caplog.text
    assert [row["id"] for row in rows(tmp_path / "lake" / "users")] == [1]
