"""Header case, internal columns, and the order of the table's columns."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from lakeport.errors import InputError
from lakeport.shape import TIMESTAMP, ColumnRules, apply_header_case, plan_shape

CLOCK = datetime(2024, 3, 4, 15, 30, 45, 123456, tzinfo=UTC)


def test_internal_columns_follow_the_source_s_and_hold_one_reading_of_the_clock() -> None:
    shape = plan_shape(pa.schema([("id", pa.int64())]), clock=CLOCK)
    (batch,) = shape(iter([pa.RecordBatch.from_pydict({"id": [1, 2]})]))
    assert batch.schema.names == ["id", "_mage_created_at", "_mage_updated_at"]
    assert batch.column(1).to_pylist() == [CLOCK, CLOCK]
    assert batch.schema.field(1).type == TIMESTAMP


def test_a_row_s_own_creation_time_stays_and_a_missing_one_is_filled() -> None:
    earlier = datetime(2020, 1, 1, tzinfo=UTC)
    source = pa.schema([("_mage_created_at", TIMESTAMP), ("_mage_updated_at", TIMESTAMP)])
    rows = pa.RecordBatch.from_arrays(
        [pa.array([earlier, None], TIMESTAMP), pa.array([earlier, earlier], TIMESTAMP)],
        schema=source,
    )
    (batch,) = plan_shape(source, clock=CLOCK)(iter([rows]))
    assert batch.column(0).to_pylist() == [earlier, CLOCK]
    assert batch.column(1).to_pylist() == [CLOCK, CLOCK]


def test_an_internal_name_of_another_type_is_refused() -> None:
    with pytest.raises(InputError, match="_mage_created_at"):
        plan_shape(pa.schema([("_mage_created_at", pa.int64())]))


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("Unit Price (€)", "unit_price"),
        ("Preis\xa0€\n", "preis"),
        ("userID2Name", "user_id2_name"),
        ("HTTPStatus", "http_status"),
        ("COL1A", "col1a"),
        ("Größe", "grosse"),
        ("e\u0301te\u0301 Łódź", "ete_lodz"),
        ("İstanbul ﬁn m²", "istanbul_fin_m2"),
        ("2024 Q1", "_2024_q1"),
        ("ДатаСоздания й", "дата_создания_й"),
        ("名前 が", "名前_が"),
        ("हिन्दी 한글", "हिन्दी_한글"),
        ("a _ b", "a_b"),
        ("_id", "_id"),
        ("a__b_", "a__b_"),
        ("_mage_created_at", "_mage_created_at"),
        ("%", ""),
    ],
)
def test_snake_case_makes_plain_names_once(name: str, plain: str) -> None:
    assert apply_header_case(name, "snake") == plain
    assert apply_header_case(plain, "snake") == plain


def test_names_that_snake_case_makes_one_or_none_are_refused() -> None:
    both = pa.schema([("Umsatz %", pa.int64()), ("Umsatz €", pa.int64())])
    with pytest.raises(InputError, match="'Umsatz %' and 'Umsatz €' both become 'umsatz'") as one:
        plan_shape(both, header_case="snake")
    assert "--rename 'Umsatz €=umsatz_2'" in one.value.hint
    renamed = ColumnRules(rename={"Umsatz €": "Umsatz_2"})
    shape = plan_shape(both, header_case="snake", rules=renamed)
    assert shape.schema.names[:2] == ["umsatz", "umsatz_2"]
    with pytest.raises(InputError, match="'%' has no letter or digit"):
        plan_shape(pa.schema([("%", pa.int64())]), header_case="snake")


@pytest.mark.parametrize("case", [None, "lower", "upper", "snake"])
def test_names_that_differ_only_in_case_are_refused(case: str | None) -> None:
    with pytest.raises(InputError, match=r"'Id'.*'id'"):
        plan_shape(pa.schema([("Id", pa.int64()), ("id", pa.int64())]), header_case=case)  # type: ignore[arg-type]


def test_alignment_reorders_fills_and_casts_nested_columns() -> None:
    source = pa.schema(
        [
            ("b", pa.int32()),
            ("s", pa.struct([("y", pa.int32())])),
            ("l", pa.list_(pa.struct([("k", pa.int64())]))),
        ]
    )
    table = pa.schema(
        [
            ("s", pa.struct([("x", pa.string()), ("y", pa.int64())])),
            ("a", pa.string()),
            ("b", pa.int64()),
            ("l", pa.list_(pa.struct([("k", pa.int64()), ("m", pa.string())]))),
        ]
    )
    rows = pa.RecordBatch.from_pylist(
        [
            {"b": 1, "s": {"y": 2}, "l": [{"k": 1}, {"k": 2}]},
            {"b": None, "s": None, "l": None},
            {"b": 3, "s": {"y": None}, "l": []},
        ],
        schema=source,
    )
    shape = plan_shape(source, internal_prefix=None).align(table)
    (batch,) = shape(iter([rows.slice(0, 3)]))
    assert batch.schema == table
    assert batch.to_pylist() == [
        {
            "s": {"x": None, "y": 2},
            "a": None,
            "b": 1,
            "l": [{"k": 1, "m": None}, {"k": 2, "m": None}],
        },
        {"s": None, "a": None, "b": None, "l": None},
        {"s": {"x": None, "y": None}, "a": None, "b": 3, "l": []},
    ]
    (tail,) = shape(iter([rows.slice(1, 2)]))
    assert tail.to_pylist() == batch.to_pylist()[1:]


def test_a_table_may_spell_names_in_another_case() -> None:
    source = pa.schema([("ID", pa.int64()), ("s", pa.struct([("Y", pa.int64())]))])
    table = pa.schema([("id", pa.int64()), ("s", pa.struct([("y", pa.int64())]))])
    rows = pa.RecordBatch.from_pylist([{"ID": 1, "s": {"Y": 2}}], schema=source)
    shape = plan_shape(source, internal_prefix=None).align(table)
    assert next(shape(iter([rows]))).to_pylist() == [{"id": 1, "s": {"y": 2}}]


def test_a_value_that_the_table_can_t_hold_exactly_is_refused() -> None:
    source = pa.schema([("n", pa.int64())])
    rows = pa.RecordBatch.from_pylist([{"n": 2**53 + 1}], schema=source)
    shape = plan_shape(source, internal_prefix=None).align(pa.schema([("n", pa.float64())]))
    with pytest.raises(InputError, match="'n'"):
        next(shape(iter([rows])))


def test_rows_without_any_column_are_refused_and_not_lost() -> None:
    rows = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    bare = plan_shape(pa.schema([]), clock=CLOCK, internal_prefix=None)
    with pytest.raises(InputError, match="rows would be lost") as caught:
        list(bare(iter([rows])))
    assert "internal_columns" in caught.value.hint
    assert [batch.num_rows for batch in plan_shape(pa.schema([]))(iter([rows]))] == [2]
    table = pa.schema([("id", pa.int64())])
    assert [batch.num_rows for batch in bare.align(table)(iter([rows]))] == [2]
