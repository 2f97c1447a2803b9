"""Where files are kept from run to run."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder for jars and class archives; it need not exist yet.

    `$LAKEPORT_CACHE`, else `$XDG_CACHE_HOME/lakeport`, else `~/.cache/lakeport`.
    """
    if own := os.environ.get("LAKEPORT_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(shared) if Path(shared).is_absolute() else Path.home() / ".cache"
    return base / "lakeport"
