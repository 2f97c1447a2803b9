"""A page, and who gives pages by their paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class Page:
    """One page, without the frame around it.

    Attributes:
        path: such as `/`, `/table/silver/flights` or `/run/20240501-103000-1a2b3c4d`.
        title: names it among others.
        body: what is in its `<main>`.
    """

    path: str
    title: str
    body: Markup


class Pages(Protocol):
    """Gives pages, each made anew from what the store has."""

    def page(self, path: str, query: Mapping[str, str]) -> Page | None:
        """The page at a path, percent-decoded; None where there is none.

        Raises:
            LakeportError: it can't be told.
        """

    def document(self, page: Page) -> str:
        """The whole HTML document of a page, with links to the style and the script."""

    def asset(self, name: str) -> tuple[str, bytes] | None:
        """Media type and contents of a file that documents link to, such as `theme.css`."""
