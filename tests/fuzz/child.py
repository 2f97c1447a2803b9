"""The inner loop: a range of inputs of one kind, in a process that may die of them."""

from __future__ import annotations

import json
import mmap
import os
import resource
import sys
from pathlib import Path

from tests.fuzz.case import Case, made
from tests.fuzz.shrinking import shrink
from tests.fuzz.verdict import judge

_MEMORY = 8 << 30  # bytes of address space above what the imports take: a bomb ends as MemoryError
_TRIES = 300


def run(kind: str, seed: int, start: int, end: int, folder: Path, mark: Path) -> None:
    """Check inputs `start` to `end`; new findings become files, all are told on stdout as JSON."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, hard))
    known = {json.loads(path.read_text())["signature"] for path in folder.glob("*.json")}
    parent = os.getppid()
    with mark.open("r+b") as file, mmap.mmap(file.fileno(), 8) as at:
        for number in range(start, end):
            if os.getppid() != parent:
                return  # nobody waits for it any more
            at[:] = number.to_bytes(8, "little")
            case = made(kind, seed, number)
            finding = judge(kind, case)
            if finding is None:
                continue
            print(json.dumps(finding.signature), flush=True)
            if finding.signature not in known:
                known.add(finding.signature)
                small, detail = _smallest(kind, case, finding.signature)
                told = {"kind": kind, "seed": seed, "number": number}
                small.write(
                    folder / f"{kind}-{seed}-{number}.json",
                    **told,
                    signature=finding.signature,
                    detail=detail or finding.detail,
                )
    print(json.dumps(None), flush=True)


def _smallest(kind: str, case: Case, signature: str) -> tuple[Case, str]:
    detail = ""

    def fails(smaller: Case) -> bool:
        nonlocal detail
        found = judge(kind, smaller)
        if found is None or found.signature != signature:
            return False
        detail = found.detail
        return True

    return shrink(case, fails, 30 if signature.endswith(": slow") else _TRIES), detail


if __name__ == "__main__":
    kind, *numbers, folder, mark = sys.argv[1:]
    run(kind, *map(int, numbers), Path(folder), Path(mark))  # type: ignore[arg-type]
