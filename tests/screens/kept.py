"""Screens as they are kept: what differs from run to run has a placeholder of the same width."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.first_ten_minutes.player import Player
from examples.first_ten_minutes.screen import screen
from examples.first_ten_minutes.script import STEPS, Step
from lakeport.cli.output.formatting import text_width
from tests.faults.kit import environment as ours
from tests.warm.kit import Warm, cache

WIDTHS = (60, 120)
FOLDER = Path(__file__).parent / "kept"
_WIDE = 2_000
_SETTINGS = {"LAKEPORT_CDS": "use", "LC_ALL": "C.UTF-8", "TZ": "UTC"}

_RUN = re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b")
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_FRACTION = re.compile(r"(?<=s)\.\d{6}")
_SIZE = re.compile(r"\b\d+(?:\.\d)? (?=(?:K|M)?B\b)")
_SECONDS = re.compile(r"\b\d+\.\d(?= s\b)")
_SPARK = re.compile(r"(?<=local\[)\d+(?=\])|(?<=local-)\d{13}")  # its cores, its application
_VERSION = re.compile(r"(?<=lakeport[ /])\d+\.\d+\.\d+\S*")


def played(columns: int, kept: Path) -> Iterator[tuple[Step, bytes]]:
    """Each step with what its command wrote; the exit code was what it should be.

    Args:
        columns: how wide the terminal is.
        kept: lakeport's cache, with a warm session in it, through which commands go that can.
    """
    with tempfile.TemporaryDirectory(prefix="lakeport-first-") as folder:
        player = Player(Path(folder), columns, environment(kept))
        for step in STEPS:
            done = player.play(step, {"LAKEPORT_WARM": "require"})
            told = done.output.decode(errors="replace")
            assert done.exit_code == step.exit_code, f"{step.command}\n{told}"
            yield step, done.output


def text(step: Step, output: bytes, columns: int) -> str:
    """A screen as it is kept: what is typed, and below it what is to be seen."""
    return f"$ {step.command}\n{masked(screen(output, columns))}\n"


def masked(seen: str) -> str:
    """A screen without what differs from run to run.

    >>> masked("1 row landed in 12.3 s, run 20240304-163045-ab12cd")
    '1 row landed in #.# s, run YYYYMMDD-hhmmss-xxxxxx'
    """
    seen = _RUN.sub("YYYYMMDD-hhmmss-xxxxxx", seen)
    seen = _MOMENT.sub(lambda found: f"YYYY-MM-DD{found[0][10]}hh:mm:ss", seen)
    seen = _FRACTION.sub(".ffffff", seen)
    seen = _SIZE.sub(lambda found: re.sub(r"\d", "#", found[0]), seen)
    seen = _VERSION.sub("#.#.#", _SPARK.sub(lambda found: "#" * len(found[0]), seen))
    return "\n".join(_without_seconds(_SECONDS.sub("#.#", seen).split("\n")))


def _without_seconds(lines: list[str]) -> Iterator[str]:
    """The lines, with seconds replaced in the columns of tables and the facts of that name."""
    end = 0
    for line in lines:
        if found := re.search(r"\bseconds(?=  |$)", line.rstrip()):
            end = found.end() if found.start() > 2 else 0
            yield re.sub(r"^(  seconds +)\d+(\.\d+)?$", r"\1#.###", line)
            continue
        if not line or line.startswith("  "):
            end = 0
        if end and (cell := re.search(r" *\d+\.\d$", line[:end])):
            line = line[: cell.start()] + "#.#".rjust(end - cell.start()) + line[end:]
        yield line


def too_wide(output: bytes, columns: int) -> list[str]:
    """Lines that a terminal had to break, without those of one word, as a path, or one command."""
    lines = screen(output, _WIDE).split("\n")
    whole = re.compile(r"\S+|`lakeport [^`]+`\S*")
    return [
        line for line in lines if text_width(line) > columns and not whole.fullmatch(line.strip())
    ]


def environment(kept: Path) -> dict[str, str]:
    """What the commands find: nothing that this process was told of lakeport."""
    return ours(Warm(kept).environment(_SETTINGS))


@contextmanager
def warm() -> Iterator[Path]:
    """A cache folder with a warm session."""
    with (
        tempfile.TemporaryDirectory(prefix="lakeport-warm-") as folder,
        Warm(cache(Path(folder))) as session,
    ):
        done = session.run("warm", "start", env=_SETTINGS)
        assert done.code == 0, done.err
        yield session.cache


def file(step: Step, columns: int) -> Path:
    """Where a step's screen is kept."""
    return FOLDER / str(columns) / f"{step.name}.txt"
