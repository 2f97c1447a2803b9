"""What a merge makes of a file's rows, against a model of dictionaries."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.delta_log.actions import DataFile
from lakeport.errors import InputError
from lakeport.storage.local import LocalStorage
from lakeport.writers.delta.plan import plan_table
from lakeport.writers.delta.row_changes import BatchKeys, MergeBatch, Retire, Upsert

Row = dict[str, Any]

TABLE = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("made", pa.string()), ("own", pa.int64())]
)
BATCH = pa.schema(
    [("ID", pa.int64()), ("name", pa.string()), ("made", pa.string()), ("gone", pa.bool_())]
)
SMALL, LARGE = 1, 1 << 30  # bytes: the rows that a file needs are kept, or read for each file


@dataclass(frozen=True)
class Change:
    """A batch of these rows, staged in files of three rows each."""

    folder: Path
    rows: list[Row]
    bytes: int = SMALL
    schema: pa.Schema = BATCH
    deleted: str = "gone"
    keys: tuple[str, ...] = ("ID",)

    def upsert(self) -> Upsert:
        files = []
        for start in range(0, len(self.rows), 3):
            part = pa.Table.from_pylist(self.rows[start : start + 3], self.schema)
            pq.write_table(part, self.folder / f"{start}.parquet")
            files.append((f"{start}.parquet", len(part)))
        incoming = MergeBatch(LocalStorage(str(self.folder)), tuple(files), self.schema, self.bytes)
        return Upsert(incoming, TABLE, self.keys, "made", self.deleted)


def changed(change: Upsert | Retire, rows: pa.Table, key: str) -> tuple[list[Row], int]:
    """A file's rows after the change, as a task makes them, and how many were removed."""
    matches = change.match(rows.select([key, *change.columns[1:]]))
    is_match = np.isin(np.arange(len(rows)), matches.rows)
    kept = rows.filter(pa.array(~is_match))
    if not is_match.any():
        return kept.to_pylist(), 0
    (batch,) = rows.filter(pa.array(is_match)).combine_chunks().to_batches()
    done = change.apply(batch, matches.chosen, change.read_context(matches.chosen))
    new = [] if done.rows is None else done.rows.to_pylist()
    return [*kept.to_pylist(), *new], done.removed


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("seed", range(4))
def test_rows_take_the_values_of_the_last_record_of_their_key(
    tmp_path: Path, seed: int, size: int
) -> None:
    draw = random.Random(seed)
    there = {
        number: {"id": number, "name": "old", "made": draw.choice(["then", None]), "own": number}
        for number in draw.sample(range(12), 8)
    }
    batch = [
        {
            "ID": draw.randrange(14),
            "name": draw.choice([None, f"n{number}"]),
            "made": "now",
            "gone": draw.choice([True, False, None]),
        }
        for number in range(17)
    ]
    change = Change(tmp_path, batch, size).upsert()
    rows, removed = changed(change, pa.Table.from_pylist(list(there.values()), TABLE), "id")

    last = {record["ID"]: record for record in batch}
    wanted = dict(there)
    for key in last.keys() & there.keys():
        record, old = last[key], there[key]
        if record["gone"]:
            del wanted[key]
        else:
            made = old["made"] or record["made"]
            wanted[key] = {**old, "name": record["name"], "made": made}
    assert {row["id"]: row for row in rows} == wanted
    assert (len(rows), removed) == (len(wanted), len(there) - len(wanted))

    keys = BatchKeys.read(change)
    matched = change.match(pa.table({"id": list(there)})).chosen
    inserted = change.incoming.take(keys.unmatched([matched])).to_pylist()
    assert {row["ID"]: row for row in inserted} == {
        key: record for key, record in last.items() if key not in there and not record["gone"]
    }
    assert len(inserted) == len({row["ID"] for row in inserted})
    assert len(keys) == len(batch)


def test_rows_that_come_with_the_values_they_had_are_counted(tmp_path: Path) -> None:
    nested = pa.list_(pa.struct([("a", pa.int64()), ("t", pa.timestamp("us", "UTC"))]))
    names = ("id", "made", "seen", "name", "share", "tags")
    types = (pa.int64(), pa.string(), pa.string(), pa.string(), pa.float64(), nested)
    schema = pa.schema(list(zip(names, types, strict=True)))

    def rows(*values: tuple[Any, ...]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in values], schema)

    nan, year_11476 = float("nan"), 3 * 10**17
    there = rows(
        (1, "then", "then", "Ada", nan, [{"a": 1, "t": year_11476}]),
        (2, "then", "then", None, None, None),
        (3, "then", "then", "Cy", 0.5, [{"a": 1}]),
        (4, "then", "then", "Di", 0.5, [{"a": 1}]),
        (5, "then", "then", "Ed", 0.5, [None]),
    )
    batch = rows(
        (1, "now", "now", "Ada", nan, [{"a": 1, "t": year_11476}]),
        (2, "now", "now", None, None, None),
        (3, "now", "now", None, 0.5, [{"a": 1}]),
        (4, "now", "now", "Di", 0.5, [{"a": 2}]),
        (5, "now", "now", "Ed", None, [None]),
    )
    pq.write_table(batch, tmp_path / "0.parquet")
    incoming = MergeBatch(LocalStorage(str(tmp_path)), (("0.parquet", 5),), schema, SMALL)
    change = Upsert(incoming, schema, ("id",), "made", "", "seen")
    chosen = change.match(there.select(["id"])).chosen
    (whole,) = there.combine_chunks().to_batches()
    assert change.apply(whole, chosen, change.read_context(chosen)).same == 2


def test_a_key_has_a_value_in_every_row(tmp_path: Path) -> None:
    rows = [{"ID": 1}, {"ID": None}, {"ID": None}]
    with pytest.raises(InputError, match="2 of the batch's 3 rows have no value in 'ID'"):
        BatchKeys.read(Change(tmp_path, rows).upsert())


def entry(**statistics: Any) -> DataFile:
    """What the log tells of a file."""
    return DataFile("f", 1, {}, json.dumps({"numRecords": 4, **statistics}))


def ids(low: int, high: int) -> dict[str, Any]:
    return entry(minValues={"ID": low}, maxValues={"ID": high})


def test_files_without_a_key_are_passed_over(tmp_path: Path) -> None:
    plan = plan_table(None, BATCH)
    keys = BatchKeys.read(Change(tmp_path, [{"ID": 5}, {"ID": 9}]).upsert())
    assert keys.may_be_in(ids(1, 5), plan)
    assert keys.may_be_in(entry(), plan)
    assert not keys.may_be_in(ids(6, 8), plan)
    assert not keys.may_be_in(entry(nullCount={"ID": 4}), plan)


CLOCK = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
VERSIONED = pa.table(
    {
        "id": [1, 2, 3, 4],
        "version": [1, None, 3, 1],
        "gone": pa.array([None, None, None, CLOCK], pa.timestamp("us", "UTC")),
        "seen": pa.array([None] * 4, pa.timestamp("us", "UTC")),
    }
)


def test_rows_of_earlier_versions_are_marked_once() -> None:
    rows, removed = changed(Retire("version", 3, "gone", "seen", CLOCK), VERSIONED, "version")
    assert removed == 0
    told = {row["id"]: (row["gone"], row["seen"]) for row in rows}
    assert told == {1: (CLOCK, CLOCK), 2: (None, None), 3: (None, None), 4: (CLOCK, None)}


def test_rows_of_earlier_versions_go() -> None:
    rows, removed = changed(Retire("version", 3, "", "", CLOCK), VERSIONED, "version")
    assert ([row["id"] for row in rows], removed) == ([2, 3], 2)


def test_files_without_an_earlier_version_are_passed_over() -> None:
    plan, change = plan_table(None, VERSIONED.schema), Retire("version", 3, "", "", CLOCK)

    def versions(low: int, nulls: int = 0) -> dict[str, Any]:
        bounds = {"minValues": {"version": low}, "maxValues": {"version": 9}}
        return entry(**bounds, nullCount={"version": nulls})

    assert change.may_be_in(versions(2), plan)
    assert change.may_be_in(versions(3, nulls=1), plan)
    assert change.may_be_in(entry(), plan)
    assert change.may_be_in(entry(nullCount={"version": 4}), plan)
    assert not change.may_be_in(versions(3), plan)
    assert change.read_context(np.array([0])) is None
