"""Lakes whose pages are looked at: made by real loads, which need no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin

import deltalake
import pyarrow as pa
from playwright.sync_api import Page

import lakeport
from tests.browser.kit import Reader

SCRIPT = "<script>alert(1)</script>"
IMAGE = "</td></script><img src=x onerror=alert(2)>"
ODD = "ödd & <b>tàble<b> 100% '\"#?"
LONG = "a_table_with_a_name_" + "that_is_long_and_goes_on_" * 5


def make_lake(folder: Path) -> Path:
    """A lake with tables of every kind, whose names and values try to be HTML."""
    _land_orders(folder)
    _land_oddities(folder)
    return folder


def _land_orders(lake: Path) -> None:
    """A table whose versions are of every kind: `sales/orders`."""
    keys = {"table": "sales/orders", "partition_keys": ["day"]}
    for batch in range(6):
        rows = [_order(batch * 500 + n, day=1 + batch % 3) for n in range(400 + 30 * batch)]
        lakeport.land(pa.Table.from_pylist(rows), lake, run_id=f"day-{batch}", **keys)
    rows = [_order(n, day=2) for n in range(800)]
    lakeport.land(pa.Table.from_pylist(rows), lake, mode="overwrite", **keys)
    rows = [{**_order(n, day=3), "note": f"was {n}"} for n in range(300, 600)]
    merge = {"mode": "merge", "merge_keys": ["id"]}
    lakeport.land(pa.Table.from_pylist(rows), lake, **keys, **merge)
    table = deltalake.DeltaTable(lake / "sales" / "orders")
    table.optimize.compact()
    table.delete("id = 7")
    table.restore(table.version() - 1)
    singer = lake.parent / "orders.singer"
    singer.write_text("".join(f"{json.dumps(line)}\n" for line in _messages()))
    lakeport.land(str(singer), lake, table="sales/orders", on_bad_record="quarantine")
    with suppress(lakeport.LakeportError):
        lakeport.land(str(singer), lake, table="sales/orders", run_id="failed")


def _order(number: int, day: int) -> dict[str, Any]:
    customer = f"customer {number % 90}"
    return {"id": number, "day": f"2026-11-0{day}", "customer": customer, "price": number / 8}


def _messages() -> Iterator[dict[str, Any]]:
    types = {"id": "integer", "day": "string", "customer": "string", "price": "number"}
    columns = {name: {"type": ["null", type_]} for name, type_ in types.items()}
    schema = {"type": "object", "properties": columns}
    yield {"type": "SCHEMA", "stream": "orders", "schema": schema, "key_properties": ["id"]}
    for number in range(10_000, 10_200):
        record: dict[str, Any] = _order(number, day=4)
        if number % 20 == 0:
            record["price"] = IMAGE
        yield {"type": "RECORD", "stream": "orders", "record": record}
    yield {"type": "STATE", "value": {"bookmarks": {"orders": {"id": 10_199, "note": SCRIPT}}}}


def _land_oddities(lake: Path) -> None:
    hostile = pa.table({SCRIPT: [SCRIPT, IMAGE], "<b>bold</b>": [1, 2], 'wörd\'s & "more"': [1, 2]})
    lakeport.land(hostile, lake, table="files/hostile", file_type="parquet")
    lakeport.land(hostile, lake, table="files/lines", file_type="csv")
    plain = hostile.select([1]).rename_columns(["<script>alert`1`</script>"])
    lakeport.land(plain, lake, table=ODD)
    wide = pa.table({f"column_{n:03}_{'of_many' * (n % 9)}": [n] for n in range(60)})
    lakeport.land(wide, lake, table=LONG)
    lakeport.land(pa.table({"id": pa.array([], pa.int64())}), lake, table="nothing")


def page_of(target: Path, output: Path, *options: str) -> str:
    """The address of a file of pages that `lakeport page` writes."""
    command = [sys.executable, "-m", "lakeport", "page", str(target), "-o", str(output), *options]
    subprocess.run(command, check=True, capture_output=True)
    return output.as_uri()


@contextmanager
def served(target: Path, *options: str) -> Iterator[str]:
    """The address that `lakeport ui` tells, which opens the lake's page."""
    command = [sys.executable, "-m", "lakeport", "ui", str(target), "--json", "--no-open", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


@dataclass(frozen=True)
class Site:
    """Pages that can be opened: in one file, or served.

    Attributes:
        root: the address that opens the lake's page.
    """

    root: str

    @property
    def in_file(self) -> bool:
        """Whether all pages are in one file."""
        return self.root.startswith("file:")

    def address(self, path: str) -> str:
        """The address of a page, for who is in."""
        if self.in_file:
            return self.root if path == "/" else f"{self.root}#{quote(path)}"
        return urljoin(self.root, quote(path))

    def open(self, reader: Reader, path: str = "/", *look: Any, **options: Any) -> Page:
        """Open a page in a new window; see `Reader.open`.

        Args:
            reader: opens it.
            path: of the page, such as `/table/sales/orders`.
            look: size and theme.
            options: further settings of the window.
        """
        if self.in_file:
            return reader.open(self.address(path), *look, **options)
        page = reader.open(self.root, *look, **options)
        page.goto(self.address(path))
        return page
