"""What a session does while nobody waits."""

from __future__ import annotations

import pytest

from lakeport.warm import session


def test_what_runs_import_is_imported_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(session, "import_module", done.append)
    monkeypatch.setattr("lakeport.storage.sdks.preload", lambda: done.append("preload"))
    monkeypatch.setattr(session.gc, "freeze", lambda: done.append("freeze"))
    counts = []
    for _ in session._preparation():
        counts.append(len(done))
    assert counts == list(range(1, len(done)))  # somebody may be answered after each
    assert {"lakeport.cli.land", "lakeport.writers.delta.sink", "rich.console"} <= set(done)
    assert done[-2:] == ["preload", "freeze"]
    assert not [name for name in done if name.endswith("__main__")]
