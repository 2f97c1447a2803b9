"""When `lakeport ui` has painted a page first: `python -m tests.browser.paint LAKE [PATH ...]`.

Milliseconds from the request to the first words on the screen, in a browser that has the style.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from tests.browser.kit import Reader, browsing
from tests.browser.lakes import Site, served

TIMES = 15
_PAINTED = """() => new Promise((tell) => new PerformanceObserver((list) => {
  for (const entry of list.getEntriesByName("first-contentful-paint")) tell(entry.startTime);
}).observe({ type: "paint", buffered: true }))"""


def main(lake: Path, paths: list[str]) -> None:
    """Open each page some times, and print the median and the most."""
    with (
        tempfile.TemporaryDirectory() as work,
        browsing(Path(work)) as browser,
        served(lake) as address,
    ):
        site, reader = Site(address), Reader(browser)
        page = site.open(reader)
        for path in paths:
            times: list[float] = []
            for _ in range(TIMES):
                page.goto(site.address(path))
                times.append(page.evaluate(_PAINTED))
            print(f"{path}: {statistics.median(times):.0f} ms, {max(times):.0f} ms at most")
        reader.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or ["/"])
