"""A page's way into a file: whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from lakeport.errors import ConfigError

__all__ = ["check_path", "write_page"]


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
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(html, "utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ConfigError(
            f"{path} can't be written: {error.strerror}", "name another file."
        ) from None
