"""Evolution plans: order, spelling, types, nesting, policies."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeport.errors import SchemaConflict
from lakeport.model import Mode
from lakeport.schema.evolution import EvolutionPolicy, can_store, find_wider_type, plan_evolution

TABLE = pa.schema(
    [
        ("id", pa.int64()),
        ("Name", pa.string()),
        ("place", pa.struct([("city", pa.string())])),
        ("items", pa.list_(pa.struct([("sku", pa.string())]))),
    ]
)


def test_no_table_takes_the_incoming_columns() -> None:
    plan = plan_evolution(None, TABLE)
    assert (plan.schema, plan.created, plan.added) == (TABLE, True, ())


def test_order_spelling_and_types_stay_and_new_columns_come_last() -> None:
    incoming = pa.schema([("extra", pa.string()), ("NAME", pa.string()), ("id", pa.int32())])
    plan = plan_evolution(TABLE, incoming)
    assert plan.schema.names == ["id", "Name", "place", "items", "extra"]
    assert plan.schema.field("id").type == pa.int64()
    assert plan.added == ("extra",)
    assert plan.missing == ("place", "items")
    assert plan.cast == ("id",)


def test_nested_fields_are_added_at_the_end_also_below_lists() -> None:
    incoming = pa.schema(
        [
            ("place", pa.struct([("zip", pa.string()), ("CITY", pa.string())])),
            ("items", pa.list_(pa.struct([("n", pa.int64()), ("sku", pa.string())]))),
            ("tags", pa.map_(pa.string(), pa.int64())),
        ]
    )
    plan = plan_evolution(TABLE, incoming)
    assert plan.added == ("place.zip", "items.element.n", "tags")
    assert plan.schema.field("place").type == pa.struct(
        [("city", pa.string()), ("zip", pa.string())]
    )
    assert plan.schema.field("items").type.value_type == pa.struct(
        [("sku", pa.string()), ("n", pa.int64())]
    )


def test_strict_refuses_new_columns_only() -> None:
    with pytest.raises(SchemaConflict, match=r"'note'.*strict"):
        plan_evolution(TABLE, pa.schema([("note", pa.string())]), EvolutionPolicy.STRICT)
    assert plan_evolution(TABLE, pa.schema([("id", pa.int64())]), "strict").schema == TABLE


@pytest.mark.parametrize(
    ("table", "incoming"),
    [
        (pa.int64(), pa.string()),
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(10, 2), pa.decimal128(12, 2)),
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.string(), pa.struct([("a", pa.string())])),
        (pa.list_(pa.int32()), pa.list_(pa.string())),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.bool_())),
    ],
)
def test_types_that_do_not_fit_name_column_and_both_types(
    table: pa.DataType, incoming: pa.DataType
) -> None:
    with pytest.raises(SchemaConflict) as refused:
        plan_evolution(pa.schema([("c", table)]), pa.schema([("c", incoming)]))
    assert "'c" in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize("names", [("id", "ID"), ("id", "id")])
def test_columns_that_a_table_takes_for_one_are_refused(names: tuple[str, str]) -> None:
    with pytest.raises(SchemaConflict):
        plan_evolution(None, pa.schema([(name, pa.int64()) for name in names]))
    nested = pa.struct([(name, pa.int64()) for name in names])
    with pytest.raises(SchemaConflict, match=r"'s\.element\.id'"):
        plan_evolution(None, pa.schema([("s", pa.list_(nested))]))


def test_full_overwrite_replaces_unless_strict_or_partial() -> None:
    new = pa.schema([("id", pa.string())])
    plan = plan_evolution(TABLE, new, mode=Mode.OVERWRITE)
    assert (plan.schema, plan.replaced) == (new, True)
    assert not plan_evolution(TABLE, TABLE, mode=Mode.OVERWRITE).replaced
    for more in ({"policy": "strict"}, {"partial": True}):
        with pytest.raises(SchemaConflict):
            plan_evolution(TABLE, new, mode=Mode.OVERWRITE, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("narrow", "wide", "expected"),
    [
        (pa.int8(), pa.int16(), True),
        (pa.int16(), pa.float32(), True),
        (pa.int32(), pa.float32(), False),
        (pa.int64(), pa.decimal128(19, 0), True),
        (pa.int64(), pa.decimal128(19, 1), False),
        (pa.float32(), pa.float64(), True),
        (pa.float64(), pa.int64(), False),
        (pa.decimal128(5, 2), pa.decimal128(7, 3), True),
        (pa.decimal128(5, 2), pa.decimal128(5, 3), False),
        (pa.bool_(), pa.int64(), False),
    ],
)
def test_fits(narrow: pa.DataType, wide: pa.DataType, expected: bool) -> None:
    assert can_store(narrow, wide) is expected


@pytest.mark.parametrize(
    ("table", "new", "wider"),
    [
        (pa.int8(), pa.int64(), True),
        (pa.int32(), pa.float64(), True),
        (pa.int64(), pa.float64(), False),
        (pa.int32(), pa.decimal128(10, 0), True),
        (pa.int64(), pa.decimal128(20, 0), True),
        (pa.float32(), pa.float64(), True),
        (pa.decimal128(5, 2), pa.decimal128(7, 4), True),
        (pa.int64(), pa.string(), False),
        (pa.bool_(), pa.int64(), False),
    ],
)
def test_types_are_widened_only_as_delta_can(
    table: pa.DataType, new: pa.DataType, wider: bool
) -> None:
    before = pa.schema([("s", pa.list_(pa.struct([("c", table)])))])
    after = pa.schema([("s", pa.list_(pa.struct([("c", new)])))])
    if wider:
        plan = plan_evolution(before, after, widen=True)
        assert (plan.schema, plan.widened) == (after, {"s.element.c": table})
        with pytest.raises(SchemaConflict, match=r"s\.element\.c"):
            plan_evolution(before, after, "strict", widen=True)
    else:
        with pytest.raises(SchemaConflict, match=r"s\.element\.c") as failure:
            plan_evolution(before, after, widen=True)
        assert "type_widening" not in failure.value.hint


@pytest.mark.parametrize(
    ("table", "new", "expected"),
    [
        (pa.int32(), pa.decimal128(10, 1), pa.decimal128(11, 1)),
        (pa.int64(), pa.decimal128(19, 0), pa.decimal128(20, 0)),
        (pa.int64(), pa.decimal128(10, 2), pa.decimal128(22, 2)),
        (pa.decimal128(5, 2), pa.decimal128(6, 4), pa.decimal128(7, 4)),
        (pa.decimal128(10, 2), pa.int64(), pa.decimal128(21, 2)),
        (pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.int64(), pa.decimal128(38, 30), None),
        (pa.int64(), pa.float64(), None),
        (pa.string(), pa.int64(), None),
    ],
)
def test_a_column_widens_to_the_narrowest_type_that_holds_both(
    table: pa.DataType, new: pa.DataType, expected: pa.DataType | None
) -> None:
    assert find_wider_type(table, new) == expected
    before, after = pa.schema([("c", table)]), pa.schema([("c", new)])
    if expected is None:
        with pytest.raises(SchemaConflict):
            plan_evolution(before, after, widen=True)
        return
    plan = plan_evolution(before, after, widen=True)
    assert (plan.schema.field("c").type, plan.widened) == (expected, {"c": table})
    with pytest.raises(SchemaConflict) as failure:
        plan_evolution(before, after)
    assert "type_widening: true" in failure.value.hint


def test_a_column_without_a_value_takes_the_type_of_the_first() -> None:
    nothing, number = pa.schema([("c", pa.null())]), pa.schema([("c", pa.int64())])
    plan = plan_evolution(nothing, number)
    assert (plan.schema, plan.typed, plan.untyped) == (number, ("c",), ())
    assert plan_evolution(nothing, number, "strict").schema == number
    plan = plan_evolution(number, nothing)
    assert (plan.schema, plan.typed, plan.cast) == (number, (), ())
    plan = plan_evolution(nothing, nothing)
    assert (plan.schema, plan.typed, plan.untyped) == (nothing, (), ("c",))
    assert plan_evolution(None, nothing).untyped == ("c",)


def test_a_date_fits_where_moments_are() -> None:
    moments, dates = (pa.schema([("c", t)]) for t in (pa.timestamp("us", "UTC"), pa.date32()))
    assert plan_evolution(moments, dates).cast == ("c",)
    with pytest.raises(SchemaConflict):
        plan_evolution(dates, moments)


def test_full_overwrite_keeps_the_types_of_what_has_no_value() -> None:
    deep = pa.struct([("x", pa.list_(pa.int64())), ("y", pa.struct([("z", pa.date32())]))])
    table = pa.schema([("id", pa.int64()), ("o", deep), ("gone", pa.int64())])
    inner = pa.struct([("x", pa.list_(pa.null())), ("y", pa.struct([])), ("new", pa.string())])
    plan = plan_evolution(table, pa.schema([("ID", pa.null()), ("o", inner)]), mode="overwrite")
    found = [*deep, pa.field("new", pa.string())]
    assert plan.schema == pa.schema([("ID", pa.int64()), ("o", pa.struct(found))])
    assert plan.replaced
    same = plan_evolution(table, pa.schema([(n, pa.null()) for n in table.names]), mode="overwrite")
    assert (same.schema, same.replaced) == (table, False)
