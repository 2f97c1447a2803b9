"""Markdown pages, cut into what the tests look at."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S
)
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
_PICTURE = re.compile(r"!\[([^\]\n]*)\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.M)


@dataclass(frozen=True)
class Block:
    """A fenced block: the info string's words, and where it stands."""

    page: Path
    line: int
    words: tuple[str, ...]
    text: str

    @property
    def language(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def runs(self) -> bool:
        return "run" in self.words[1:]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Every page, those at the top of the repository too."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
    return [*top, *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text("utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page, line, tuple(found["info"].split()), found["text"])


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def links(page: Path) -> list[str]:
    """The targets of a page's links."""
    return _LINK.findall(prose(page))


def pictures(page: Path) -> list[tuple[str, str]]:
    """A page's pictures: what is to be read in their place, and their files."""
    return _PICTURE.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """The names that a page's headings can be linked by."""
    return {slug(heading) for heading in _HEADING.findall(prose(page))}


def slug(heading: str) -> str:
    """A heading's anchor.

    >>> slug("Bad lines, and `RECORD` before SCHEMA")
    'bad-lines-and-record-before-schema'
    """
    kept = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
    return kept.strip().replace(" ", "-")


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """The command lines of a console block, each with the output shown below it."""
    command, output = "", list[str]()
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, "\n".join(output)
            command, output = line[2:], []
        elif command.endswith("\\") and not output:
            command = command[:-1] + line.strip()
        elif command:
            output.append(line)
    if command:
        yield command, "\n".join(output)


def lakeport_arguments(command: str) -> Iterator[list[str]]:
    """The arguments of every `lakeport` in a shell command, without comments and redirections.

    >>> list(lakeport_arguments("tap | lakeport target local --config a.yaml > state  # STATE"))
    [['target', 'local', '--config', 'a.yaml']]
    """
    words = shlex.shlex(command, posix=False, punctuation_chars="|&;<>")
    words.whitespace_split = True
    words.commenters = "#"
    current: list[str] | None = None
    skip = False
    for word in [*words, ";"]:
        if set(word) <= set("|&;"):
            if current is not None:
                yield current
            current = None
        elif set(word) <= set("<>"):
            skip = True
        elif skip:
            skip = False
        elif current is not None:
            current += shlex.split(word)
        elif word == "lakeport":
            current = []
