"""What became of the values is found out, and told in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from bench import data, values

RECORDS = 300
GIVEN = pa.concat_tables(data.tables(RECORDS))
FLAT = data.flat(GIVEN)


@pytest.fixture
def words(tmp_path: Path) -> Callable[[pa.Table, str], str]:
    """Lands a table as Parquet, and tells what became of the values of an input."""

    def told(table: pa.Table, input_: str) -> str:
        (tmp_path / "events").mkdir()
        pq.write_table(table, tmp_path / "events" / "1.parquet")
        return compared(tmp_path, "parquet", input_)

    return told


def compared(folder: Path, format_: str, input_: str) -> str:
    given = values.truth(folder, input_, RECORDS)
    return values.compare(folder, format_, values.fields(input_), given).words()


def test_the_same_values_in_another_order_came_through(
    words: Callable[[pa.Table, str], str],
) -> None:
    backwards = GIVEN.take(pa.array(range(RECORDS - 1, -1, -1)))
    assert words(backwards, "singer") == ""


def test_files_of_a_log_and_of_internal_tables_do_not_count(tmp_path: Path) -> None:
    pq.write_table(GIVEN, tmp_path / "events.parquet")
    (tmp_path / "_dlt_loads").mkdir()
    pq.write_table(GIVEN, tmp_path / "_dlt_loads" / "1.parquet")
    assert compared(tmp_path, "parquet", "frame") == ""


def test_a_missing_row_and_one_twice_are_seen(words: Callable[[pa.Table, str], str]) -> None:
    found = words(pa.concat_tables([GIVEN.slice(2), GIVEN.slice(2, 2)]), "singer")
    assert "rows of" not in found and "values changed: id, name" in found


def test_rows_that_are_lost_are_counted(words: Callable[[pa.Table, str], str]) -> None:
    assert words(GIVEN.slice(1), "singer").startswith("299 rows of 300; values changed: ")


def test_one_value_that_is_another_is_seen(words: Callable[[pa.Table, str], str]) -> None:
    scores = GIVEN.column("score").to_pylist()
    scores[7] = (scores[7] or 0) + 1
    place = GIVEN.schema.get_field_index("score")
    changed = GIVEN.set_column(place, "score", pa.array(scores, pa.int64()))
    assert words(changed, "singer") == "values changed: score"


def test_values_that_swapped_their_rows_within_a_column_are_not_seen(
    words: Callable[[pa.Table, str], str],
) -> None:
    """The fingerprint's known limit: each column is compared by itself."""
    place = GIVEN.schema.get_field_index("score")
    scores = GIVEN.column("score").to_pylist()
    swapped = GIVEN.set_column(place, "score", pa.array(scores[::-1], pa.int64()))
    assert words(swapped, "singer") == ""


def test_a_timestamp_that_became_text_is_told(words: Callable[[pa.Table, str], str]) -> None:
    place = GIVEN.schema.get_field_index("created_at")
    text = pc.strftime(GIVEN.column("created_at"), "%Y-%m-%dT%H:%M:%S+00:00")
    assert words(GIVEN.set_column(place, "created_at", text), "singer") == (
        "as VARCHAR: created_at"
    )


def test_text_that_became_a_number_is_a_change(words: Callable[[pa.Table, str], str]) -> None:
    place = FLAT.schema.get_field_index("zip")
    numbers = FLAT.set_column(place, "zip", FLAT.column("zip").cast(pa.int64()))
    assert words(numbers, "csv") == "values changed: zip as BIGINT"


def test_nulls_that_became_empty_texts_are_told(words: Callable[[pa.Table, str], str]) -> None:
    place = FLAT.schema.get_field_index("city")
    filled = FLAT.set_column(place, "city", pc.fill_null(FLAT.column("city"), ""))
    assert words(filled, "csv declared") == "values changed: city (nulls are empty texts)"


def test_a_column_that_is_not_there_is_told(words: Callable[[pa.Table, str], str]) -> None:
    assert words(GIVEN.drop_columns(["tags"]), "singer") == "absent: tags"


def test_flattened_objects_and_lists_apart_keep_their_values(tmp_path: Path) -> None:
    flat = FLAT.rename_columns(
        {
            "city": "address__city",
            "zip": "address__zip",
            "lat": "address__geo__lat",
            "lon": "address__geo__lon",
        }
    )
    items = pc.list_flatten(GIVEN.column("tags"))
    for name, table in (("events", flat), ("events__tags", pa.table({"value": items}))):
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "1.parquet")
    told = "lists in a table of their own; objects flattened"
    assert compared(tmp_path, "parquet", "singer") == told


def test_objects_as_json_text_are_read_and_told(words: Callable[[pa.Table, str], str]) -> None:
    texts = [json.dumps(each) if each else None for each in GIVEN.column("address").to_pylist()]
    place = GIVEN.schema.get_field_index("address")
    told = words(GIVEN.set_column(place, "address", pa.array(texts)), "singer")
    assert "objects as text" in told and "changed" not in told


def test_csv_has_no_types(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(FLAT, tmp_path / "events.csv")
    assert compared(tmp_path, "csv", "csv") == "no types: CSV"


def test_only_a_delta_tables_own_files_count(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "events", GIVEN)
    write_deltalake(tmp_path / "events", GIVEN, mode="overwrite")
    assert compared(tmp_path, "delta", "singer") == ""


def test_nothing_landed_is_told(tmp_path: Path) -> None:
    assert compared(tmp_path, "parquet", "singer").startswith("0 rows of 300; absent: id")
