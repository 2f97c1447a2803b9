"""Pages of the documentation on a terminal."""

from __future__ import annotations

import pytest

from lakeport.cli.guide.pages import pages, print_markdown


@pytest.mark.parametrize("name", ["errors/SchemaConflict", "concepts"])
def test_a_page_begins_at_the_left_and_names_commands_for_its_links(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    print_markdown(pages()[name].read_text("utf-8"), name)
    seen = capsys.readouterr().out
    assert seen.startswith(pages()[name].read_text("utf-8").partition("\n")[0].lstrip("# "))
    assert "lakeport docs " in seen and ".md" not in seen
    assert all(len(line) <= 60 for line in seen.splitlines())
