"""A PostgreSQL table into Delta, beside peers.

The server runs on the same machine: its processor seconds are no contestant's. The tap's rows go
through a pipe into lakeport; it is tried with a tenth of the rows, as it takes minutes for them.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path

import deltalake

from bench.comparison import Asked
from bench.contestants import COLD, LAND, SPARK
from bench.environments import script
from bench.measure import run
from bench.places import Places
from bench.results import Cell, Results, Run
from bench.rounds import in_turn
from bench.values import database
from lakeport.engine.spark.jvm.jars import ensure_jars
from tests.postgres import Postgres

ROWS, TENTH = 5_000_000, 10
PYARROW, CONNECTORX, TAP = "dlt, pyarrow", "dlt, connectorx", "tap-postgres piped in"
CREATE = """
CREATE TABLE {name} AS SELECT i AS id, (i * 7919 % 100003)::int AS customer,
  'customer ' || (i % 50021) AS name, (i % 32000)::smallint AS quantity,
  round((i % 99991) / 7.0, 2)::numeric(12,2) AS amount, (i % 1000) / 8.0::float8 AS weight,
  i % 3 = 0 AS paid, date '2015-01-01' + (i % 3650)::int AS day,
  timestamptz '2020-01-01 00:00:00+00' + i * interval '1 second' AS changed,
  timestamp '2020-01-01' + i * interval '7 seconds' AS created, md5(i::text) AS token,
  CASE WHEN i % 5 > 0 THEN 'note number ' || i || ' of the table' END AS note
FROM generate_series(1::bigint, {rows}) i;
ALTER TABLE {name} ADD PRIMARY KEY (id);
"""


def measure(asked: Asked, places: Places, results: Results) -> None:
    """Land the same table with each, in turn."""
    rows = round(ROWS * asked.scale)
    sizes = {COLD: rows, PYARROW: rows, CONNECTORX: rows, SPARK: rows, TAP: rows // TENTH}
    cells = [Cell(name, "database", size, "local", "delta") for name, size in sizes.items()]
    if not any(results.open(cell, asked.rounds) for cell in cells):
        return
    with Postgres(places.folder / "postgres") as server:
        for size in {rows, rows // TENTH}:
            server.sql(CREATE.format(name=f"orders_{size}", rows=size))
            server.sql(f"VACUUM ANALYZE orders_{size}")
        runs = {cell: partial(once, asked, places, server, cell) for cell in cells}
        in_turn(asked.rounds, results, runs)


def once(asked: Asked, places: Places, server: Postgres, cell: Cell) -> Run:
    """Land a table, and look at what has come of it."""
    lake, table = places.folder / "database", f"orders_{cell.records}"
    shutil.rmtree(lake, ignore_errors=True)
    lake.mkdir()
    where = f"//postgres@127.0.0.1:{server.port}/postgres"
    command, landed = _command(cell.contestant, where, table, lake, server)
    took = run(command, {"LAKEPORT_WARM": "off"}, limit=asked.limit)
    values = "" if took.failure else differences(landed, cell.records)
    shutil.rmtree(lake, ignore_errors=True)
    return Run(took.seconds, took.cpu, took.memory_mb, values=values, failure=took.failure)


def _command(
    name: str, where: str, table: str, lake: Path, server: Postgres
) -> tuple[tuple[str, ...], Path]:
    """A contestant's command, and the table that it makes."""
    to = ("--to", str(lake), "--format", "delta", "--set", "internal_columns=false")
    if name == COLD:
        source = ("--from-database", f"postgresql:{where}", "--table-of", table)
        return (*LAND, *source, *to), lake / table
    if name == SPARK:
        jdbc = f"jdbc:postgresql:{where.replace('postgres@', '')}?user=postgres"
        jars = ",".join(map(str, ensure_jars({"delta"})))
        target = str(lake / table)
        return script("pyspark", "pyspark_database.py", jdbc, table, target, jars), lake / table
    if name == TAP:
        return _piped(table, lake, server, to), lake / f"public-{table}"
    backend = name.removeprefix("dlt, ")
    peer = ("dlt-database", "dlt_database.py", f"postgresql:{where}", table, str(lake), "delta")
    return script(*peer, backend), lake / "bench" / table


def _piped(table: str, lake: Path, server: Postgres, to: tuple[str, ...]) -> tuple[str, ...]:
    """The tap, with its table chosen, into lakeport."""
    config, catalog = lake / "tap.json", lake / "catalog.json"
    config.write_text(json.dumps(server.tap_config()))
    found = subprocess.run(
        server.tap("--config", str(config), "--discover"), capture_output=True, check=True
    )
    streams = json.loads(found.stdout)["streams"]
    for stream in streams:
        for entry in stream["metadata"]:
            if not entry["breadcrumb"]:
                entry["metadata"]["selected"] = stream["table_name"] == table
    catalog.write_text(json.dumps({"streams": streams}))
    tap = shlex.join(server.tap("--config", str(config), "--catalog", str(catalog)))
    return ("bash", "-o", "pipefail", "-c", f"{tap} | {shlex.join((*LAND, '-', *to))}")


def differences(table: Path, rows: int) -> str:
    """What is not as it should be in a table, in words; "" for nothing."""
    files = deltalake.DeltaTable(table).file_uris()
    ask = "SELECT count(*), sum(id), count(DISTINCT id), count(note) FROM"
    found = database().execute(f"{ask} read_parquet({files})").fetchone()
    wanted = (rows, rows * (rows + 1) // 2, rows, rows - rows // 5)
    return "" if found == wanted else f"{found} in place of {wanted}"
