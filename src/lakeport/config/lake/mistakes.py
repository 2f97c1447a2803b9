"""The mistakes of a file, each with its place, told together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from lakeport.config.places import Document, Place
from lakeport.errors import ConfigError

Made = TypeVar("Made")

_HINT = "`lakeport docs lake-file` tells what each key means."


@dataclass
class Mistakes:
    """What is wrong with a file so far.

    Attributes:
        name: how errors call the file.
        document: tells where keys stand.
    """

    name: str
    document: Document
    _found: dict[tuple[Place, str], str] = field(default_factory=dict)

    def add(self, path: tuple[str | int, ...], text: str, hint: str = "") -> None:
        """Note one mistake; another one at the same place is likely its consequence.

        Args:
            path: the key, or the item of a list, that is wrong.
            text: what is wrong.
            hint: what to do about it.
        """
        place = self.document.place(*path)
        if any(place == other for other, _ in self._found):
            return
        load = f"load {path[1]!r}: " if path[0:1] == ("loads",) and len(path) > 1 else ""
        self._found[place, load + text] = hint

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Note what the body finds wrong with the keys that stand there."""
        try:
            yield
        except ConfigError as error:
            for below, text, hint in error.problems:
                self.add((*path, *below), text, hint)
            if not error.problems:
                self.add(path, error.message, error.hint)

    def tried(self, path: tuple[str | int, ...], make: Callable[[], Made]) -> Made | None:
        """What is made of the keys that stand there; None, and noted, if something is wrong."""
        with self.at(*path):
            return make()
        return None  # type: ignore[unreachable]  # `at` goes on behind an error

    def check(self) -> None:
        """End here if there is a mistake.

        Raises:
            ConfigError: it tells all, by line.
        """
        found = sorted(self._found.items(), key=lambda each: each[0])
        if not found:
            return
        if len(found) == 1:
            ((place, text), hint), *_ = found
            raise ConfigError(f"{self.name}, {place}: {text}", hint or _HINT)
        lines = "".join(f"\n  - {place}: {text}" for (place, text), _ in found)
        raise ConfigError(f"{self.name} has {len(found)} mistakes:{lines}", _HINT)
