"""How the pages are written: short sentences, and first what the reader can do with the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.docs.sentences import LONGEST, prose_pages, sentences

each_page = pytest.mark.parametrize("page", prose_pages(), ids=lambda p: str(p.relative_to(ROOT)))
GUIDES = [page for page in prose_pages() if page.parent.name != "errors"]
"""The pages of single errors begin with the error's message."""


@each_page
def test_no_sentence_is_long(page: Path) -> None:
    assert [str(each) for each in sentences(page) if each.words > LONGEST] == []


@pytest.mark.parametrize("page", [p for p in GUIDES if p.parent == DOCS], ids=lambda p: p.name)
def test_a_page_begins_with_a_sentence(page: Path) -> None:
    """What the reader can do with the page stands before the first example."""
    title, _, text = page.read_text("utf-8").lstrip().partition("\n")
    assert title.startswith("# ")
    assert re.match(r"\s*\w", text), "an example, a table or a heading is first"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def test_sentences_are_found(tmp_path: Path) -> None:
    page = DOCS / "page.md"
    text = (
        "# A title that is no sentence\n\n<!-- generated: x -->\n| no. prose. |\n<!-- end -->\n"
        "One [of two. words](x.md#a.b) and\nits end. lakeport `a.b c` does. e.g. this\n"
        "- An item. (Two.)\n\n```console\n$ not this. or this\n```\n"
    )
    (tmp_path / "page.md").write_text(text)
    found = [(each.text, each.words) for each in sentences(tmp_path / "page.md")]
    assert page not in prose_pages()
    assert found == [
        ("One of two", 3),
        ("words and its end", 4),
        ("lakeport `a·b c` does", 3),
        ("e.g. this", 2),
        ("An item", 2),
        ("(Two.)", 1),
    ]
