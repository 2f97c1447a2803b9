"""A page's way into a file: whole or not at all."""

from __future__ import annotations

from pathlib import Path

from lakeport.errors import ConfigError
from lakeport.host.scratch import replace_whole


def check_path(path: Path) -> None:
    """Refuse a path that can't be written, before anything is done.

    Raises:
        ConfigError: it is a folder, or in none.
    """
    if path.is_dir():
        raise ConfigError(f"{path} is a folder", "name a file, such as page.html.")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"there is no folder {path.parent}", "make it, or name another file.")


def write_page(html: str, path: Path) -> None:
    """Write a document; nobody sees the half of one.

    Raises:
        ConfigError: it can't be written there.
    """
    check_path(path)
    try:
        replace_whole(path, html.encode())
    except OSError as error:
        raise ConfigError(
            f"{path} can't be written: {error.strerror}", "name another file."
        ) from None
