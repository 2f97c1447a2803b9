"""The folder of a stream's checkpoint, on a file system that fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakeport.engine.sql.streaming import _HadoopFolder


def test_a_file_that_cannot_be_written_is_closed_and_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[str] = []

    def refuse(_: bytearray) -> None:
        raise OSError("no room")

    stream = SimpleNamespace(write=refuse, close=lambda: heard.append("close"))
    system = SimpleNamespace(
        create=lambda *_: stream, delete=lambda path, _: heard.append(f"delete {path[-4:]}")
    )
    folder: Any = object.__new__(_HadoopFolder)
    folder._system = system
    monkeypatch.setattr(_HadoopFolder, "_child", lambda self, name: name)
    with pytest.raises(OSError, match="no room"):
        folder.write("lakeport.json", "{}")
    assert heard == ["close", "delete .tmp"]
