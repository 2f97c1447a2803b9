"""What many files take of memory, measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FILES = 150_000
MOST = 22  # MB; a set of the names alone takes twice as much
SCRIPT = """
import resource, sys
from pathlib import Path
from lakeport.sources.files.discovery import ListedFile
from lakeport.sources.files.new_files import compare_listings, select_new_files
from lakeport.sources.files.new_files import sort_listing, read_segment, write_segment

def files(first, end):
    for number in range(first, end):
        name = f"s3://acme-inbox/flights/2026/11/{number % 30:02d}/part-{number:09d}.json.gz"
        yield ListedFile(name, number, f"{number:032x}")

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

folder, count = Path(sys.argv[1]), int(sys.argv[2])
(folder / "seen").mkdir()
with (folder / "segment").open("wb") as target:
    write_segment(sort_listing(files(0, count), folder / "seen"), target)
before = peak()  # above what either side takes at a time
with (folder / "segment").open("rb") as source:
    found = compare_listings(sort_listing(files(0, count + 7), folder), read_segment(source))
    print(len(list(select_new_files(found, "fail"))), peak() - before)
"""


def test_memory_does_not_grow_with_the_files_that_were_seen(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(FILES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    new, growth = done.stdout.split()
    assert new == "7"
    assert float(growth) < MOST
