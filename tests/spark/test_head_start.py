"""Spark's JVM, which a load's command begins to start before it reads what is to be loaded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeport.engine.spark.jvm.java import find_java
from tests.faults.kit import Outcome, run


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """A Java that writes a line at each start."""
    real, home = find_java().path.resolve().parents[1], tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    for name in ("lib", "release"):
        (home / name).symlink_to(real / name)
    program = home / "bin" / "java"
    program.write_text(f'#!/bin/sh\necho "$*" >> {home}/starts\nexec {real}/bin/java "$@"\n')
    program.chmod(0o755)
    return home


def land(java: Path, *arguments: str | Path, engine: str = "") -> tuple[Outcome, list[str]]:
    """Land a file with that Java; what came of it, and the arguments of each start of Java."""
    source = java.parent / "people.csv"
    source.write_text("id\n1\n")
    (temporary := java.parent / "tmp").mkdir()
    env = {
        "JAVA_HOME": str(java),
        "LAKEPORT_CDS": "use",
        "LAKEPORT_ENGINE": engine,
        "TMPDIR": str(temporary),
    }
    command = [source, "--to", java.parent / "lake", *arguments]
    outcome = run("land", *command, env=env)
    assert [*temporary.glob("lakeport-spark-*")] == []
    starts = java / "starts"
    return outcome, starts.read_text().splitlines() if starts.exists() else []


def test_an_ordinary_load_takes_the_one_that_was_begun(java: Path) -> None:
    outcome, starts = land(java)
    assert outcome.code == 0, outcome.err
    assert len(starts) == 1


def test_a_load_with_settings_of_its_own_starts_with_them_at_once(java: Path) -> None:
    outcome, starts = land(java, "--spark", "spark.driver.memory=900m")
    assert outcome.code == 0, outcome.err
    assert len(starts) == 1
    assert "-Xmx900m" in starts[0]


@pytest.mark.soak  # another start, where it was too late for those settings
def test_settings_that_stand_far_down_in_a_config_start_another(java: Path) -> None:
    config = java.parent / "target.yaml"
    target = f"destination: local\npath: {java.parent / 'lake'}\n"
    given = f"{target}spark: {{spark.driver.memory: 900m}}\n"
    config.write_text("# a comment\n" * 7000 + given)
    outcome, starts = land(java, "--to", config)
    assert outcome.code == 0, outcome.err
    assert "-Xmx900m" in starts[-1]  # the one before may be ended before it has begun


@pytest.mark.parametrize("way", ["option", "variable", "file", "file after =", "reference"])
def test_threads_start_none(java: Path, way: str) -> None:
    config = java.parent / "target.yaml"
    named = "${LAKEPORT_ENGINE}" if way == "reference" else "threads"
    config.write_text(f"destination: local\npath: {java.parent / 'lake'}\nengine: {named}\n")
    arguments: dict[str, list[str | Path]] = {
        "option": ["--engine", "threads"],
        "file": ["--to", config],
        "file after =": [f"--to={config}"],
        "reference": ["--to", config],
    }
    engine = "threads" if way in ("variable", "reference") else ""
    outcome, starts = land(java, *arguments.get(way, []), engine=engine)
    assert outcome.code == 0, outcome.err
    assert starts == []


def test_a_load_that_is_refused_leaves_none_behind(java: Path) -> None:
    outcome, starts = land(java, "--key", "name")
    assert outcome.code == 2
    assert len(starts) <= 1


def test_a_pipe_in_a_files_place_is_not_read(java: Path) -> None:
    """Nobody may ever write to it: to open it would wait for that."""
    os.mkfifo(pipe := java.parent / "pipe.json")
    outcome, _ = land(java, "--schema", pipe, "--key", "name")
    assert outcome.code == 2
