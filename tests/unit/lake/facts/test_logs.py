"""Logs as years and other programs leave them: cleaned, torn, with checkpoints of every kind."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakeport.delta_log.checkpoint import write_checkpoint
from lakeport.delta_log.reader import DeltaLog
from lakeport.errors import DestinationError, SourceError
from lakeport.storage.local import LocalStorage
from tests.long_table import write_long_table
from tests.unit.lake.facts.kit import PROTOCOL, add, did, facts, metadata, remove, write

BEGIN = [PROTOCOL, metadata({"id": "long"})]
GROWN = metadata({"id": "long", "more": "string"})


def commits(count: int) -> list[list[dict[str, Any]]]:
    """Each adds a file of ten rows; the fourth removes that of the second, and so on."""
    found = [[*BEGIN, add("f0", 10)]]
    for number in range(1, count):
        gone = [remove(f"f{number - 2}")] if number % 4 == 3 else []
        found.append([did("WRITE", mode="Append"), *gone, add(f"f{number}", 10)])
    return found


def checkpoint(table: Path, version: int) -> Path:
    write_checkpoint(DeltaLog(LocalStorage(str(table)), ""), version)
    return table / "_delta_log" / f"{version:020d}.checkpoint.parquet"


def clean(log: Path, before: int) -> None:
    for version in range(before):
        (log / f"{version:020d}.json").unlink()


def test_a_cleaned_log_tells_the_versions_that_it_has(tmp_path: Path) -> None:
    log = write(tmp_path / "t", commits(12))
    whole = facts(tmp_path / "t")
    checkpoint(tmp_path / "t", 8)
    assert facts(tmp_path / "t") == whole
    clean(log, 5)
    told = facts(tmp_path / "t")
    assert told.older_versions == 5
    assert [column.since for column in whole.columns] == [0]
    columns = tuple(replace(column, since=None) for column in whole.columns)
    assert (told.versions, told.columns) == (whole.versions[5:], columns)
    assert told.rows == whole.rows == 90


def test_maintenance_is_called_so_and_changes_no_rows(tmp_path: Path) -> None:
    start, end = did("VACUUM START"), did("VACUUM END", status="COMPLETED")
    end["commitInfo"]["engineInfo"] = "Apache-Spark/4.2.0 Delta-Lake/4.4.0"
    merged = [did("OPTIMIZE"), remove("f0"), remove("f1"), add("f2", 20)]
    more = [[did("SET TBLPROPERTIES")], merged, [start], [end]]
    write(tmp_path / "t", [*commits(2), *more])
    told = facts(tmp_path / "t")
    assert [one.changed for one in told.versions] == [True, True, False, False, False, False]
    assert [one.operation for one in told.versions[-2:]] == ["VACUUM, start", "VACUUM, end"]
    assert told.last_writer == "Apache-Spark/4.2.0 Delta-Lake/4.4.0"


def test_what_went_before_the_oldest_contents_may_have_had_any_rows(tmp_path: Path) -> None:
    log = write(tmp_path / "t", commits(12))
    whole = facts(tmp_path / "t").versions
    checkpoint(tmp_path / "t", 8)
    clean(log, 6)
    told = facts(tmp_path / "t").versions  # the seventh removes what the fifth added
    assert [one.rows for one in told] == [None, *(one.rows for one in whole[7:])]
    assert [one.files for one in told] == [one.files for one in whole[6:]]
    assert told[1].rows_removed is None
    assert [one.columns for one in told] == [()] * 6


def test_a_schema_that_the_log_no_longer_tells_is_none(tmp_path: Path) -> None:
    changes: list[list[dict[str, Any]]] = [[GROWN], [did("WRITE", mode="Append"), add("new", 1)]]
    log = write(tmp_path / "t", commits(6) + changes)
    checkpoint(tmp_path / "t", 7)
    clean(log, 4)
    told = facts(tmp_path / "t")
    assert [one.columns for one in told.versions] == [()] * 4


def test_only_a_checkpoint_is_left(tmp_path: Path) -> None:
    log = write(tmp_path / "t", commits(4))
    checkpoint(tmp_path / "t", 3)
    clean(log, 4)
    told = facts(tmp_path / "t")
    assert (told.rows, told.versions, told.older_versions) == (30, [], 4)


def test_a_long_log_tells_what_delta_rs_tells(tmp_path: Path) -> None:
    write_long_table(tmp_path / "t", versions=120, files=3, checkpoints=10)
    clean(tmp_path / "t" / "_delta_log", 30)
    (tmp_path / "t" / "_delta_log" / f"{10:020d}.checkpoint.parquet").unlink()
    (tmp_path / "t" / "_delta_log" / f"{20:020d}.checkpoint.parquet").unlink()
    told = facts(tmp_path / "t")
    assert (told.versions[0].number, told.older_versions) == (30, 30)
    for version in told.versions[::9]:
        adds = pa.table(DeltaTable(tmp_path / "t", version=version.number).get_add_actions())
        assert (version.files, version.rows, version.bytes) == (
            len(adds),
            pc.sum(adds["num_records"]).as_py(),
            pc.sum(adds["size_bytes"]).as_py(),
        )
    assert sum(one.files for one in told.by_partition) == len(told.file_sizes)


@pytest.mark.parametrize("stats", ["text", "typed"])
@pytest.mark.parametrize("kind", ["parts", "sidecars", "json", "classic name"])
def test_checkpoints_of_every_kind_tell_the_contents(tmp_path: Path, kind: str, stats: str) -> None:
    first = [PROTOCOL, metadata({"id": "long", "at": "timestamp", "p": "string"}, "p")]
    at = {"at": "2024-05-01T10:00:00.000Z"}
    files = [
        add(
            f"f{n}",
            10,
            low={"id": n, **at},
            high={"id": n + 5, **at},
            nulls={"id": 1, "at": 0},
            values={"p": f"v{n % 2}"},
        )
        for n in range(5)
    ]
    log = write(tmp_path / "t", [[*first, files[0]], *([file] for file in files[1:])])
    whole = facts(tmp_path / "t")
    split(checkpoint(tmp_path / "t", 3), kind, typed=stats == "typed")
    clean(log, 3)
    told = facts(tmp_path / "t")
    assert told.columns == tuple(replace(column, since=None) for column in whole.columns)
    assert told.by_partition == whole.by_partition
    assert told.versions == whole.versions[3:]


def split(classic: Path, kind: str, *, typed: bool) -> None:
    """Write a checkpoint in another way, in place of a classic one."""
    table = pq.read_table(classic)
    classic.unlink()
    if typed:
        table = with_typed_statistics(table)
    home = classic.parent
    stem = classic.name.removesuffix(".parquet")
    if kind == "parts":
        half = len(table) // 2
        pq.write_table(table.slice(0, half), home / f"{stem}.0000000001.0000000002.parquet")
        pq.write_table(table.slice(half), home / f"{stem}.0000000002.0000000002.parquet")
        return
    is_add = table["add"].is_valid()
    adds = table.filter(is_add).select(["add"])
    (home / "_sidecars").mkdir()
    sidecars = []
    for number, part in enumerate((adds.slice(0, 2), adds.slice(2))):
        pq.write_table(part, home / "_sidecars" / f"s{number}.parquet")
        sidecars.append({"path": f"s{number}.parquet", "sizeInBytes": 1, "modificationTime": 0})
    rest = table.select(["metaData", "protocol"]).to_pylist(maps_as_pydicts="strict")
    actions = [*rest, *({"sidecar": each} for each in sidecars)]
    if kind == "json":
        lines = (
            json.dumps({key: value for key, value in action.items() if value}) for action in actions
        )
        (home / f"{stem}.{uuid.uuid4()}.json").write_text("".join(f"{line}\n" for line in lines))
        return
    kept = table.filter(pc.invert(is_add)).select(["metaData", "protocol"])
    named = pa.Table.from_pylist([{"sidecar": each} for each in sidecars])
    name = classic.name if kind == "classic name" else f"{stem}.{uuid.uuid4()}.parquet"
    pq.write_table(pa.concat_tables([kept, named], promote_options="default"), home / name)


def with_typed_statistics(table: pa.Table) -> pa.Table:
    """A checkpoint with statistics as columns, and none as text."""
    adds = table["add"].to_pylist(maps_as_pydicts="strict")
    type_ = table["add"].type
    bounds = pa.struct([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    counts = pa.struct([("id", pa.int64()), ("at", pa.int64())])
    parsed = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", bounds),
            ("maxValues", bounds),
            ("nullCount", counts),
        ]
    )
    for body in adds:
        if body is not None:
            told = json.loads(body.pop("stats"))
            for part in ("minValues", "maxValues"):
                told[part]["at"] = datetime.fromisoformat(told[part]["at"])
            body["stats_parsed"] = told
            body["partitionValues"] = list(body["partitionValues"].items())
            body["tags"] = None
    kept = [field for field in type_ if field.name != "stats"]
    column = pa.array(adds, pa.struct([*kept, ("stats_parsed", parsed)]))
    return table.set_column(table.column_names.index("add"), "add", column)


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    log = write(tmp_path / "t", commits(8))
    old = checkpoint(tmp_path / "t", 4)
    checkpoint(tmp_path / "t", 6)
    clean(log, 3)
    old.write_bytes(b"PAR1")
    assert facts(tmp_path / "t").rows == 60
    clean_checkpoint = log / f"{6:020d}.checkpoint.parquet"
    clean_checkpoint.write_bytes(b"PAR1")
    with pytest.raises(DestinationError, match=r"4\.checkpoint\.parquet is no checkpoint"):
        facts(tmp_path / "t")


def test_a_gap_in_the_log_hides_what_is_before_it(tmp_path: Path) -> None:
    log = write(tmp_path / "t", commits(8))
    checkpoint(tmp_path / "t", 6)
    (log / f"{5:020d}.json").unlink()
    told = facts(tmp_path / "t")
    assert [one.number for one in told.versions] == [6, 7]
    assert told.older_versions == 6
    assert "5 further commits" in told.notes[0]
    (log / f"{6:020d}.checkpoint.parquet").unlink()
    with pytest.raises(SourceError, match="does not tell what the table holds"):
        facts(tmp_path / "t")


def test_a_damaged_commit_is_named(tmp_path: Path) -> None:
    log = write(tmp_path / "t", commits(3))
    (log / f"{1:020d}.json").write_text('{"commitInfo":{}}\n{"add":')
    with pytest.raises(DestinationError, match=r"1\.json is no commit.*line 2"):
        facts(tmp_path / "t")
    (log / f"{1:020d}.json").write_text('{"add":{"size":1}}\n')
    with pytest.raises(DestinationError, match=r"1\.json is no commit.*line 1 is no whole action"):
        facts(tmp_path / "t")


def test_a_table_without_rows_and_one_without_columns(tmp_path: Path) -> None:
    write(tmp_path / "empty", [[did("CREATE TABLE"), *BEGIN]])
    told = facts(tmp_path / "empty")
    assert (told.rows, told.bytes, told.file_sizes, told.by_partition) == (0, 0, [], [])
    assert [(c.name, c.nulls, c.minimum) for c in told.columns] == [("id", 0, None)]
    assert told.versions[0].operation == "CREATE TABLE"
    write(tmp_path / "bare", [[PROTOCOL, metadata({})]])
    assert facts(tmp_path / "bare").columns == ()


def test_files_without_statistics_leave_the_rows_unknown(tmp_path: Path) -> None:
    write(tmp_path / "t", [[*BEGIN, add("a", 5)], [add("b", None)], [remove("b")]])
    told = facts(tmp_path / "t")
    assert [one.rows for one in told.versions] == [5, None, 5]
    assert [(one.rows_added, one.rows_removed) for one in told.versions[1:]] == [
        (None, 0),
        (0, None),
    ]
    write(tmp_path / "t", [[add("c", None)]], since=3)
    told = facts(tmp_path / "t")
    assert told.rows is None and "1 of 2 data files have no statistics" in told.notes[0]


def test_deleted_rows_are_not_counted(tmp_path: Path) -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 4}
    known = {"low": {"id": 1}, "high": {"id": 10}, "nulls": {"id": 2, "more": 10}}
    begin = [PROTOCOL, metadata({"id": "long", "more": "string"})]
    deleted = [did("DELETE"), remove("a"), add("a", 10, deletionVector=vector, **known)]
    write(tmp_path / "t", [[*begin, add("a", 10, **known)], deleted])
    told = facts(tmp_path / "t")
    assert (told.rows, told.versions[1].rows, told.versions[1].rows_removed) == (6, 6, 10)
    ident, more = told.columns
    assert (ident.nulls, ident.minimum, ident.maximum) == (None, "1", "10")
    assert "deleted" in ident.approximate
    assert (more.nulls, more.minimum, more.approximate) == (6, None, "")
    write(tmp_path / "t", [[remove("a", deletionVector=vector)]], since=2)
    assert facts(tmp_path / "t").rows == 0


def test_columns_have_their_own_names_and_not_those_of_the_files(tmp_path: Path) -> None:
    inner = {"name": "unit price", "nullable": True, "type": "decimal(5,2)"}
    fields = {
        "of": {
            "name": "of",
            "type": {"type": "struct", "fields": [{**inner, "metadata": key(3)}]},
            "nullable": True,
            "metadata": key(1),
        },
        "the day": {"name": "the day", "type": "date", "nullable": True, "metadata": key(2)},
    }
    file = add(
        "a",
        2,
        low={"c1": {"c3": 9}},
        high={"c1": {"c3": 10.5}},
        nulls={"c1": {"c3": 0}},
        values={"c2": "2024-05-01"},
    )
    write(tmp_path / "t", [[PROTOCOL, metadata(fields, "the day"), file]])
    told = facts(tmp_path / "t")
    assert [(c.name, c.type, c.role, c.minimum, c.maximum) for c in told.columns] == [
        ("of.unit price", "decimal(5,2)", "", "9.00", "10.50"),
        ("the day", "date", "partition", "2024-05-01", "2024-05-01"),
    ]
    assert [one.name for one in told.by_partition] == ["the day=2024-05-01"]


def key(number: int) -> dict[str, Any]:
    named = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"c{number}"}
    return dict(named)


def test_partitions_by_any_spelling_of_a_value(tmp_path: Path) -> None:
    begin = [PROTOCOL, metadata({"id": "long", "at": "timestamp"}, "at")]
    spellings = ["2024-05-01 10:30:00", "2024-05-01T10:30:00.000000Z", None, ""]
    files = [add(f"f{n}", 3, values={"at": text}) for n, text in enumerate(spellings)]
    write(tmp_path / "t", [[*begin, *files]])
    told = facts(tmp_path / "t")
    assert [(one.name, one.files, one.rows) for one in told.by_partition] == [
        ("at=2024-05-01T10:30:00Z", 2, 6),
        ("at=null", 2, 6),
    ]
    assert [(c.nulls, c.minimum, c.approximate) for c in told.columns[1:]] == [
        (6, "2024-05-01T10:30:00Z", "")
    ]


ODD: list[dict[str, Any]] = [
    {"commitInfo": {"timestamp": 10**20, "operation": "WRITE", "operationParameters": None}},
    {"commitInfo": {"timestamp": "yesterday", "operation": None, "userMetadata": "no JSON"}},
    {"add": {"path": "o", "partitionValues": {}, "size": 1, "stats": "5"}},
    {"add": {"path": "o", "partitionValues": {}, "size": 1, "stats": '{"numRecords":"many"}'}},
    {"add": {"path": "o", "partitionValues": {}, "size": 1, "stats": '{"nullCount":[1]}'}},
    add("o", nulls={"id": {"a": 1}, "in": 5}, low={"id": [], "in": 3}, high={"id": {}}),
]


@pytest.mark.parametrize("action", ODD)
def test_what_other_programs_may_leave_harms_no_page(
    tmp_path: Path, action: dict[str, Any]
) -> None:
    inner = {"type": "struct", "fields": [{"name": "x", "type": "long", "metadata": {}}]}
    begin = [PROTOCOL, metadata({"id": "long", "in": inner}), add("a", nulls={"id": 0})]
    write(tmp_path / "t", [begin, [action]])
    told = facts(tmp_path / "t")
    assert len(told.versions) == 2 and told.versions[1].at is None
    if "add" in action:
        assert [(c.nulls, c.minimum) for c in told.columns] == [(None, None)] * 2
