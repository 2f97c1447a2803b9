"""Results of cases: kept in a file line by line, so that a run can be taken up, and as a table."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.faults.requests.case import Result
from tests.faults.requests.faults import FAULTS, FILE_FAULTS, KILLS

_MARKS = ("<!-- results -->\n", "<!-- end -->")


class Results:
    """What each case came to, in a file of JSON lines.

    Args:
        path: the file; it need not be there.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self.known: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                self.known[entry["case"]] = entry

    def add(self, case: str, result: Result) -> None:
        """Keep a result; it counts instead of an older one."""
        entry = {"case": case, **asdict(result)}
        self.known[case] = entry
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def write_table(results: Iterable[Mapping[str, Any]], page: Path) -> None:
    """Write the table of results into a page, between its marks."""
    before, rest = page.read_text().split(_MARKS[0])
    page.write_text(before + _MARKS[0] + _table(results) + _MARKS[1] + rest.split(_MARKS[1])[1])


def _table(results: Iterable[Mapping[str, Any]]) -> str:
    """A Markdown table: destination and operation by fault, each `survived / tried`.

    Cases whose request never came are left out.
    """
    tried: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    survived: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for entry in results:
        if entry["met"]:
            site, operation, kind, rest = entry["case"].split(":", 3)
            row = (site, f"{operation}, {kind.replace('-', ' ')}")
            fault = rest.rpartition(":")[2]
            tried[row][fault] += 1
            survived[row][fault] += not entry["wrong"]
    known = (*FAULTS, *FILE_FAULTS, *KILLS)
    columns = [name for name in known if any(name in row for row in tried.values())]
    lines = [
        f"| destination | operation | {' | '.join(columns)} | all |",
        f"|---|---|{'---|' * (len(columns) + 1)}",
    ]
    for row in sorted(tried):
        cells = [_cell(survived[row][name], tried[row][name]) for name in columns]
        cells.append(_cell(survived[row].total(), tried[row].total()))
        lines.append(f"| {' | '.join((*row, *cells))} |")
    return "\n".join(lines) + "\n"


def _cell(survived: int, tried: int) -> str:
    return f"{survived} / {tried}" if tried else ""
