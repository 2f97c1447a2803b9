"""Fuzz lakeport's readers and names: `python -m tests.fuzz --count 1000000`.

A finding is a file in the folder: `--repeat FILE` checks it again. What a run has done is kept
there too, so that `--resume` goes on where it was ended.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path

from tests.fuzz.case import KINDS, Case
from tests.fuzz.runner import Soak, counts_of
from tests.fuzz.verdict import judge


def main() -> int:
    """Run what the command line asks for; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, help="decides every input; default: a random one")
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs in all")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this kind; repeatable")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--folder", type=Path, default=Path(".fuzz"), help="findings and progress")
    parser.add_argument("--resume", action="store_true", help="go on with the folder's run")
    parser.add_argument("--repeat", type=Path, metavar="FILE", help="check one finding again")
    given = parser.parse_args()
    if given.repeat:
        finding = judge(*Case.read(given.repeat))
        print(f"{finding.signature}\n{finding.detail}" if finding else "nothing found")
        return 1 if finding else 0
    if given.resume and (given.folder / "state.json").exists():
        soak = Soak.resumed(given.folder)
    else:
        seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
        soak = Soak(seed, given.folder)
    soak.tell = lambda line: print(line, flush=True)
    return 0 if soak.run(counts_of(given.count, given.kind or list(KINDS)), given.workers) else 1


if __name__ == "__main__":
    sys.exit(main())
