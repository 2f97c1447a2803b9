"""The pictures of a terminal show what a terminal shows, and ask no other host for anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.pages import DOCS
from tests.docs.terminal import PICTURES, Picture, drawn_anew, text

DRAWINGS = sorted(DOCS.rglob("*.svg"))


@pytest.fixture(scope="module")
def anew() -> Mapping[Picture, str]:
    return dict(drawn_anew())


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_shows_what_is_on_the_terminal(
    picture: Picture, anew: Mapping[Picture, str]
) -> None:
    kept = text(picture.file.read_text("utf-8"))
    assert kept == text(anew[picture]), "run `python -m tests.docs.terminal`"


def test_a_changed_word_would_be_found(anew: Mapping[Picture, str]) -> None:
    drawn = anew[PICTURES[0]]
    assert text(drawn.replace("landed", "laid")) != text(drawn)


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.name)
def test_drawings_ask_no_other_host(path: Path) -> None:
    drawing = ElementTree.parse(path)
    for element in drawing.iter():
        asked = [value for name, value in element.attrib.items() if name.endswith(("href", "src"))]
        assert not [value for value in asked if re.match(r"(https?:)?//", value)]
        assert not re.search(r"@import|url\(['\"]?(https?:)?//", element.text or "")
