"""A load says what it changes in its table's columns, and that rows with keys are added again."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport

STRICT = (
    "; `schema_evolution: strict` (`--schema-evolution strict`) refuses new columns, "
    "`--expect 'columns: same'` absent ones, too"
)
KEYS = (
    "the stream declares keys (id), and these rows are added to those that the table had; "
    "`mode: merge` (`--mode merge`) updates instead of adding"
)


def land(lake: Path, rows: dict[str, Any], **keys: Any) -> tuple[str, ...]:
    """Land rows in a table without internal columns; return the notes."""
    report = lakeport.land(
        pa.table(rows), lake, **{"table": "t", "internal_columns": False, **keys}
    )
    return report.streams[0].notes


def plan(lake: Path, rows: dict[str, Any], **keys: Any) -> tuple[str, ...]:
    planned = lakeport.plan(
        pa.table(rows), lake, **{"table": "t", "internal_columns": False, **keys}
    )
    return planned.streams[0].notes


@pytest.mark.parametrize("file_type", ["delta", "parquet", "csv"])
def test_added_and_absent_columns_are_told_before_and_after(tmp_path: Path, file_type: str) -> None:
    assert land(tmp_path, {"id": [1], "v": [2]}, file_type=file_type) == ()
    rows = {"ID": [1], "w": [2], "extra": [3]}
    said = (
        "2 columns added: w, extra; 1 absent, null in these rows: v; 1 in another case: ID (id)"
        + STRICT,
    )
    assert plan(tmp_path, rows, file_type=file_type) == said
    assert land(tmp_path, rows, file_type=file_type) == said


def test_members_of_objects_are_columns_too(tmp_path: Path) -> None:
    land(tmp_path, {"id": [1], "o": [{"a": 1, "b": [{"c": 1}]}]})
    assert land(tmp_path, {"id": [1], "o": [{"a": 1, "b": [{"C": 1, "d": 2}]}]}) == (
        f"1 column added: o.b.element.d; 1 in another case: o.b.element.C (o.b.element.c){STRICT}",
    )


def test_a_misspelt_column_is_asked_about(tmp_path: Path) -> None:
    land(tmp_path, {"id": [1], "amount_net": [2]})
    notes = land(tmp_path, {"id": [1], "amount net": [2]}, rename={"amount net": "amountnet"})
    assert notes[1] == (
        "is 'amountnet' the table's 'amount_net'? `--rename 'amount net=amount_net'` lands it there"
    )


def test_an_overwrite_tells_what_goes_and_a_merge_what_stays(tmp_path: Path) -> None:
    land(tmp_path, {"id": [1], "v": [2], "w": [3]})
    keys: dict[str, Any] = {"mode": "merge", "merge_keys": ["id"]}
    assert land(tmp_path, {"id": [1], "w": [9]}, **keys) == ("1 column absent: v",)
    rows = {"id": [1], "w": ["x"], "y": [1]}
    said = ("1 column added: y; 1 dropped: v; 1 of another type: w (was integer)",)
    assert plan(tmp_path, rows, mode="overwrite") == said
    planned = lakeport.plan(pa.table(rows), tmp_path, table="t", mode="overwrite").streams[0]
    assert {one.name: one.change for one in planned.columns}["v"] == "dropped"
    assert land(tmp_path, rows, mode="overwrite") == said
    assert DeltaTable(tmp_path / "t").to_pyarrow_table().column_names == ["id", "w", "y"]


@pytest.mark.parametrize("file_type", ["delta", "parquet"])
def test_other_columns_than_the_table_has_are_refused(tmp_path: Path, file_type: str) -> None:
    keys: dict[str, Any] = {"file_type": file_type, "expect": [{"columns": "same"}]}
    assert land(tmp_path, {"id": [1], "v": [2]}, **keys) == ()
    assert land(tmp_path, {"v": [1], "ID": [2]}, **keys) == ("1 column in another case: ID (id)",)
    for rows, words in (
        ({"id": [1]}, "columns(same): 1 column absent, null in these rows: v; nothing"),
        ({"id": [1], "v": [1], "w": [1]}, "columns(same): 1 column added: w; nothing"),
    ):
        with pytest.raises(lakeport.ExpectationFailed) as caught:
            land(tmp_path, rows, **keys)
        assert words in caught.value.message
    warn = {"columns": "same", "otherwise": "warn"}
    frame = pa.table({"id": [1]})
    report = lakeport.land(frame, tmp_path, table="t", **{**keys, "expect": [warn]})
    (result,) = report.streams[0].expectations
    assert (result.name, result.failed) == ("columns(same)", 1)
    with pytest.raises(lakeport.ConfigError, match="none can be set aside"):
        land(tmp_path, {"id": [1]}, expect=[{"columns": "same", "otherwise": "quarantine"}])


def test_many_columns_are_counted(tmp_path: Path) -> None:
    land(tmp_path, {"id": [1]})
    (note,) = land(tmp_path, {"id": [1], **{f"c{n}": [n] for n in range(12)}})
    assert note.startswith("12 columns added: c0, c1,")
    assert "c9 and 2 more;" in note


def messages(stream: str, count: int, *columns: str) -> list[dict[str, Any]]:
    """A schema with the key `id`, and records, of a Singer stream."""
    names = ("id", *columns)
    schema = {"properties": {name: {"type": ["null", "integer"]} for name in names}}
    rows: list[dict[str, Any]] = [
        {"type": "RECORD", "stream": stream, "record": dict.fromkeys(names, n)}
        for n in range(count)
    ]
    about = {"type": "SCHEMA", "stream": stream, "schema": schema, "key_properties": ["id"]}
    return [about, *rows]


def tap(lake: Path, *streams: list[dict[str, Any]], **keys: Any) -> lakeport.LandingReport:
    lines = "".join(f"{json.dumps(message)}\n" for stream in streams for message in stream)
    return lakeport.land(io.BytesIO(lines.encode()), lake, **keys)


def test_each_column_is_told_once_by_all_batches_of_a_stream(tmp_path: Path) -> None:
    tap(tmp_path, messages("a", 1, "v"))
    report = tap(tmp_path, messages("a", 5, "w"), mode="overwrite", maximum_batch_rows=2)
    assert report.streams[0].notes == ("1 column added: w; 1 dropped: v",)
    report = tap(tmp_path, messages("a", 5, "x"), maximum_batch_rows=2)
    assert report.streams[0].batches == 3
    changes = f"1 column added: x; 1 absent, null in these rows: w{STRICT}"
    assert report.streams[0].notes == (changes, KEYS)


def test_keys_are_hinted_at_once_a_load_where_the_table_had_rows(tmp_path: Path) -> None:
    first = tap(tmp_path, messages("a", 1), messages("b", 1), messages("none", 0))
    assert not any(stream.notes for stream in first.streams)
    again = tap(tmp_path, messages("a", 1), messages("b", 1), messages("none", 1))
    assert sorted(note for stream in again.streams for note in stream.notes) == [KEYS]
    empty = tap(tmp_path, messages("c", 0))
    assert [stream.notes for stream in empty.streams] == [()]
    assert tap(tmp_path, messages("c", 1)).streams[0].notes == ()  # the table had no rows
    assert tap(tmp_path, messages("c", 1)).streams[0].notes == (KEYS,)
    for mode in ("merge", "overwrite"):
        assert tap(tmp_path, messages("c", 1), mode=mode).streams[0].notes == ()


@pytest.mark.parametrize("file_type", ["delta", "parquet", "csv"])
def test_rejected_records_add_no_columns_and_no_rows(tmp_path: Path, file_type: str) -> None:
    keys: dict[str, Any] = {"file_type": file_type, "on_bad_record": "quarantine"}
    tap(tmp_path, messages("a", 1), **keys)
    rejected = messages("a", 1, "new")
    rejected[1]["record"]["id"] = "x"
    source = tmp_path / "tap.jsonl"
    source.write_text("".join(f"{json.dumps(message)}\n" for message in rejected))
    planned = lakeport.plan(source, tmp_path, source_format="singer", **keys)
    assert [stream.notes for stream in planned.streams] == [()]
    (stream,) = tap(tmp_path, rejected, **keys).streams
    assert (stream.rows, stream.rejected, stream.notes) == (0, 1, ())
    empty = tmp_path / "empty.csv"
    empty.write_text("id,new\n")
    planned = lakeport.plan(empty, tmp_path, table="a", **keys)
    told = any("added: new" in note for note in planned.streams[0].notes)
    landed = lakeport.land(empty, tmp_path, table="a", **keys)
    assert any("added: new" in note for note in landed.streams[0].notes) is told
    assert told is (file_type == "delta")


def test_a_repeated_run_and_files_get_hints_that_are_true(tmp_path: Path) -> None:
    tap(tmp_path, messages("a", 1), run_id="one")
    assert tap(tmp_path, messages("a", 1), run_id="one").streams[0].notes == ()
    tap(tmp_path, messages("f", 1), file_type="parquet")
    (note,) = tap(tmp_path, messages("f", 1), file_type="parquet").streams[0].notes
    assert note.endswith(
        "`mode: merge` (`--mode merge`) in a Delta table updates instead of adding"
    )
    land(tmp_path, {"id": [1]}, merge_keys=["id"])
    (note,) = land(tmp_path, {"id": [1], "v": [1]}, merge_keys=["id"])[1:]
    assert note.startswith("`merge_keys` names keys (id), and")
