"""The pages as the site's generator wants them, in a folder of their own.

Four things differ from GitHub's Markdown: links that lead out of docs/ go to the repository, a
folder is linked by its first page, a fence has one word, and a pipe in a table's code needs no
backslash. The API reference and the list of the decisions are written besides.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from scripts.site.reference import reference
from tests.docs.pages import DOCS, ROOT, pages

HERE = Path(__file__).parent
REPOSITORY = "https://github.com/lakeport/lakeport"

_FENCE = re.compile(r"^(?P<open> *```\w*)[^\n]*\n(?P<text>.*?)^ *```$", re.M | re.S)
_LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s]+)(?=\))")
_MARK = re.compile(r"^<!-- .* -->\n", re.M)
_ROW = re.compile(r"^\|.*$", re.M)
_FOLDER = re.compile(r"^(?P<indent> *- )(?P<folder>[\w-]+)/$", re.M)


def stage(folder: Path) -> None:
    """Write all pages into a new folder, with what they show and the site's own files."""
    shutil.copytree(DOCS, folder)
    for page in pages():
        if page.is_relative_to(DOCS):
            target = folder / page.relative_to(DOCS)
            target.write_text(staged(page.read_text("utf-8"), page), "utf-8")
    for name, text in reference().items():
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, "utf-8")
    (folder / "adr" / "index.md").write_text(decisions(), "utf-8")
    for own in ("iframe-worker.js", "site.css"):
        shutil.copy(HERE / own, folder)


def staged(text: str, page: Path) -> str:
    """A page's text for the site.

    >>> staged("[why](../bench/peers/pins.toml)", DOCS / "sizing.md")
    '[why](https://github.com/lakeport/lakeport/blob/main/bench/peers/pins.toml)'
    """
    begin, parts = 0, []
    for fence in _FENCE.finditer(text):
        parts += [_prose(text[begin : fence.start()], page), f"{fence['open']}\n"]
        begin = fence.start("text")
        parts.append(text[begin : fence.end()])
        begin = fence.end()
    return "".join([*parts, _prose(text[begin:], page)])


def _prose(text: str, page: Path) -> str:
    text = _LINK.sub(lambda found: _linked(found["target"], page), _MARK.sub("\n", text))
    return _ROW.sub(lambda row: re.sub(r"`[^`]+`", _unescaped, row[0]), text)


def _unescaped(code: re.Match[str]) -> str:
    return code[0].replace("\\|", "|")


def _linked(link: str, page: Path) -> str:
    """A link of a page, as the site has it."""
    name, _, anchor = link.partition("#")
    if re.match(r"[a-z]+:", link) or not name:
        return link
    target = (page.parent / name).resolve()
    if not target.is_relative_to(DOCS):
        kind = "tree" if target.is_dir() else "blob"
        path = f"{REPOSITORY}/{kind}/main/{target.relative_to(ROOT)}"
        return f"{path}#{anchor}" if anchor else path
    return f"{name.rstrip('/')}/index.md" if target.is_dir() else link


def decisions() -> str:
    """The page that lists the decision records."""
    lines = ["# Decisions", "", "What was decided, at which price, with the figures behind it.", ""]
    for page in sorted((DOCS / "adr").glob("*.md")):
        lines.append(f"- [{title(page.read_text('utf-8'))}]({page.name})")
    return "\n".join([*lines, ""])


def title(text: str) -> str:
    """A page's title: its first heading."""
    return text.partition("\n")[0].removeprefix("# ")


def config(docs: Path) -> str:
    """The generator's config, with the pages of folders where it names a folder."""
    text = (HERE / "mkdocs.yml").read_text("utf-8")
    text = text.replace("SOURCE", str(ROOT / "src")).replace("HERE", str(HERE))

    def listed(found: re.Match[str]) -> str:
        folder = docs / found["folder"]
        names = sorted(str(page.relative_to(docs)) for page in folder.glob("*.md"))
        return "\n".join(f"{found['indent']}{name}" for name in names if f"- {name}\n" not in text)

    whole = _FOLDER.sub(listed, text)
    named = set(re.findall(r"- ([\w/.-]+\.md)$", whole, re.M))
    there = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    if named != there:
        raise SystemExit(f"scripts/site/mkdocs.yml and docs/ differ in {sorted(named ^ there)}")
    return whole
