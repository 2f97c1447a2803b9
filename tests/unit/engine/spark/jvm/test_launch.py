"""What can be said about the start without starting Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakeport.engine.spark.jvm import archive, gateway
from lakeport.engine.spark.jvm.jars import jars_for
from lakeport.engine.spark.jvm.java import Java
from lakeport.engine.spark.jvm.launch import Launch
from lakeport.errors import SparkFailure
from lakeport.host.scratch import cache_folder


@pytest.fixture(params=[17, 25])
def java(request: pytest.FixtureRequest, tmp_path: Path) -> Java:
    """One that has an archive of its own classes, and one that needs none."""
    home = tmp_path / "java"
    if request.param == 17:
        (home / "lib" / "server").mkdir(parents=True)
        (home / "lib" / "server" / "classes.jsa").touch()
    return Java(home / "bin" / "java", request.param, f"{request.param}.0.1")


def fake_java(folder: Path, body: str) -> Java:
    program = folder / "java"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return Java(program, 17, "17.0.1")


def test_the_pinned_pyspark_is_installed() -> None:
    from pyspark.version import __version__

    assert __version__ == "4.2.0"


def test_class_path_is_explicit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    found = gateway.list_class_path([tmp_path / "own.jar"])
    assert found[-1] == tmp_path / "own.jar"
    assert len(found) > 100
    assert found[:-1] == sorted(found[:-1])
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert gateway.list_class_path([])[0] == tmp_path


def test_a_jvm_that_ends(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "echo 'Error: out of luck' >&2; exit 3")
    started = gateway.start_jvm(java, heap_mb=10, fast_start=True)
    with pytest.raises(SparkFailure, match="exit code 3: Error: out of luck"):
        started.connect(timeout=30)
    started.kill()
    assert not started.folder.exists()


def test_a_jvm_that_does_not_answer(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "exec sleep 60")
    started = gateway.start_jvm(java, heap_mb=10, fast_start=False)
    with pytest.raises(SparkFailure, match="did not answer within 0 s"):
        started.connect(timeout=0.05)
    started.kill()
    started.kill()
    assert started.process.returncode == -9


def test_early_settings_go_escaped_through_a_private_file(tmp_path: Path) -> None:
    java = fake_java(tmp_path, f'echo "$@" > {tmp_path}/line; exec sleep 60')
    given = {"spark.jars.packages": "a:b:1", "spark.jars.x": "a b=c:\\d\n😀"}
    started = gateway.start_jvm(java, heap_mb=10, fast_start=True, properties=given)
    file = started.folder / "spark.conf"
    packages, odd = file.read_text().splitlines()
    assert packages == r"spark.jars.packages=a\:b\:1"
    assert odd == r"spark.jars.x=a\ b\=c\:\\d\u000a\ud83d\ude00"
    assert file.stat().st_mode & 0o777 == 0o600
    assert started.folder.stat().st_mode & 0o777 == 0o700
    started.stop(timeout=0.01)
    assert "a:b:1" not in str(started.process.args)


def test_a_jvm_started_ahead_is_taken_once(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "exec sleep 60")
    ahead = gateway.start_jvm(java, heap_mb=10, fast_start=True, ahead=True)
    assert gateway.start_jvm(java, heap_mb=10, fast_start=True) is ahead
    other = gateway.start_jvm(java, heap_mb=10, fast_start=True)
    assert other is not ahead
    for each in (ahead, other):
        each.kill()


@pytest.mark.parametrize("other", ["heap", "environment", "imports", "ended"])
def test_a_jvm_started_ahead_for_another_start_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    java = fake_java(tmp_path, "exec sleep 60")
    ahead = gateway.start_jvm(java, heap_mb=10, fast_start=True, ahead=True)
    if other == "environment":
        monkeypatch.setenv("LAKEPORT_TEST_A", "1")
    elif other == "imports":
        monkeypatch.syspath_prepend(tmp_path)
    elif other == "ended":
        ahead.process.kill()
        ahead.process.wait()
    started = gateway.start_jvm(java, heap_mb=20 if other == "heap" else 10, fast_start=True)
    assert started is not ahead
    assert ahead.process.returncode == -9
    assert not ahead.folder.exists()
    started.kill()


def test_a_jvm_is_joined_without_a_change_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever goes through it meanwhile would miss a name, as botocore does at each request."""
    from pyspark import java_gateway

    pyspark_module: Any = java_gateway
    before, given = dict(os.environ), {}

    def launch_gateway() -> Any:
        given.update(pyspark_module.os.environ)
        assert dict(os.environ) == before
        return SimpleNamespace(_gateway_client=SimpleNamespace(converters=[]))

    monkeypatch.setattr(java_gateway, "launch_gateway", launch_gateway)
    gateway.join_jvm(25333, "a secret")
    assert given == {
        **before,
        "PYSPARK_GATEWAY_PORT": "25333",
        "PYSPARK_GATEWAY_SECRET": "a secret",
    }
    assert pyspark_module.os is os


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKEPORT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LAKEPORT_CDS", raising=False)
    file = tmp_path / "a.jar"
    file.write_bytes(b"1")
    return file


def make(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"classes")


def test_an_archive_belongs_to_java_and_class_path(java: Java, jar: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.jar"
    other.write_bytes(b"2")
    names = {
        archive.archive_path(java, [jar]),
        archive.archive_path(java, [jar, other]),
        archive.archive_path(java, [other, jar]),
        archive.archive_path(replace(java, full_version="99"), [jar]),
    }
    jar.write_bytes(b"longer")
    names.add(archive.archive_path(java, [jar]))
    assert len(names) == 5
    assert None not in names


def test_no_archive_with_folders_or_what_is_absent(java: Java, jar: Path, tmp_path: Path) -> None:
    assert archive.archive_path(java, [tmp_path, jar]) is None
    assert archive.archive_path(java, [tmp_path / "none.jar"]) is None
    assert archive.find_archive(None) is None
    assert archive.use_options(None) == ()


def test_no_archive_without_one_of_java_s_own_to_build_on(java: Java, jar: Path) -> None:
    (java.path.parents[1] / "lib" / "server" / "classes.jsa").unlink(missing_ok=True)
    assert (archive.archive_path(java, [jar]) is None) == (java.version == 17)


def test_an_archive_is_used_when_it_is_there(
    java: Java, jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = archive.archive_path(java, [jar])
    assert file is not None
    assert archive.find_archive(file) is None
    make(file)
    os.utime(file, (0, 0))
    assert archive.find_archive(file) == file
    assert file.stat().st_mtime > 0  # or it would be taken for one that nobody uses
    used = {17: "SharedArchiveFile", 25: "AOTCache"}[java.version]
    assert f"-XX:{used}={file}" in archive.use_options(file)
    monkeypatch.setenv("LAKEPORT_CDS", "use")
    assert archive.find_archive(file) == file
    monkeypatch.setenv("LAKEPORT_CDS", "off")
    assert archive.find_archive(file) is None


def test_an_archive_of_fewer_jars_is_used_and_replaced(
    java: Java, jar: Path, tmp_path: Path
) -> None:
    entries = [jar, tmp_path / "b.jar"]
    entries[1].write_bytes(b"2")
    first, both = archive.archive_path(java, entries[:1]), archive.archive_path(java, entries)
    elsewhere = archive.archive_path(replace(java, full_version="99"), entries)
    assert first is not None and both is not None and elsewhere is not None
    make(elsewhere)
    make(first)
    assert archive.find_archive(both) == first
    assert not archive.publish_archive(both)
    make(archive.partial_path(both))
    assert archive.publish_archive(both)
    assert archive.find_archive(both) == both
    assert not first.exists()
    assert elsewhere.exists()


def test_archives_that_nobody_uses_are_removed(java: Java, jar: Path) -> None:
    file = archive.archive_path(java, [jar])
    assert file is not None
    left, used = file.with_name("left.part"), file.with_name("used.jsa")
    for other in (left, used, archive.partial_path(file)):
        make(other)
    os.utime(left, (0, 0))
    assert archive.publish_archive(file)
    assert sorted(file.parent.iterdir()) == sorted([file, used])


def test_made_once_and_only_when_wanted(
    java: Java, jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    class Process:
        returncode: int | None = None

        def __init__(self, command: list[str], **_: object) -> None:
            started.append(command)

    monkeypatch.setattr(subprocess, "Popen", Process)
    file = archive.archive_path(java, [jar])
    assert file is not None
    archive.record_in_background(None, {"delta"})
    for value in ("off", "use"):
        monkeypatch.setenv("LAKEPORT_CDS", value)
        archive.record_in_background(file, {"delta"})
    assert started == []
    monkeypatch.delenv("LAKEPORT_CDS")
    command = [sys.executable, "-m", "lakeport.engine.spark.jvm.training", "delta", "s3a"]
    for _ in range(2):  # it is being made
        archive.record_in_background(file, {"s3a", "delta"})
    assert started == [command]
    os.utime(file.with_suffix(".making"), (0, 0))  # whoever made it was killed
    archive.record_in_background(file, {"s3a", "delta"})
    assert started == [command] * 2
    make(file)
    os.utime(file.with_suffix(".making"), (0, 0))
    archive.record_in_background(file, {"delta"})
    assert len(started) == 2


@pytest.mark.parametrize(("master", "shared"), [("local[2]", True), ("spark://h:1", False)])
def test_loads_on_this_machine_have_one_class_path(
    jar: Path, monkeypatch: pytest.MonkeyPatch, master: str, shared: bool
) -> None:
    for cached in jars_for({"delta"}):
        place = cache_folder() / "jars" / cached.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    monkeypatch.setattr(Launch, "_open_context", lambda *_: None)
    paths = []
    for needs in (frozenset[str](), frozenset({"delta"})):
        java = fake_java(jar.parent, "sleep 60")
        launch = Launch(java, needs, {"spark.master": master}, quick_start=True)
        launch.open()
        assert launch.jvm is not None
        command = launch.jvm.process.args
        assert isinstance(command, list)
        paths.append(command[command.index("-cp") + 1].split(os.pathsep))
        launch.close(None, fast=True, timeout=1)
    assert (paths[0] == paths[1]) == shared
    assert any("delta-spark" in entry for entry in paths[0]) == shared


@pytest.mark.parametrize(
    ("java", "starts", "kept"),
    [
        ('case "$*" in *SharedArchiveFile*) exit 1;; esac; touch "$0.up"; exec sleep 60', 2, False),
        ("exit 1", 2, True),  # without it, too: something else is the cause
        ("kill -9 $$", 1, True),
    ],
)
def test_an_archive_is_dropped_if_java_starts_without_it(
    jar: Path, monkeypatch: pytest.MonkeyPatch, java: str, starts: int, kept: bool
) -> None:
    file = jar.with_name("a.jsa")
    make(file)
    monkeypatch.setattr(archive, "archive_path", lambda *_: file)
    begun: list[gateway.JvmProcess] = []

    def opened(launch: Launch, _: object) -> None:
        assert launch.jvm is not None
        begun.append(launch.jvm)
        while launch.jvm.process.poll() is None:
            if (jar.parent / "java.up").exists():
                return
            time.sleep(0.01)
        raise SparkFailure("it has ended", "")

    monkeypatch.setattr(Launch, "_open_context", opened)
    launch = Launch(fake_java(jar.parent, java), frozenset(), {}, quick_start=True)
    with suppress(SparkFailure) if kept else nullcontext():
        launch.open()
        assert not kept
    launch.close(None, fast=True, timeout=1)
    assert len(begun) == starts
    assert file.exists() == kept
    assert not any(gateway.folder.exists() for gateway in begun)
