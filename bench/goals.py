"""The speeds that lakeport has to reach, each beside what the results say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bench.results import Cell, Median

Medians = Mapping[Cell, Median]
COLD, WARM, THREADS = "lakeport cold", "lakeport warm", "lakeport threads"
SPARK, DLT, DELTA_RS, DUCKDB = "PySpark by hand", "dlt, Arrow", "delta-rs", "DuckDB"
FORMATS = ("parquet", "delta")
NAMES = {"parquet": "Parquet", "delta": "Delta"}


@dataclass(frozen=True)
class Goal:
    """A figure and its limit.

    Attributes:
        what: the load.
        unit: what the figure is: "x dlt", "s", "MB".
        limit: the most that it may be; the least, where `at_least`.
        figure: reads it from the results; None where something was not measured.
    """

    what: str
    unit: str
    limit: float
    figure: Callable[[Medians], float | None]
    at_least: bool = False

    def holds(self, medians: Medians) -> bool | None:
        """Whether it is reached, by the figure as it is shown; None where it was not measured."""
        exact = self.figure(medians)
        if exact is None:
            return None
        found = round(exact, 2)
        return found >= self.limit if self.at_least else found <= self.limit


def value(cell: Cell, name: str = "seconds") -> Callable[[Medians], float | None]:
    """A figure of a cell, or one that its measurement found besides."""

    def read(medians: Medians) -> float | None:
        found = medians.get(cell)
        if found is None or found.failure:
            return None
        if name in found.figures:
            return found.figures[name]
        return float(getattr(found, name))

    return read


def ratio(
    one: Callable[[Medians], float | None], other: Callable[[Medians], float | None]
) -> Callable[[Medians], float | None]:
    """The one figure by the other."""

    def read(medians: Medians) -> float | None:
        first, second = one(medians), other(medians)
        return None if first is None or not second else first / second

    return read


def largest(
    chosen: Callable[[Cell], bool], name: str = "memory_mb"
) -> Callable[[Medians], float | None]:
    """The largest figure of the cells that are chosen."""

    def read(medians: Medians) -> float | None:
        found = [
            float(getattr(median, name))
            for cell, median in medians.items()
            if chosen(cell) and not median.failure
        ]
        return max(found, default=None)

    return read


def against(
    records: int,
    other: str,
    format_: str,
    *,
    ours: str = COLD,
    on: str = "minio",
    by: str = "seconds",
) -> Callable[[Medians], float | None]:
    """A Singer load of lakeport's by a peer's."""
    cells = [Cell(name, "singer", records, on, format_) for name in (ours, other)]
    return ratio(value(cells[0], by), value(cells[1], by))


def goals() -> Iterator[Goal]:
    """All of them."""
    yield from _singer()
    yield from _warm()
    yield from _memory()
    yield from _special()


def _singer() -> Iterator[Goal]:
    most = {
        10_000: {COLD: (1.6, 0.9), WARM: (0.35, 0.2), THREADS: (0.6, 0.31)},
        2_000_000: {COLD: (0.6, 0.48), THREADS: (0.38, 0.29)},
        20_000_000: {COLD: (0.42, 0.42), THREADS: (0.4, 0.4)},
    }
    for records, of in most.items():
        for ours, limits in of.items():
            for format_, limit in zip(FORMATS, limits, strict=True):
                what = f"{records:,} records into {NAMES[format_]} on MinIO, {ours}"
                yield Goal(what, f"x {DLT}", limit, against(records, DLT, format_, ours=ours))
                if ours == COLD and records > 10_000:
                    figure = against(records, DLT, format_, by="cpu")
                    yield Goal(f"{what}: processor time", f"x {DLT}", 1.0, figure)
    what = "20,000,000 records into Parquet on MinIO"
    yield Goal(what, f"x {DUCKDB}", 1.0, against(20_000_000, DUCKDB, "parquet"))


def _warm() -> Iterator[Goal]:
    show = Cell(WARM, "table show", 10_000, "local", "delta")
    yield Goal("`table show` through a warm session", "s", 0.3, value(show))
    first = [Cell(name, "first load", 10_000, "local", "parquet") for name in (WARM, COLD)]
    figure = ratio(value(first[0]), value(first[1]))
    yield Goal("the first load with `--warm`", "x a cold load", 1.0, figure)


def _memory() -> Iterator[Goal]:
    def ours(cell: Cell) -> bool:
        cold = cell.contestant in (COLD, THREADS, "1 core", "2 cores") or cell.load == "partitions"
        return cold and cell.load != "appends"

    yield Goal("memory of the process tree, the most of all cold loads", "MB", 2000, largest(ours))


def _special() -> Iterator[Goal]:
    shared = {
        "workers": (20_000_000, "20,000,000 records of a Singer file"),
        "workers on files": (24_000_000, "24,000,000 rows of CSV files"),
    }
    for load, (rows, told) in shared.items():
        work = [
            value(Cell(name, load, rows, "local", "parquet"), "work")
            for name in ("1 worker", "2 workers")
        ]
        what = f"two workers: parsing and writing {told}"
        yield Goal(what, "x as fast as one", 1.7, ratio(*work), at_least=True)
    for input_ in ("csv", "csv declared"):
        for format_ in FORMATS:
            cells = [Cell(name, input_, 3_000_000, "local", format_) for name in (COLD, DLT)]
            types = "types declared" if "declared" in input_ else "types inferred"
            what = f"CSV of 3,000,000 rows into {NAMES[format_]}, {types}"
            yield Goal(what, f"x {DLT}", 1.0, ratio(value(cells[0]), value(cells[1])))
    second = [
        value(Cell(name, "second frame", 2_000_000, "local", "delta"), "load")
        for name in (COLD, DELTA_RS)
    ]
    what = "a frame of 2,000,000 rows into Delta, without the start"
    yield Goal(what, f"x {DELTA_RS}", 1.3, ratio(*second))
    for other, limit in ((DELTA_RS, 1.5), (SPARK, 0.12)):
        merge = [value(Cell(name, "merge", 10_000_000, "local", "delta")) for name in (COLD, other)]
        yield Goal("merge of 100,000 rows into 10,000,000", f"x {other}", limit, ratio(*merge))
    database = value(Cell(COLD, "database", 5_000_000, "local", "delta"))
    for other, limit in (("dlt, pyarrow", 0.6), ("dlt, connectorx", 0.6), (SPARK, 0.5)):
        peer = value(Cell(other, "database", 5_000_000, "local", "delta"))
        what = "a PostgreSQL table of 5,000,000 rows into Delta"
        yield Goal(what, f"x {other}", limit, ratio(database, peer))
    appends = Cell(COLD, "appends", 300, "local", "delta")
    what = "300 appends of 100 rows to one Delta table"
    yield Goal(f"{what}: the median", "s", 0.1, value(appends, "median"))
    growth = ratio(value(appends, "last"), value(appends, "tenth"))
    yield Goal(f"{what}: the last ones", "x the tenth", 1.5, growth)
    for format_ in FORMATS:
        streams = value(Cell(COLD, "streams", 1_000, "local", format_))
        yield Goal(f"1,000 interleaved streams into {NAMES[format_]}", "s", 15, streams)
    table = Cell(f"{COLD}: page of a table", "pages", 1_000, "local", "delta")
    what = "the page of a table of 1,000 versions and 10,000 files, in a file"
    yield Goal(what, "s", 1.5, value(table))
    yield Goal(f"{what}: memory", "MB", 500, value(table, "memory_mb"))
    lake = Cell(f"{COLD}: page of a lake", "pages", 1_000, "local", "delta")
    yield Goal("the page of a lake of 1,000 tables, in a file", "s", 2.0, value(lake))
    new = [
        value(Cell(f"{COLD}: {name}", "new files", 10_000, "local", "delta"))
        for name in ("new only", "the new ones alone")
    ]
    what = "10,000 small JSON files, 100 of them new"
    yield Goal(what, "x those 100 alone", 1.5, ratio(*new))
    made = {
        name: value(Cell(f"{COLD}: {name}", "transforms", 2_000_000, "local", "delta"))
        for name in ("as they are", "by a query", "with expectations")
    }
    for name, most in (("by a query", 2.5), ("with expectations", 1.25)):
        figure = ratio(made[name], made["as they are"])
        yield Goal(f"2,000,000 records, {name}", "x as they are", most, figure)
    many = value(Cell("10,000 partitions", "partitions", 200_000, "local", "delta"))
    yield Goal("10,000 partitions of a Delta table", "s", 95, many)
