"""`lakeport jars`: what it fetches, and what it says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lakeport.cli import warm
from lakeport.cli.app import main
from lakeport.engine.spark.jvm import jars
from lakeport.engine.spark.jvm.jars import NEEDS, jars_for

Cap = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror in a folder that has all jars, and an empty cache."""
    for jar, file in zip(jars_for(NEEDS), jars.ensure_jars(NEEDS), strict=False):
        place = tmp_path / "mirror" / jar.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(file)
    monkeypatch.setenv("LAKEPORT_MAVEN_URL", (tmp_path / "mirror").as_uri())
    monkeypatch.setenv("LAKEPORT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "mirror"


def said(capsys: Cap, *arguments: str) -> list[str]:
    assert main(["jars", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.splitlines()


def test_what_was_fetched_and_what_was_there(capsys: Cap, tmp_path: Path) -> None:
    title, header, *rows = said(capsys)
    assert title == "2 jars fetched, 9.6 MB" and header.split() == ["jar", "size", "path"]
    assert [row.split()[:3] for row in rows[:2]] == [
        ["delta-spark_4.2_2.13-4.4.0.jar", "9.5", "MB"],
        ["delta-storage-4.4.0.jar", "113.9", "KB"],
    ]
    assert rows[-1].split()[-1] == str(jars.LOG_STORE)
    assert said(capsys)[0] == "all 2 jars are there"
    assert said(capsys, "--for", "delta,azure")[0] == "3 jars fetched, 1.4 MB; 2 more were there"
    assert said(capsys, "--for", "all")[0].endswith("; 5 more were there")
    cached = {file.name for file in (tmp_path / "cache" / "jars").iterdir()}
    assert cached == {jar.name for jar in jars_for(NEEDS)}


def test_for_machines(capsys: Cap, tmp_path: Path) -> None:
    found = json.loads("".join(said(capsys, "--json")))
    assert [each["bytes"] for each in found[:2]] == [jar.size for jar in jars_for({"delta"})]
    assert Path(found[0]["path"]).parent == tmp_path / "cache" / "jars"


@pytest.mark.parametrize(("given", "word"), [("delta,nope", "'nope'"), (",", "nothing")])
def test_what_nothing_is_known_for(capsys: Cap, given: str, word: str) -> None:
    assert main(["jars", "--for", given]) == 2
    assert f"`--for` names {word}\n\nHint: it takes delta, s3, azure, gcs and all." in (
        capsys.readouterr().err
    )


def test_a_warm_session_starts_with_delta_s_jars(
    monkeypatch: pytest.MonkeyPatch, capsys: Cap, mirror: Path, tmp_path: Path
) -> None:
    there: list[bool] = []

    def begin(idle: float, memory: str) -> dict[str, object]:
        there.append(not jars.missing_jars(["delta"]))
        return {"process": 7, "idle": idle, "memory": memory}

    monkeypatch.setattr(warm, "find_session", lambda: None)
    monkeypatch.setattr(warm, "start_session", begin)
    monkeypatch.setattr(warm, "_ask", lambda session, what: session)
    assert main(["warm", "start"]) == 0
    assert capsys.readouterr().err == "" and there == [True]
    shutil.rmtree(tmp_path / "cache")
    shutil.rmtree(mirror)
    assert main(["warm", "start"]) == 0
    out, err = capsys.readouterr()
    assert "a warm session was started" in out and there == [True, False]
    assert err.startswith("Warning: the jar delta-spark") and "no Spark for Delta tables" in err
