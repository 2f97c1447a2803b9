"""Sidecars of spooled files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeport.errors import SourceError
from lakeport.model import Split
from lakeport.sources.spool import LINES, pack_pair, read_sidecar


def test_what_was_packed_is_read(tmp_path: Path) -> None:
    path = tmp_path / f"a{LINES}"
    path.write_bytes(pack_pair(0, 7) + pack_pair(3, 2**63))
    assert read_sidecar(Split("a.jsonl", lines=str(path)), str(path)) == [(0, 7), (3, 2**63)]


@pytest.mark.parametrize("content", [None, b"", pack_pair(0, 7)[:-1]])
def test_a_sidecar_that_has_gone_or_is_cut_off(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / f"a{LINES}"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SourceError, match=r"a\.lines' can't be read"):
        read_sidecar(Split("a.jsonl", lines=str(path)), str(path))
