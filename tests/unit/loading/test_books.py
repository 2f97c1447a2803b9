"""The books of a load: what its report says has happened, has."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport.errors import InputError, LakeportError
from lakeport.loading import stream
from lakeport.loading.report import LandingReport, Observer


class Books(Observer):
    """Keeps the report of a load, also of one that fails."""

    report: LandingReport

    def on_finished(self, report: LandingReport) -> None:
        self.report = report


def singer(*records: dict[str, Any]) -> io.BytesIO:
    schema = {"properties": {"id": {"type": "integer"}}}
    messages: list[dict[str, Any]] = [
        {"type": "SCHEMA", "stream": "t", "key_properties": ["id"], "schema": schema},
        *({"type": "RECORD", "stream": "t", "record": record} for record in records),
        {"type": "STATE", "value": {"at": 7}},
    ]
    return io.BytesIO("".join(json.dumps(one) + "\n" for one in messages).encode())


def test_a_state_that_could_not_be_handed_on_did_not_go_out(tmp_path: Path) -> None:
    def refuse(_: bytes) -> None:
        raise LakeportError("nobody takes it")

    books = Books()
    with pytest.raises(LakeportError, match="nobody takes it"):
        lakeport.land(singer({"id": 1}), tmp_path, observer=books, on_state=refuse)
    assert (books.report.rows, books.report.state) == (1, None)


def test_the_records_for_which_a_load_fails_count(tmp_path: Path) -> None:
    books, keys = Books(), {"on_bad_record": "quarantine", "max_bad_records": 1}
    bad = ({"id": "x"}, {"id": "y"})
    with pytest.raises(InputError, match="2 of 3"):
        lakeport.land(singer({"id": 1}, *bad), tmp_path, observer=books, **keys)  # type: ignore[arg-type]
    assert books.report.rejected == 2 == sum(one.count for one in books.report.reasons)
    (file,) = books.report.quarantine
    assert len(Path(file).read_bytes().splitlines()) == 2


def test_lines_for_which_a_load_fails_count(tmp_path: Path) -> None:
    books, keys = Books(), {"on_bad_record": "quarantine", "max_bad_records": 0}
    lines = io.BytesIO(b"no message\n" + singer({"id": 1}).getvalue())
    with pytest.raises(InputError, match="1 of 1"):
        lakeport.land(lines, tmp_path, source_format="singer", observer=books, **keys)  # type: ignore[arg-type]
    assert books.report.stray_lines == 1


def test_nothing_is_asked_of_the_engine_once_a_batch_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster may be gone by then, and the load would be told to have failed."""
    order: list[str] = []
    commit = stream.StreamLoader._commit

    def committed(*given: Any) -> Any:
        order.append("commit")
        return commit(*given)

    monkeypatch.setattr(stream.StreamLoader, "_commit", committed)
    monkeypatch.setattr(stream, "skew_warnings", lambda *_: order.append("cores") or ())
    lakeport.land(singer({"id": 1}), tmp_path)
    assert order == ["cores", "commit"]
