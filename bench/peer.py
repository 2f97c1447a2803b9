"""The peers' scripts, and the environment of their own that they run in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent / "peers"
_PACKAGES = (
    "dlt[filesystem,deltalake]==1.31.0",
    "deltalake==1.1.4",
    "duckdb==1.4.1",
    "pyarrow==21.0.0",
    "pytz",
    "s3fs",
)


def peer(script: str, *arguments: str) -> tuple[str, ...]:
    """The command of a peer's script; makes the environment in the cache folder, once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakeport"
    folder = cache / "bench-peers"
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *_PACKAGES], check=True)
        (folder / ".ready").touch()
    return (str(python), str(SCRIPTS / script), *arguments)
