"""Where STATE goes."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from lakeport.errors import ConfigError, DestinationError
from lakeport.sources.singer.state import StateOutput, merge_state


def test_values_go_out_unchanged_one_a_line() -> None:
    stream = io.BytesIO()
    output = StateOutput(stream)
    output.emit(b'{"a":  1.50}')
    output.emit(b"{}")
    assert stream.getvalue() == b'{"a":  1.50}\n{}\n'


def test_a_reader_that_has_gone_is_an_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    stream = os.fdopen(write_end, "wb", buffering=0)
    with stream, pytest.raises(DestinationError, match="the data has landed"):
        StateOutput(stream).emit(b"{}")
    with pytest.raises(DestinationError):
        StateOutput(stream).emit(b"{}")


def test_bookmarks_merge_over_runs_and_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    StateOutput(path=path).emit(b'{"bookmarks": {"a": {"id": 9007199254740993}, "b": {"x": 1.50}}}')
    output = StateOutput(path=path)
    output.emit(b'{"currently_syncing": "b", "bookmarks": {"b": {"y": 2}}}')
    assert path.read_bytes() == (
        b'{"currently_syncing":"b","bookmarks":{"a":{"id": 9007199254740993},"b":{"y": 2}}}\n'
    )
    output.emit(b'{"bookmarks": {"c": null}}')
    assert json.loads(path.read_bytes()) == {
        "bookmarks": {"a": {"id": 9007199254740993}, "b": {"y": 2}, "c": None}
    }
    assert list(tmp_path.iterdir()) == [path]


def test_a_state_without_bookmarks_leaves_those_of_the_file() -> None:
    old = b'{"bookmarks": {"a": 1}, "currently_syncing": "a"}'
    assert merge_state(old, b'{"at": 1}') == b'{"at":1,"bookmarks":{"a":1}}'
    assert merge_state(b'{"at": 1}', b'{"bookmarks": {"b": 2}}') == b'{"bookmarks": {"b": 2}}'
    assert merge_state(b'{"at": 1}', b'{"at": 2}') == b'{"at": 2}'


@pytest.mark.parametrize("value", [b"[1]", b'{"bookmarks": 5}', b'"\xc3"'])
def test_other_shapes_replace(value: bytes) -> None:
    assert merge_state(b'{"bookmarks": {"a": 1}}', value) == value
    assert merge_state(value, b'{"bookmarks": {"a": 1}}') == b'{"bookmarks": {"a": 1}}'
    assert merge_state(b"", value) == value


@pytest.mark.parametrize("value", [b"{}", b" { } ", b"null"])
def test_an_empty_state_changes_nothing(value: bytes) -> None:
    assert merge_state(b'{"bookmarks": {"a": 1}}', value) == b'{"bookmarks": {"a": 1}}'
    assert merge_state(b"", value) == value


def test_an_empty_file_is_no_state_and_another_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"\n")
    StateOutput(path=path).emit(b"{}")
    assert path.read_bytes() == b"{}\n"
    for content in (b"oops", b"[]", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="does not hold a JSON object"):
            StateOutput(path=path)
    with pytest.raises(ConfigError, match="is a folder"):
        StateOutput(path=tmp_path)
    with pytest.raises(ConfigError, match="there is no folder"):
        StateOutput(path=tmp_path / "gone" / "state.json")


def test_a_file_that_cannot_be_replaced_keeps_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.json"
    output = StateOutput(path=path)
    output.emit(b'{"a": 1}')

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DestinationError, match="No space left"):
        output.emit(b'{"a": 2}')
    assert path.read_bytes() == b'{"a": 1}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_keeps_its_mode_its_link_and_a_device_stays(tmp_path: Path) -> None:
    path, link = tmp_path / "state.json", tmp_path / "link"
    path.touch(0o640)
    link.symlink_to(path)
    StateOutput(path=link).emit(b'{"a": 1}')
    assert link.is_symlink() and path.read_bytes() == b'{"a": 1}\n'
    assert path.stat().st_mode & 0o777 == 0o640
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    StateOutput(path=pipe).emit(b'{"a": 2}')
    assert os.read(reader, 99) == b'{"a": 2}\n' and pipe.is_fifo()
    os.close(reader)
