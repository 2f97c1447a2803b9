"""Log entries: values, folders, paths, marks and what the log's files tell."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

from lakeport.delta_log.actions import (
    add_action,
    check_partition_type,
    format_partition_value,
    metadata_action,
    parse_partition_value,
    partition_folder,
    quote_path,
    transaction_action,
)
from lakeport.delta_log.reader import DeltaLog
from lakeport.delta_log.transactions import CommitMark
from lakeport.errors import ConfigError, SourceError
from lakeport.storage.local import LocalStorage

AT = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        ("a b/c:%=é🦀", pa.string(), "a b/c:%=é🦀"),
        (-7, pa.int64(), "-7"),
        (False, pa.bool_(), "false"),
        (Decimal("1E+2"), pa.decimal128(5, 0), "100"),
        (date(1, 2, 3), pa.date32(), "0001-02-03"),
        (
            datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            AT,
            "2024-01-01T00:00:00.000000Z",
        ),
        (None, pa.string(), None),
    ],
)
def test_values_there_and_back(value: object, type_: pa.DataType, text: str | None) -> None:
    assert format_partition_value(value) == text
    assert parse_partition_value(text, type_) == value


def test_spellings_of_a_time_are_one_value() -> None:
    texts = ["2024-01-01 10:00:00", "2024-01-01 10:00:00.0", "2024-01-01T10:00:00.000000Z"]
    assert {parse_partition_value(text, AT) for text in texts} == {
        datetime(2024, 1, 1, 10, tzinfo=UTC)
    }
    assert format_partition_value("") is None


@pytest.mark.parametrize(
    ("text", "type_", "shown"),
    [
        ("+10001-02-03", pa.date32(), "10001-02-03"),
        ("-0044-03-15", pa.date32(), "-0044-03-15"),
        ("0000-02-29", pa.date32(), "0000-02-29"),
        ("+10001-02-04 00:00:00.5", pa.timestamp("us"), "10001-02-04 00:00:00.500000"),
        ("+10001-02-04T00:00:00.000000Z", AT, "10001-02-04 00:00:00.000000Z"),
    ],
)
def test_dates_outside_of_python_s_years_are_those_of_arrow(
    text: str, type_: pa.DataType, shown: str
) -> None:
    value = pa.scalar(parse_partition_value(text, type_), type_)
    assert value.cast(pa.string()).as_py() == shown


def test_spellings_of_a_number_are_one_value() -> None:
    assert (
        parse_partition_value("1.0E10", pa.float64())
        == parse_partition_value("10000000000.0", pa.float64())
        == 1e10
    )
    assert {(parse_partition_value("NaN", pa.float32()),)} == {
        (parse_partition_value("nan", pa.float32()),)
    }
    assert parse_partition_value("0.1", pa.float32()) == pa.scalar(0.1, pa.float32()).as_py()


@pytest.mark.parametrize("type_", [pa.float64(), pa.binary(), pa.list_(pa.int64())])
def test_types_that_make_no_partitions(type_: pa.DataType) -> None:
    with pytest.raises(ConfigError, match="'c'"):
        check_partition_type("c", type_)


def test_folders_are_legal_names_and_paths_lead_to_them() -> None:
    assert partition_folder({"a=b": "x:y\n"}) == "a%3Db=x%3Ay%0A"
    long = [partition_folder({"c": char * 1000}) for char in ("é", "🦀", "%")]
    assert len({*long, partition_folder({"c": "é" * 999})}) == 4
    assert all(len(name.encode()) <= 255 for name in long)
    assert quote_path("c=a%3A\u00a0 é🦀") == "c=a%253A%C2%A0%20é🦀"
    assert unquote(quote_path("c=a%3A\u00a0 é🦀")) == "c=a%3A\u00a0 é🦀"


def test_a_mark_comes_back_with_its_state_unchanged() -> None:
    for state in (None, b"", b'{"a":  1, "\xc3\xa9": 2}', b"\xff"):
        mark = CommitMark("r", "s", 3, "d", "b", "c", state)
        assert CommitMark.parse(mark.format()) == mark
    for other in (None, "", "text", "[]", '{"lakeport": 1}', '{"lakeport": {"run_id": "r"}}'):
        assert CommitMark.parse(other) is None


def _commit(root: Path, version: int, *actions: str | dict[str, Any]) -> None:
    lines = [a if isinstance(a, str) else json.dumps(a) for a in actions]
    path = root / "t" / "_delta_log" / f"{version:020d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


def test_history_and_replay_of_a_log(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    schema = {"type": "struct", "fields": []}
    add = add_action("c=a b/x.parquet", {"c": "a b"}, 10, 0, '{"numRecords": 4}')
    _commit(
        tmp_path,
        0,
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        metadata_action("id", schema, ["c"], {}, 0),
        add,
        transaction_action("app", 5, 0),
    )
    mark = CommitMark("r", "s", 0, "d", "b", "c", b"{}")
    _commit(
        tmp_path,
        1,
        {"commitInfo": {"operation": "WRITE", "userMetadata": mark.format()}},
        {"remove": {"path": "c=a%20b/x.parquet", "dataChange": True}},
        add_action("y.parquet", {"c": None}, 20, 0, ""),
    )
    commits = DeltaLog(storage, "t")
    assert commits.find_newest_version() == 1
    newest = commits.read_commit(1)
    assert newest is not None
    assert (newest.added, newest.removed, newest.rows_added, newest.mark) == (1, 1, -1, mark)
    assert commits.last_transactions(1, ["app", "none"]) == {"app": 5, "none": -1}
    log = DeltaLog(storage, "t").list_files()
    first, second = log.replay(0), log.replay(1)
    assert first is not None
    assert second is not None
    assert [f.path for f in first.files] == ["c=a%20b/x.parquet"]
    assert [f.path for f in second.files] == ["y.parquet"]
    (tmp_path / "t" / "_delta_log" / f"{0:020d}.json").unlink()
    assert DeltaLog(storage, "t").list_files().replay(1) is None
    lost = f"does not tell what the table holds at version 1: .* such as {0:020d}.json"
    with pytest.raises(SourceError, match=lost):
        commits.last_transactions(1, ["app"])
    assert DeltaLog(storage, "nothing").list_files().newest == -1
