"""Input at the edge of what can be landed: sizes, depths, names, and values that nobody may see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.contract.targets import record, schema, singer, state
from tests.faults.conftest import IN_DELTA, Command
from tests.faults.kit import INTEGER, STRING, Lake, land, users

MB = 1 << 20


@IN_DELTA
def test_a_line_of_100_mb(lake: Lake, command: Command) -> None:
    """The longest line that may be lands; one that is longer fails with the limit's name."""
    name = "x" * (100 * MB - 200)
    lines = users(3) + singer(record("users", id=3, name=name))
    assert command(*land(lake), given=lines).code == 0
    assert lake.ids() == [0, 1, 2, 3]
    assert max(len(row["name"]) for row in lake.rows()) == len(name)
    too_long = lines.replace(b'"name": "xx', b'"name": "' + b"y" * 300)
    found = command(*land(lake), given=too_long)
    assert found.code == 3
    assert "line 5" in found.err
    assert "100 MB" in found.err
    assert len(found.err) < 2000
    assert lake.ids() == [0, 1, 2, 3]


@pytest.mark.parametrize("where", ["value", "beside"])
def test_nesting_of_10_000_levels(lake: Lake, command: Command, where: str) -> None:
    deep = b"[" * 10_000 + b"]" * 10_000
    line = b'{"type": "RECORD", "stream": "users", "record": {"id": 3, "name": %s}, "x": %s}' % (
        (deep, b"1") if where == "value" else (b'"n"', deep)
    )
    found = command(*land(lake), given=users(3) + line + b"\n")
    if found.code == 0:
        assert lake.ids() == [0, 1, 2, 3]
        return
    assert found.code == 3, found.err
    assert "line 5" in found.err
    assert not lake.exists()


def test_a_schema_of_10_000_levels(lake: Lake, command: Command) -> None:
    deep = b'{"items": ' * 10_000 + b"{}" + b"}" * 10_000
    line = b'{"type": "SCHEMA", "stream": "s", "schema": {"properties": {"a": %s}}}\n' % deep
    found = command(*land(lake), given=users(3) + line)
    assert found.code == 3, found.err
    assert "line 5" in found.err
    assert not lake.exists()


@IN_DELTA
def test_10_000_columns(lake: Lake, command: Command) -> None:
    names = [f"column_{number}" for number in range(10_000)]
    lines = singer(
        schema("wide", dict.fromkeys(names, INTEGER)),
        *(record("wide", **dict.fromkeys(names, row)) for row in range(3)),
    )
    found = command(*land(lake, "--set", "max_columns=12000"), given=lines)
    assert found.code == 0, found.err
    rows = sorted(lake.rows("wide"), key=lambda row: row["column_0"])
    assert [row["column_9999"] for row in rows] == [0, 1, 2]
    assert len(rows[0]) == 10_002


NAMES = (
    "dotted.name",
    "two words",
    'a "quoted" one',
    "an 'apostrophe'",
    "back`tick",
    "comma, semicolon; {braces} (parens)",
    "tab\tand\nnewline",
    "equals=",
    "back\\slash",
    "slash/ed",
    "per%20cent",
    "Größe",
    "列",
    "\N{PARTY POPPER}",
    "select",
    "_delta_log",
    "1",
    "x" * 200,
)


def test_names_of_columns(lake: Lake, command: Command) -> None:
    """Names come back as they were, through delta-rs or pyarrow, and through DuckDB."""
    lines = singer(
        schema("odd", dict.fromkeys(NAMES, STRING)),
        record("odd", **{name: name[::-1] for name in NAMES}),
    )
    found = command(*land(lake, "--set", "internal_columns=false"), given=lines)
    assert found.code == 0, found.err
    assert lake.rows("odd") == [{name: name[::-1] for name in NAMES}]
    if lake.format == "parquet":
        (path,) = lake.objects("odd")
        with duckdb.connect() as connection:
            table = connection.sql(f"SELECT * FROM read_parquet('{path}')").to_arrow_table()
        assert tuple(table.column_names) == NAMES
        assert table.to_pylist() == [{name: name[::-1] for name in NAMES}]


def test_an_empty_name(lake: Lake, command: Command) -> None:
    """It lands, or is refused in words; nothing between."""
    lines = singer(schema("odd", {"": STRING, "id": INTEGER}), record("odd", **{"": "x", "id": 1}))
    found = command(*land(lake), given=lines)
    if found.code == 0:
        assert [row[""] for row in lake.rows("odd")] == ["x"]
    else:
        assert found.code in (3, 4), found.err
        assert "odd" in found.err
        assert not lake.exists("odd")


CANARY = "hunter2-c4n4ry-s3cr3t"
HEAD = b'{"type": "RECORD", "stream": "users", "record": '
FAILING: dict[str, Any] = {
    "wrong type": record("users", id=CANARY),
    "cut off": HEAD + b'{"id": 1, "name": "' + CANARY.encode(),
    "not JSON": CANARY.encode(),
    "not an object": json.dumps([CANARY]).encode(),
    "wrong escape": HEAD + b'{"name": "\\x' + CANARY.encode() + b'"}}',
    "not UTF-8": HEAD + b'{"name": "\xff' + CANARY.encode() + b'"}}',
    "no stream": json.dumps({"type": "RECORD", "record": {"id": CANARY}}).encode(),
    "stream of a wrong type": json.dumps({"type": "RECORD", "stream": {"a": CANARY}}).encode(),
    "duplicate key": HEAD + b'{"id": 1, "id": "' + CANARY.encode() + b'"}}',
    "number": HEAD + b'{"id": 4815162342481516234248}}',
    "date": record("users", id=1, at=CANARY),
    "base64": record("users", id=1, raw=CANARY + "!"),
    "list": record("users", id=1, tags=[{"a": CANARY}]),
    "decimal": record("users", id=1, price=CANARY),
    "version": {"type": "ACTIVATE_VERSION", "stream": "users", "version": CANARY},
    "state": b'{"type": "STATE", "value": {"token": "' + CANARY.encode() + b"}",
}
SHAPE = {
    "id": INTEGER,
    "name": STRING,
    "at": {"type": "string", "format": "date-time"},
    "raw": {"type": "string", "contentEncoding": "base64"},
    "tags": {"type": "array", "items": INTEGER},
    "price": {"type": "number", "multipleOf": 0.01},
}


@pytest.mark.parametrize("kind", FAILING)
def test_no_value_is_ever_shown(parquet_lake: Lake, command: Command, kind: str) -> None:
    lines = singer(
        schema("users", SHAPE, "id"), record("users", id=7), FAILING[kind], state(users=1)
    )
    found = command(*land(parquet_lake), given=lines)
    assert found.code == 3, found.err
    assert "line 3" in found.err
    shown = found.err + b"".join(found.out).decode()
    assert CANARY not in shown
    assert "4815162342481516234248" not in shown
    assert found.states == []
    assert not parquet_lake.exists()
    assert _canaries(parquet_lake.root) == []


def _canaries(root: Path) -> list[Path]:
    return [p for p in root.rglob("*") if p.is_file() and CANARY.encode() in p.read_bytes()]
