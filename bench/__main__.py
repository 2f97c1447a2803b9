"""`python -m bench`: lakeport beside its peers, on the same data, in one run.

Each case is a whole cold process, start and exit included; the ratios are what to read, because
machines differ. Peers live in an environment of their own in the cache folder.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench import data
from bench.measure import compare, show
from bench.peer import SCRIPTS, peer


@dataclass(frozen=True)
class Case:
    """One way to land the stream. `peer`: a script of a peer, in its own environment."""

    name: str
    arguments: tuple[str, ...]
    peer: bool = True

    @property
    def command(self) -> tuple[str, ...]:
        """What to run."""
        return peer(*self.arguments) if self.peer else self.arguments


def cases(source: Path, work: Path, names: set[str]) -> list[Case]:
    """Every case of the comparison, lakeport's first."""
    lake, port = str(work / "lakeport"), (sys.executable, "-m", "lakeport", "land", str(source))
    plain = (sys.executable, str(SCRIPTS / "pyspark_plain.py"), str(source))
    every = [
        Case("lakeport parquet", (*port, "--to", lake, "--format", "parquet"), peer=False),
        Case("lakeport delta", (*port, "--to", lake, "--format", "delta"), peer=False),
        Case("duckdb parquet", ("duckdb_copy.py", str(source), str(work / "duckdb"))),
        Case("dlt-arrow parquet", ("dlt_arrow.py", str(source), (work / "dlt").as_uri())),
        Case("dlt-arrow delta", ("dlt_arrow.py", str(source), (work / "dlt").as_uri(), "delta")),
        Case("delta-rs delta", ("deltars_write.py", str(source), str(work / "deltars"))),
        Case("pyspark parquet", (*plain, str(work / "plain"), "parquet"), peer=False),
        Case("pyspark delta", (*plain, str(work / "plain"), "delta"), peer=False),
    ]
    return [case for case in every if not names or any(name in case.name for name in names)]


def main() -> None:
    """Run the comparison and print its table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 2_000_000])
    parser.add_argument("--rounds", type=int, default=1, help="runs of each case, in turn")
    parser.add_argument("--only", nargs="*", default=[], help="parts of the cases' names")
    parser.add_argument("--work", type=Path, default=Path("lake-bench"))
    arguments = parser.parse_args()
    arguments.work.mkdir(exist_ok=True)
    for records in arguments.records:
        source = data.write(arguments.work / f"events-{records}.singer", records)
        measure(source.resolve(), arguments.work.resolve(), arguments.rounds, set(arguments.only))


def measure(source: Path, work: Path, rounds: int, only: set[str]) -> None:
    """Run every case of one size and print its table."""
    chosen = cases(source, work, only)
    found = compare(
        rounds,
        lambda number: {case.name: case.command for case in chosen},
        before=lambda name: clear(work),
    )
    against = {name: peers(name, found) for name in found}
    title = f"{source.name}: {source.stat().st_size / 1e6:.0f} MB"
    show(f"{title}, medians of {rounds}", found, against)


def clear(work: Path) -> None:
    """Remove what the cases have landed."""
    for folder in ("lakeport", "duckdb", "dlt", "deltars", "plain"):
        shutil.rmtree(work / folder, ignore_errors=True)


def peers(name: str, found: Iterable[str]) -> list[str]:
    """What a lakeport case stands beside: each peer with the same format."""
    if not name.startswith("lakeport"):
        return []
    format_ = name.split()[1]
    return [
        other
        for other in found
        if not other.startswith("lakeport") and (format_ in other or other.startswith("duckdb"))
    ]


if __name__ == "__main__":
    main()
