"""`python -m bench`: lakeport beside its peers, on the same data, in one run.

Each case is a whole cold process, start and exit included; the ratios are what to read, because
machines differ. Peers live in an environment of their own in the cache folder.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench import data
from bench.measure import Run, run

HERE = Path(__file__).parent
PEERS = HERE / "peers"
PEER_PACKAGES = (
    "dlt[filesystem,deltalake]==1.31.0",
    "deltalake==1.1.4",
    "duckdb==1.4.1",
    "pyarrow==21.0.0",
    "pytz",
    "s3fs",
)


@dataclass(frozen=True)
class Case:
    """One way to land the stream. `peer`: the environment that it runs in."""

    name: str
    command: tuple[str, ...]
    peer: bool = True


def cases(source: Path, work: Path, names: set[str]) -> list[Case]:
    """Every case of the comparison, lakeport's first."""
    lake, port = str(work / "lakeport"), (sys.executable, "-m", "lakeport", "land", str(source))
    plain = (sys.executable, str(PEERS / "pyspark_plain.py"), str(source))
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


def peer_python() -> str:
    """The interpreter of the peers' environment, made once in the cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakeport"
    folder = cache / "bench-peers"
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *PEER_PACKAGES], check=True)
        (folder / ".ready").touch()
    return str(python)


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
        compare(source.resolve(), arguments.work.resolve(), arguments.rounds, set(arguments.only))


def compare(source: Path, work: Path, rounds: int, only: set[str]) -> None:
    """Run every case `rounds` times, in turn, and print medians."""
    print(f"\n{source.name}: {source.stat().st_size / 1e6:.0f} MB, medians of {rounds}")
    print(f"{'case':<20}{'seconds':>9}{'memory MB':>11}  against")
    chosen, runs = cases(source, work, only), dict[str, list[Run]]()
    for _ in range(rounds):
        for case in chosen:
            for folder in ("lakeport", "duckdb", "dlt", "deltars", "plain"):
                shutil.rmtree(work / folder, ignore_errors=True)
            command = case.command
            if case.peer:
                command = (peer_python(), str(PEERS / command[0]), *command[1:])
            result = run(command)
            if not result.ok:
                print(f"{case.name:<20}   failed: {result.output[-300:]}")
                continue
            runs.setdefault(case.name, []).append(result)
    medians = {name: statistics.median(r.seconds for r in each) for name, each in runs.items()}
    for name, each in runs.items():
        memory = max(r.memory_mb for r in each)
        print(f"{name:<20}{medians[name]:>9.1f}{memory:>11.0f}  {ratios(name, medians)}")


def ratios(name: str, medians: dict[str, float]) -> str:
    """What a lakeport case takes, as a multiple of each peer with the same format."""
    if not name.startswith("lakeport"):
        return ""
    format_ = name.split()[1]
    peers = [
        peer
        for peer in medians
        if not peer.startswith("lakeport") and (format_ in peer or peer.startswith("duckdb"))
    ]
    return ", ".join(f"{medians[name] / medians[p]:.2f}x {p.split()[0]}" for p in peers)


if __name__ == "__main__":
    main()
