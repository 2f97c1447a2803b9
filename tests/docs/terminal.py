"""Pictures of a terminal for the pages: `python -m tests.docs.terminal` plays the commands anew.

A test plays them, too, and compares the texts; run ids, times and sizes may differ.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pyte
from pyte.screens import Char
from rich.console import Console
from rich.style import Style
from rich.text import Text

from examples.first_ten_minutes.terminal import LINES, play
from tests.docs.pages import DOCS
from tests.faults.kit import environment

FOLDER = DOCS / "pictures"
COLUMNS = 100
FILES = {
    "flights.csv": "day,carrier,delay\n"
    "2013-01-01,UA,2.5\n2013-01-01,AA,33\n2013-01-02,B6,-1\n2013-01-02,UA,\n",
    "january.csv": "id,price\n1,10\n",
    "february.csv": "id,price\n2,7\n3,12.5\n",
}
_FONT = re.compile(r"@font-face \{.*?\}", re.S)
_VARIES = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}|\d+(\.\d+)?(\s[KM]?B\b)?")
_COLORS = {"default": "default", "brown": "yellow"}  # pyte's names, and Rich's


@dataclass(frozen=True)
class Picture:
    """What is shown in one picture: the last of its commands, in the folder of all."""

    name: str
    commands: tuple[str, ...]
    exit_code: int = 0

    @property
    def file(self) -> Path:
        return FOLDER / f"terminal-{self.name}.svg"


PICTURES = (
    Picture("land", ("lakeport land flights.csv --to ./lake --partition-by day",)),
    Picture("table", ("lakeport table show ./lake/flights",)),
    Picture(
        "error",
        (
            "lakeport land january.csv --to ./lake --table prices",
            "lakeport land february.csv --to ./lake --table prices",
        ),
        exit_code=4,
    ),
    Picture("tables", ("lakeport tables ./lake",)),
)


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for picture, drawn in drawn_anew():
        picture.file.write_text(drawn, encoding="utf-8")
        print(f"wrote {picture.file}")


def drawn_anew() -> Iterator[tuple[Picture, str]]:
    """Each picture, played now."""
    with tempfile.TemporaryDirectory(prefix="lakeport-terminal-") as name:
        folder = Path(name)
        for file, text in FILES.items():
            (folder / file).write_text(text, encoding="utf-8")
        here = Path(sys.executable).parent  # of the `lakeport` that goes with this Python
        settings = environment(
            {
                "LAKEPORT_WARM": "off",
                "LC_ALL": "C.UTF-8",
                "PATH": f"{here}:{os.environ['PATH']}",
                "TERM": "xterm-256color",
            }
        )
        for picture in PICTURES:
            yield picture, _drawn(picture, folder, settings)


def text(drawing: str) -> str:
    """What a picture says, without what differs from run to run.

    >>> text("<svg><text>4 rows landed in</text><text> 0.2 s</text></svg>")
    '# rows landed in # s'
    """
    found = ElementTree.fromstring(drawing).iter()
    words = "".join(each.text or "" for each in found if each.tag.endswith("text"))
    return re.sub(r"\s+", " ", _VARIES.sub("#", words)).strip()


def _drawn(picture: Picture, folder: Path, settings: Mapping[str, str]) -> str:
    """The drawing of the last command's terminal."""
    for command in picture.commands:
        played = play(command, COLUMNS, folder, settings)
    assert played.exit_code == picture.exit_code, played.output.decode()
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")), soft_wrap=True)
    for line in _lines(played.output):
        console.print(line, soft_wrap=True)
    drawing = console.export_svg(title="lakeport", unique_id=f"terminal-{picture.name}")
    # Rich names a font on another host; every machine has one of its own.
    drawing = _FONT.sub("", drawing).replace("Fira Code, monospace", "monospace")
    return "".join(f"{line.rstrip()}\n" for line in drawing.splitlines() if line.strip())


def _lines(output: bytes) -> list[Text]:
    """What is on the terminal once a command has ended, with its colors."""
    terminal = pyte.Screen(COLUMNS, LINES * 4)
    pyte.ByteStream(terminal).feed(output)
    rows = [terminal.buffer[number] for number in range(terminal.cursor.y)]
    return [_line([row[column] for column in range(COLUMNS)]) for row in rows]


def _line(cells: list[Char]) -> Text:
    parts = itertools.groupby(cells, key=_style)
    line = Text.assemble(*(("".join(cell.data for cell in run), style) for style, run in parts))
    line.rstrip()
    return line


def _style(cell: Char) -> Style:
    color = _COLORS.get(cell.fg, cell.fg.replace("bright", "bright_"))
    color = f"#{color}" if re.fullmatch("[0-9a-f]{6}", color) else color
    return Style(color=color, bold=cell.bold, italic=cell.italics)


if __name__ == "__main__":
    main()
