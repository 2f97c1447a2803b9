"""`python -m bench` (`make bench-peers`): lakeport beside its peers, on the same data, in one run.

Each run is a whole process, start and exit included. The results go into a JSON file, run by run: a
command that was stopped goes on where it was. The page and its plots are drawn from that file.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from bench import comparison, data, page
from bench.contestants import CONTESTANTS
from bench.environments import class_archive
from bench.machine import about
from bench.measure import environment
from bench.measurements import MEASUREMENTS
from bench.places import places
from bench.results import OtherMachine, Results

SUFFIXES = {"k": 1_000, "M": 1_000_000}


def records(text: str) -> int:
    """A number of records, such as `10k` or `2M`."""
    factor = SUFFIXES.get(text[-1:], 1)
    return round(float(text[:-1] if factor > 1 else text) * factor)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    add = found.add_argument
    sizes = [records(size) for size in ("10k", "200k", "2M", "20M")]
    add("--sizes", nargs="*", type=records, default=sizes, help="records: 10k 200k 2M 20M")
    add("--inputs", nargs="*", choices=data.FORMS, default=[*data.FORMS])
    add("--targets", nargs="*", choices=("local", "minio"), default=["local", "minio"])
    add("--formats", nargs="*", choices=("parquet", "delta"), default=["parquet", "delta"])
    add("--contestants", nargs="*", choices=CONTESTANTS, default=[*CONTESTANTS])
    add("--measurements", nargs="*", choices=MEASUREMENTS, default=[*MEASUREMENTS])
    add("--gigabytes", nargs="*", type=float, default=[0.1, 1, 5, 20], help="of the growth")
    add("--rounds", type=int, default=3, help="runs of each cell; their median counts")
    add("--limit", type=float, default=900, help="seconds after which a run is stopped")
    add("--scale", type=float, default=1, help="of the measurements' sizes; less to try them")
    add("--folder", type=Path, default=page.FOLDER, help="of results, page and plots")
    add("--note", default="", help="what a reader should know, such as that the machine was busy")
    add("--work", type=Path, default=Path("lake-bench"), help="for inputs and local targets")
    add("--render", action="store_true", help="draw page and plots anew, and measure nothing")
    return found


def main() -> None:
    """Measure what is asked for, and draw the page."""
    options = parser().parse_args()
    if options.render:
        page.render(Results.read(options.folder / "results.json"))
        return
    # Stopped, too, it stops the server and the session that it has started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        results = Results.resumed(options.folder / "results.json", about(options.note))
    except OtherMachine as error:
        sys.exit(str(error))
    asked = comparison.Asked(
        sizes=options.sizes,
        inputs=options.inputs,
        targets=options.targets,
        formats=options.formats,
        contestants=options.contestants,
        rounds=options.rounds,
        limit=options.limit,
        scale=options.scale,
        gigabytes=options.gigabytes,
        work=options.work.resolve(),
    )
    class_archive(environment({}))
    with places(asked.work) as found:
        comparison.measure(asked, found, results)
        for name in options.measurements:
            MEASUREMENTS[name](asked, found, results)
    page.render(results)


if __name__ == "__main__":
    main()
