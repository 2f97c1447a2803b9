"""`python -m tests.browser.screenshots`: takes the pictures of the pages that README and docs show.

The lake is the demo's, as `make demo` leaves it. Where it lies on this machine is left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import lakeport
from tests.browser.kit import THEMES, browsing, picture

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
WINDOW = {"width": 1200, "height": 900}
_SHORTEN = """folder => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    texts.currentNode.data = texts.currentNode.data.replaceAll(folder, ".");
  }
}"""


def main() -> None:
    """Take all pictures, in both themes."""
    with tempfile.TemporaryDirectory() as work, browsing(Path(work)) as browser:
        lake = Path(work, "lake")
        subprocess.run([sys.executable, ROOT / "examples" / "demo.py", lake], check=True)
        run = next(run.name for run in lakeport.runs(lake) if run.streams == ("flights",))
        lakeport.page(lake, Path(work, "lake.html"))
        wanted = {"lake": "/", "table": "/table/flights_by_month", "run": f"/run/{run}"}
        for name, path in wanted.items():
            for theme in THEMES:
                page = browser.new_page(viewport=WINDOW, color_scheme=theme, locale="en-US")
                page.goto(f"{Path(work, 'lake.html').as_uri()}#{path}")
                page.evaluate(_SHORTEN, str(work))
                picture(page, PICTURES / f"{name}-{theme}.png")
                page.close()


if __name__ == "__main__":
    main()
