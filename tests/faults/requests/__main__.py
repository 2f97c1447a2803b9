"""Every fault at every request, for as long as it takes: `python -m tests.faults.requests`.

The order is drawn from the seed. What was tried is kept, and left out when the run is taken up
again with the same results file. The exit code is 1 if a case breaks a promise.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tests.faults.requests.case import Case
from tests.faults.requests.results import Results, write_table
from tests.faults.requests.scenario import Scenario, scenarios
from tests.faults.requests.session import running

_ROUND = 12


def main() -> int:
    """Run cases; return the exit code."""
    options = _options()
    os.environ["LAKEPORT_CDS"] = "use"  # no background work beside the cases
    results = Results(options.results)
    print(f"seed {options.seed}, {len(results.known)} cases known in {options.results}", flush=True)
    with tempfile.TemporaryDirectory() as data, running(Path(data)) as found:
        chosen = [s for s in scenarios(found.values()) if _fits(str(s), options.only)]
        try:
            _try_all(chosen, options, results)
        except KeyboardInterrupt:
            print("ended; the same results file takes it up", flush=True)
    known = results.known.values()
    if options.table:
        write_table(known, options.table)
    broken = [entry["case"] for entry in known if entry["wrong"]]
    met = sum(entry["met"] for entry in known)
    print(f"{met} cases tried, {len(broken)} break a promise")
    if broken:
        print(f"one alone: python -m tests.faults.requests --again --only {broken[0]!r}")
    return 1 if broken else 0


def _try_all(chosen: Sequence[Scenario], options: argparse.Namespace, results: Results) -> None:
    end = time.monotonic() + options.minutes * 60
    for scenario, case in _in_turn(chosen, options, results):
        result = scenario.run(case)
        results.add(str(case), result)
        if result.wrong:
            print(f"BROKEN {case}\n  " + "\n  ".join((*result.wrong, result.words)), flush=True)
        if time.monotonic() > end:
            break


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.requests", description=__doc__)
    parser.add_argument(
        "--only",
        default="*",
        help="an id, or patterns of its first parts: destination:operation:...",
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the order")
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after so many")
    parser.add_argument(
        "--results", type=Path, default=Path(".soak/faults.jsonl"), help="where results are kept"
    )
    parser.add_argument("--again", action="store_true", help="run what is known once more, too")
    parser.add_argument("--table", type=Path, help="a page to write the table of results into")
    return parser.parse_args()


def _in_turn(
    chosen: Sequence[Scenario], options: argparse.Namespace, results: Results
) -> Iterator[tuple[Scenario, Case]]:
    """Some cases of each scenario, then some more, in an order that the seed draws."""
    draw = random.Random(options.seed)
    waiting: list[tuple[Scenario, list[Case] | None]] = [(one, None) for one in chosen]
    while waiting:
        draw.shuffle(waiting)
        left: list[tuple[Scenario, list[Case] | None]] = []
        for scenario, cases in waiting:
            if cases is None:
                cases = [
                    case
                    for case in scenario.cases()
                    if _fits(str(case), options.only)
                    and (options.again or str(case) not in results.known)
                ]
                draw.shuffle(cases)
            for case in cases[:_ROUND]:
                yield scenario, case
            if cases[_ROUND:]:
                left.append((scenario, cases[_ROUND:]))
        waiting = left


def _fits(identity: str, pattern: str) -> bool:
    """Whether each part of an id fits the pattern's part, as far as both go."""
    return all(map(fnmatchcase, identity.split(":"), pattern.split(":")))


if __name__ == "__main__":
    sys.exit(main())
