"""`lakeport run` in a world whose sources grow, killed at moments that are seen from outside."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

from tests.faults.kit import Lake, Process, await_end, started
from tests.postgres import Postgres

When = Callable[[Process], bool]
_PART = 10  # rows of a file, and records between two STATEs of a tap
MOMENTS: Mapping[str, str] = {
    "begun": "_lakeport/runs/*",
    "staged": "_lakeport/staging/*",
    "intended": "_lakeport/bookmarks/**/*",
    "remembered": "{table}/_lakeport/bookmarks/*",
    "written": "{table}/**/*.parquet",
    "committed": "{table}/_delta_log/*.json",
    "told": "_lakeport/reports/*",
}
"""How far a load has got -> which file is new then."""


class Source(Protocol):
    """Something that is read, and grows."""

    def grow(self, new: range) -> None:
        """Have rows with these ids more."""


class Inbox:
    """A folder of JSON lines, a file for ten rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "inbox"
        self.folder.mkdir()

    def grow(self, new: range) -> None:
        """See `Source.grow`."""
        for first in new[::_PART]:
            path = self.folder / f"{first:06}.part"
            path.write_text(lines(range(first, first + _PART)))
            path.rename(path.with_suffix(".jsonl"))


class Shop:
    """A table of SQLite."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "shop.db"
        with closing(sqlite3.connect(self.path)) as shop:
            shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")

    def grow(self, new: range) -> None:
        """See `Source.grow`."""
        with closing(sqlite3.connect(self.path)) as shop, shop:
            shop.executemany("INSERT INTO orders VALUES (?, ?)", [(n, f"n{n}") for n in new])


class Tables:
    """Of PostgreSQL: `orders`, where seven rows share each `at`, and `slow`, which shows them."""

    def __init__(self, server: Postgres, name: str) -> None:
        self.server, self.name = server, name
        self.gone: list[int] = []
        server.sql(
            f"CREATE SCHEMA {name}; SET search_path = {name}; "
            "CREATE TABLE orders (id int PRIMARY KEY, name text NOT NULL, at int NOT NULL); "
            "CREATE FUNCTION late(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS "
            "$$BEGIN PERFORM pg_sleep(0.004); RETURN t; END$$; "
            f"CREATE VIEW slow AS SELECT id, at, {name}.late(name) AS name FROM orders"
        )

    def grow(self, new: range) -> None:
        """See `Source.grow`."""
        self.server.sql(
            f"INSERT INTO {self.name}.orders SELECT i, 'n' || i, i / 7 "
            f"FROM generate_series({new.start}, {new.stop - 1}) i"
        )

    def lose(self, ids: Sequence[int]) -> None:
        """Have these rows no more."""
        self.gone += ids
        listed = ", ".join(map(str, ids))
        self.server.sql(f"DELETE FROM {self.name}.orders WHERE id IN ({listed})")

    def reading(self, _: Process) -> bool:
        """Whether rows are being read."""
        count = (
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' "
            f"AND query LIKE 'COPY (SELECT%{self.name}%' AND pid <> pg_backend_pid()"
        )
        return self.server.sql(count) != "0"

    def end_readers(self) -> None:
        """Have the server end the connections that read."""
        self.server.sql(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE state = 'active' "
            f"AND query LIKE 'COPY (SELECT%{self.name}%' AND pid <> pg_backend_pid()"
        )

    def load(self, table: str = "orders", *, port: int = 0, **keys: object) -> str:
        """What the lake's file says of it behind `from:`."""
        uri = f"postgresql://postgres@127.0.0.1:{port or self.server.port}/postgres"
        more = "".join(f", {key}: {value}" for key, value in keys.items())
        return f'{{database: "{uri}", table: {self.name}.{table}{more}}}'


_TAP = """
import json, signal, sys, time
from pathlib import Path
state = json.load(open(sys.argv[sys.argv.index("--state") + 1])) if "--state" in sys.argv else {}
marks = dict(state.get("bookmarks", {}))
streams = sys.argv[2].split(",")
def say(**message): print(json.dumps(message), flush=True)
for stream in streams:
    say(type="SCHEMA", stream=stream, key_properties=["id"], schema={"properties": {
        "id": {"type": "integer"}, "name": {"type": "string"}}})
for number in range(int(Path("top").read_text())):
    for stream in streams:
        if number > marks.get(stream, -1):
            say(type="RECORD", stream=stream, record={"id": number, "name": f"n{number}"})
            marks[stream] = number
            time.sleep(0.001)
    if number % 10 == 9:
        say(type="STATE", value={"bookmarks": marks})
    if Path("hang").exists() and number == 10:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    if number == 25 and (breaks := Path(f"break-{streams[0]}")).exists():
        sys.stderr.write("the service hung up")
        exec(breaks.read_text())
"""


class Tap:
    """A tap that gives its streams' new records, by turns, with a STATE behind each ten."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.joinpath("tap.py").write_text(_TAP)

    def grow(self, new: range) -> None:
        """See `Source.grow`."""
        self.folder.joinpath("top").write_text(str(new.stop))

    def hang(self) -> None:
        """Have it send no more behind its first STATE, whatever it is asked."""
        self.folder.joinpath("hang").touch()

    def breaks(self, stream: str, how: str) -> None:
        """Have it do this between two STATEs, where the stream is the first that it is asked for.

        Args:
            stream: its name.
            how: Python; empty to have it do so no more.
        """
        path = self.folder / f"break-{stream}"
        path.write_text(how)
        if not how:
            path.unlink()

    def load(self, *streams: str) -> str:
        """What the lake's file says of it behind `from:`."""
        return f'{{tap: [{sys.executable}, tap.py, top, "{",".join(streams)}"]}}'


def lines(numbers: range) -> str:
    """Records as JSON lines."""
    return "".join(f'{{"id": {number}, "name": "n{number}"}}\n' for number in numbers)


class World:
    """A lake's file, the sources beside it, and how many rows each has had."""

    def __init__(
        self, folder: Path, loads: Mapping[str, str], sources: Sequence[Source], kind: str = "delta"
    ) -> None:
        self.folder = folder
        self.lake = Lake(folder / "lake", kind)
        self.sources = sources
        self.rows = 0
        told = "".join(f"  {name}: {about}\n" for name, about in loads.items())
        self.folder.joinpath("lake.yaml").write_text(
            f"target: {{destination: local, path: ./lake, file_type: {kind}}}\nloads:\n{told}"
        )

    def grow(self, rows: int = 40) -> None:
        """Have each source get these rows more."""
        new = range(self.rows, self.rows + rows)
        self.rows += rows
        for source in self.sources:
            source.grow(new)

    def run(self, *options: str) -> tuple[str, ...]:
        """The command."""
        return ("run", str(self.folder / "lake.yaml"), *options)

    def ended_well(self, *options: str) -> None:
        """Run to the end."""
        with started(*self.run(*options)) as process:
            assert process.end() == 0, process.words

    def killed(self, when: When, *, whole: bool = False) -> None:
        """Run, and kill when that is seen, or see it end before.

        Args:
            when: what is waited for.
            whole: whether to kill all of its processes; the others have to end by themselves.
        """
        with started(*self.run()) as process:
            process.wait_for(lambda: when(process))
            family = process.family()
            process.send(signal.SIGKILL)
            for other in family if whole else ():
                with suppress(ProcessLookupError):
                    os.kill(other, signal.SIGKILL)
            code = process.end()
            await_end(family)
        assert code in (-signal.SIGKILL, 0), process.words

    def reports(self) -> int:
        """Reports of runs, which are there from the first moment on."""
        return len(list((self.lake.root / "_lakeport" / "runs").glob("*.json")))

    def after(self, seconds: float) -> When:
        """So long after the run has begun to write."""
        before, since = self.reports(), [0.0]

        def seen(_: Process) -> bool:
            if self.reports() <= before:
                return False
            since[0] = since[0] or time.monotonic()
            return time.monotonic() - since[0] >= seconds

        return seen

    def seen(self, what: str, *tables: str) -> When:
        """Loads into these tables have got so far, as their files tell; see `MOMENTS`."""
        patterns = {MOMENTS[what].format(table=table) for table in tables}

        def count() -> int:
            return sum(len(list(self.lake.root.glob(pattern))) for pattern in patterns)

        before = count()
        return lambda _: count() > before

    def check(self, *tables: str, gone: Collection[int] = ()) -> None:
        """What the sources have had is in each of these tables, once."""
        for table in tables:
            assert self.lake.ids(table) == sorted(set(range(self.rows)) - set(gone)), table
            if self.lake.format == "delta":
                self.lake.check_log(table)

    def check_midway(self, *tables: str) -> None:
        """Readers see no row twice; of tables with commits, whole ones from the first row on."""
        for table in tables:
            ids = self.lake.ids(table)
            assert len(ids) == len(set(ids)), table
            if self.lake.format == "delta":
                assert ids == list(range(len(ids))) and len(ids) % _PART == 0, table
