"""How long a look at large tables and lakes takes: pages in a file, and pages that are served."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from bench.comparison import Asked
from bench.contestants import COLD
from bench.measure import run
from bench.places import Places
from bench.results import Cell, Results, Run
from bench.rounds import in_turn
from tests.long_table import write_long_table

VERSIONS, FILES = 1_000, 10
TABLES = 1_000
LOOK = (sys.executable, "-m", "lakeport")
OFF = {"LAKEPORT_WARM": "off"}


def pages(asked: Asked, places: Places, results: Results) -> None:
    """Pages of a table of many versions and files and of a lake of many tables, and served ones."""
    work = places.folder / "looks"
    table, lake = work / "table", work / "lake"
    versions, tables = round(VERSIONS * asked.scale), round(TABLES * asked.scale)
    write_long_table(table, versions, FILES)
    for number in range(tables):
        write_long_table(lake / f"area_{number % 10}" / f"table_{number}", 5, 2)
    file = work / "page.html"
    runs: dict[Cell, Callable[[], Run]] = {
        _cell("page of a table", versions): partial(written, table, file, asked.limit),
        _cell("page of a lake", tables): partial(written, lake, file, asked.limit),
        _cell("list of a lake", tables): partial(listed, lake, asked.limit),
        _cell("served page of a lake", tables): partial(served, lake),
        _cell("served page of a table", versions): partial(served, table),
    }
    try:
        in_turn(asked.rounds, results, runs)
    finally:
        shutil.rmtree(work)


def _cell(what: str, count: int) -> Cell:
    return Cell(f"{COLD}: {what}", "pages", count, "local", "delta")


def written(target: Path, file: Path, limit: float) -> Run:
    """A page in a file: a whole process."""
    took = run((*LOOK, "page", str(target), "-o", str(file)), OFF, limit=limit)
    figures = {"MB": file.stat().st_size / 1e6} if not took.failure else {}
    return Run(took.seconds, took.cpu, took.memory_mb, failure=took.failure, figures=figures)


def listed(lake: Path, limit: float) -> Run:
    """The tables of a lake: a whole process."""
    took = run((*LOOK, "tables", str(lake)), OFF, limit=limit)
    return Run(took.seconds, took.cpu, took.memory_mb, failure=took.failure)


def served(target: Path) -> Run:
    """From the request of a page to its last byte; of the second one, as the first loads code."""
    command = (*LOOK, "ui", str(target), "--json", "--no-open")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        first, second = asked_for(told), asked_for(told)
        process.terminate()
    return Run(second, figures={"first": first})


def asked_for(told: dict[str, str]) -> float:
    """Seconds that a page takes."""
    begin = time.perf_counter()
    connection = http.client.HTTPConnection(urlsplit(told["url"]).netloc, timeout=60)
    connection.request("GET", "/", headers={"Authorization": f"token {told['token']}"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200, answer.status
    return time.perf_counter() - begin
