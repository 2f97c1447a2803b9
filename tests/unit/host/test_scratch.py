"""Folders for temporary files: private, gone with their owner, and nobody else's ever."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakeport.errors import ConfigError
from lakeport.host import scratch as module
from lakeport.host.scratch import ScratchFolder, remove_leftovers, scratch_folder

OWNER = """
import sys, time
from lakeport.host.scratch import ScratchFolder
made = ScratchFolder("spark", sys.argv[1])
(made.path / "records.jsonl").write_text("{}")
(made.path / "sub").mkdir()
(made.path / "sub" / "more").write_text("")
print(made.path, flush=True)
time.sleep(600)
"""
OLD = time.time() - 8 * 24 * 3600


def owner(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(parent)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def age(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        os.utime(path, (OLD, OLD), follow_symlinks=False)


def left(parent: Path, name: str = "lakeport-abcd1234", *files: str) -> Path:
    """A folder without a lock, of a week ago."""
    folder = parent / name
    folder.mkdir(0o700)
    for file in files:
        (folder / file).write_text("{}")
    age(folder)
    return folder


def test_a_folder_is_private_and_goes_with_its_body(tmp_path: Path) -> None:
    with scratch_folder(parent=tmp_path) as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]
    assert list(tmp_path.iterdir()) == []
    made = ScratchFolder("jobs", tmp_path)
    made.remove()
    made.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_goes_with_the_next_folder(tmp_path: Path) -> None:
    process, folder = owner(tmp_path)
    try:
        with scratch_folder(parent=tmp_path):
            assert (folder / "records.jsonl").exists()
    finally:
        kill(process)
    with scratch_folder(parent=tmp_path):
        assert not folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_ours_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = left(tmp_path, "data", "00000000-0000.jsonl")
    (tmp_path / "lakeport-linkto12").symlink_to(outside)
    process, folder = owner(tmp_path)
    kill(process)
    named_alike = left(tmp_path, "lakeport-analysis", "results.csv")
    monkeypatch.setattr(module.os, "getuid", lambda: 12345)
    remove_leftovers(tmp_path)
    assert folder.exists()
    monkeypatch.undo()
    remove_leftovers(tmp_path)
    assert not folder.exists()
    assert {path.name for path in tmp_path.iterdir()} == {
        "data",
        "lakeport-linkto12",
        named_alike.name,
    }
    assert (outside / "00000000-0000.jsonl").exists()


def test_a_link_in_a_folder_is_not_followed(tmp_path: Path) -> None:
    outside = left(tmp_path, "data", "kept")
    process, folder = owner(tmp_path)
    kill(process)
    (folder / "link").symlink_to(outside)
    remove_leftovers(tmp_path)
    assert not folder.exists()
    assert (outside / "kept").exists()


def test_locks_of_another_machine_tell_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, folder = owner(tmp_path)
    kill(process)
    monkeypatch.setattr(module.platform, "node", lambda: "another")
    remove_leftovers(tmp_path)
    assert folder.exists()
    age(folder)
    remove_leftovers(tmp_path)
    assert not folder.exists()


@pytest.mark.parametrize("call", ["mkdir", "open"])
def test_a_place_without_room_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(ConfigError) as caught:
        patch.setattr(os, call, full)
        ScratchFolder("spark", tmp_path)
    assert caught.value.message.endswith(f"{tmp_path}: No space left on device")
    assert "`df -i`" in caught.value.hint


@pytest.mark.parametrize("files", [(), (".owner",)])
def test_a_folder_whose_process_was_killed_before_it_held_the_lock_goes_soon(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    folder = left(tmp_path, "lakeport-abcd1234", *files)
    for name in files:
        (folder / name).write_bytes(b"")
    os.utime(folder)
    ScratchFolder("new", tmp_path).remove()
    assert folder.exists()  # its process may be about to
    hour_ago = time.time() - 3600
    for path in (*folder.iterdir(), folder):
        os.utime(path, (hour_ago, hour_ago))
    ScratchFolder("new", tmp_path).remove()
    assert not folder.exists()
