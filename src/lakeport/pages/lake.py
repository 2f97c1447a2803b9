"""The pages of a lake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from markupsafe import Markup

from lakeport.pages.page import Page, Pages
from lakeport.tables.lake import list_tables, open_lake

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig

__all__ = ["open_pages"]


def open_pages(config: DestinationConfig) -> Pages:
    """The pages of the lake that a config names.

    Raises:
        SourceError: it is no folder of this machine.
        DestinationError: the store refused.
    """
    return _Lake(config)


class _Lake:
    def __init__(self, config: DestinationConfig) -> None:
        self._storage, self._folder = open_lake(config)

    def page(self, path: str, query: Mapping[str, str]) -> Page | None:
        if path != "/":
            return None
        names = [table.name for table in list_tables(self._storage, self._folder)]
        return Page(path, "Lake", Markup("<li>").join(["", *names]))

    def document(self, page: Page) -> str:
        return Markup("<!doctype html><title>{}</title>{}").format(page.title, page.body)

    def asset(self, name: str) -> tuple[str, bytes] | None:
        return None
