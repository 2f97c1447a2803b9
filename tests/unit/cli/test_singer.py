"""`target-lakeport` as a command: what it tells of itself, and where its words go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeport.cli.app import main, run
from lakeport.cli.singer import NAME, app


def call(*arguments: str) -> int:
    return run(app, NAME, arguments)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version") == 0
    assert capsys.readouterr().out == "target-lakeport v0.1.0\n"


def test_about_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--about", "--format", "json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["name"], facts["version"]) == ("target-lakeport", "0.1.0")
    assert {"about", "batch", "validate-records"} <= set(facts["capabilities"])
    assert "3.11" in facts["supported_python_versions"]
    assert facts["description"]
    names = list(facts["settings"]["properties"])
    assert call("--about", "--format", "markdown") == 0
    page = capsys.readouterr().out
    assert page.startswith("# `target-lakeport`\n")
    assert all(f"\n| {name} | {name == 'destination'} |" in page for name in names)
    assert call("--about") == 0
    text = capsys.readouterr().out
    assert all(f"Environment Variable: TARGET_LAKEPORT_{name.upper()}\n" in text for name in names)


def test_a_package_in_a_zip_has_no_metadata(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.metadata.Distribution.discover", lambda **_: iter(()))
    assert call("--version") == 0
    assert capsys.readouterr().out == "target-lakeport v0.1.0\n"
    assert call("--about", "--format", "json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["description"], facts["supported_python_versions"]) == ("", [])
    assert main(["version", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["lakeport"], facts["pyarrow"]) == ("0.1.0", "not installed")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--about", "--format", "xml"], 2, "xml"),
        (["--confg", "x"], 2, "--confg"),
        (["--config", "missing.json"], 2, "missing.json"),
        (["--config", "lokal.json"], 2, "did you mean `local`"),
    ],
)
def test_errors_go_to_stderr_with_a_hint(
    arguments: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lokal.json").write_text(json.dumps({"destination": "lokal"}))
    assert call(*arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert "Hint: " in captured.err


def test_internal_columns_of_a_new_table_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = [
        {"type": "SCHEMA", "stream": "s", "schema": {"properties": {"id": {"type": "integer"}}}},
        {"type": "RECORD", "stream": "s", "record": {"id": 1}},
    ]
    (tmp_path / "in.singer").write_text("\n".join(map(json.dumps, messages)))
    said = "`internal_columns: false` leaves them out"
    for more, told in (({}, True), ({"internal_columns": False}, False)):
        config = tmp_path / "config.json"
        lake = str(tmp_path / f"lake{told}")
        config.write_text(json.dumps({"destination": "local", "path": lake, **more}))
        assert call("--config", str(config), "--input", str(tmp_path / "in.singer")) == 0
        captured = capsys.readouterr()
        assert captured.out == ""
        assert (said in captured.err) is told
