"""Builds the site from docs/: `python -m scripts.site [FOLDER]`, in the environment of `make site`.

The pages stay as GitHub shows them. What a site needs besides is made on the way: see `staging`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.site.checks import requests_elsewhere
from scripts.site.staging import config, stage


def main(folder: Path) -> int:
    """Build the site into a folder that it replaces; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="lakeport-site-") as name:
        work = Path(name)
        stage(work / "docs")
        (work / "mkdocs.yml").write_text(config(work / "docs"), "utf-8")
        zensical = Path(sys.executable).with_name("zensical")
        # Warnings are errors: links and anchors without a target, names without a docstring's home.
        done = subprocess.run([zensical, "build", "--strict"], cwd=work)
        if done.returncode:
            return done.returncode
        if found := requests_elsewhere(work / "site"):
            print(*(f"asks another host: {each}" for each in found), sep="\n")
            return 1
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(work / "site", folder)
    print(f"{folder.resolve() / 'index.html'}: {len(list(folder.rglob('*.html')))} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "site")))
