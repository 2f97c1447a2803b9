"""The glossary: short, in order, and true of the classes that it names."""

from __future__ import annotations

import inspect
import re

import lakeport
from tests.docs.pages import DOCS, ROOT
from tests.docs.sentences import LONGEST, word_count

PAGE = (DOCS / "glossary.md").read_text("utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.M)[1:]
PUBLIC = {name for name in lakeport.__all__ if inspect.isclass(getattr(lakeport, name))}


def test_there_are_at_most_forty_terms_in_order() -> None:
    terms = [term for term, _, _ in ROWS]
    assert 20 < len(terms) <= 40
    assert terms == sorted(terms, key=str.lower)


def test_each_meaning_is_one_short_sentence() -> None:
    for term, meaning, _ in ROWS:
        assert re.fullmatch(r"[A-Z`][^.]*\.", meaning), term
        assert word_count(meaning) <= LONGEST, term


def test_public_classes_are_in_it() -> None:
    named = {name for _, _, names in ROWS for name in re.findall(r"(?<!\*)`(\w+)`", names)}
    assert named == PUBLIC


def test_classes_of_the_code_alone_exist() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "src" / "lakeport").rglob("*.py")]
    there = {name for text in texts for name in re.findall(r"^(?:class|def) (\w+)", text, re.M)}
    named = {name for _, _, names in ROWS for name in re.findall(r"\*`(\w+)`\*", names)}
    assert named and named <= there - PUBLIC
