"""Records of tables: the JSON documents that they make, and how they show themselves."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime

from lakeport.lake.records import (
    CompactReport,
    HistoryEntry,
    PartitionReport,
    SingerState,
    TableColumn,
    TableDescription,
    UndoReport,
    VacuumReport,
)

MOMENT = datetime(2024, 5, 1, 10, 30, tzinfo=UTC)
FILES = TableDescription(
    format="csv", columns=(TableColumn("id", "int64"),), rows=None, files=2, bytes=30, small_files=2
)


def test_a_description_leaves_out_what_only_delta_tables_have() -> None:
    columns = [{"name": "id", "type": "int64"}]
    plain = {"format": "csv", "columns": columns, "rows": None, "files": 2, "bytes": 30}
    assert FILES.to_dict() == {**plain, "small_files": 2}
    delta = replace(FILES, version=0, warning="small", partitions=0, last_change=MOMENT)
    told = delta.to_dict()
    assert (told["warning"], told["version"], told["oldest_version"]) == ("small", 0, None)
    assert (told["partition_columns"], told["last_change"]) == ([], "2024-05-01T10:30:00+00:00")


def test_a_description_is_short_where_it_is_shown() -> None:
    assert repr(FILES) == (
        "TableDescription(format='csv', rows=None, files=2, bytes=30, columns=1)"
    )


def test_documents_hold_plain_values_only() -> None:
    entry = HistoryEntry(1, MOMENT, "WRITE", "Append", 1, 0, None, 9, "r", None)
    assert entry.to_dict()["timestamp"] == "2024-05-01T10:30:00+00:00"
    undone = UndoReport("r", MOMENT, 3, 2, 3, 1, (2,)).to_dict()
    assert (undone["committed"], undone["undone"]) == ("2024-05-01T10:30:00+00:00", [2])
    assert VacuumReport(2, deleted=1, bytes=9).to_dict() == {"deleted": 1, "bytes": 9, "version": 2}
    dry = VacuumReport(2, dry_run=True, files=("a",))
    assert dry.to_dict() == {"dry_run": True, "version": 2, "files": ["a"]}
    state = SingerState(b'{"seen": 1}', 0, None, "r")
    told = {"state": {"seen": 1}, "version": 0, "timestamp": None, "run_id": "r"}
    assert state.to_dict() == told


def test_a_compact_report_lists_its_partitions_last() -> None:
    row = PartitionReport("p=1", 2, 20, 2, 2, 1, 20)
    report = CompactReport(4, 256, 32, 2, 2, 2, 1, 20, partitions=(row,))
    assert list(report.to_dict())[-2:] == ["would_rewrite_bytes", "partitions"]
    assert report.to_dict()["partitions"] == [asdict(row)]
    assert "p=1" not in repr(report)
