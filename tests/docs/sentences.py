"""The prose of a page, cut into sentences: no code, tables, headings or link targets.

`python -m tests.docs.sentences [PAGE ...]` lists the sentences that are too long.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import DOCS, ROOT

LONGEST = 25
"""Words in the longest sentence that a page may have; code in backticks is one word."""

_LEFT_OUT = re.compile(
    r"^ *(?P<fence>```|~~~).*?^ *(?P=fence)$|<!-- generated.*?<!-- end -->|<!--.*?-->", re.M | re.S
)
_NO_PROSE = re.compile(r" *(?:\||#|<|!\[|-{3,}$)")
_ITEM = re.compile(r" *(?:[-*]|\d+\.) +")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)")
_CODE = re.compile(r"`[^`]+`")
_END = re.compile(r"(?<!e\.g)(?<!i\.e)[.!?][\"')*_]*\s+")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a page, with the line on which its paragraph begins."""

    page: Path
    line: int
    text: str

    @property
    def words(self) -> int:
        """The number of words; see `word_count`."""
        return word_count(self.text)

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}: {self.words} words: {self.text}"


def word_count(text: str) -> int:
    """Count the words of a text: code in backticks is one, punctuation between spaces is none.

    >>> word_count("lakeport does `a b` - well")
    4
    """
    return len(re.findall(r"\S*\w\S*", _CODE.sub("code", text)))


def prose_pages() -> list[Path]:
    """Return README and the pages of `docs` that people write, without records and benchmarks."""
    generated = {DOCS / "cli.md"}
    found = [
        page
        for page in sorted(DOCS.rglob("*.md"))
        if page not in generated and page.parent.name not in {"adr", "benchmarks"}
    ]
    return [ROOT / "README.md", *found]


def sentences(page: Path) -> Iterator[Sentence]:
    """Yield the sentences of a page's paragraphs and list items."""
    text = _LEFT_OUT.sub(lambda found: "\n" * found[0].count("\n"), page.read_text("utf-8"))
    for line, paragraph in paragraphs(text):
        words = _CODE.sub(_without_stops, _LINK.sub(r"\1", paragraph))
        for sentence in _END.split(words):
            if sentence.strip():
                yield Sentence(page, line, sentence.strip())


def _without_stops(code: re.Match[str]) -> str:
    """Return a span of code in which no sentence ends."""
    return re.sub(r"[.!?]", "·", code[0])


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph or list item with the number of its first line."""
    first, gathered = 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        item = _ITEM.match(line)
        if gathered and (item or not line.strip() or _NO_PROSE.match(line)):
            yield first, " ".join(gathered)
            gathered = []
        if line.strip() and not _NO_PROSE.match(line):
            first = first if gathered else number
            gathered.append(line[item.end() :] if item else line.strip())


def main(names: list[str]) -> None:
    """Print the sentences that are too long, of these pages or of all."""
    for page in [Path(name).resolve() for name in names] or prose_pages():
        for sentence in sentences(page):
            if sentence.words > LONGEST:
                print(sentence)


if __name__ == "__main__":
    main(sys.argv[1:])
