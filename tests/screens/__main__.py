"""Writes the screens anew, all or those of steps that are named: `git diff` shows what changed."""

from __future__ import annotations

import os
import sys

from tests.screens.kept import WIDTHS, file, played, text, warm


def main(wanted: list[str]) -> None:
    """Play the script, and write what is to be seen."""
    os.environ.setdefault("LAKEPORT_ENGINE", "spark")  # as the tests do
    with warm() as cache:
        for columns in WIDTHS:
            for step, output in played(columns, cache):
                if not wanted or step.name in wanted:
                    path = file(step, columns)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text(step, output, columns), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
