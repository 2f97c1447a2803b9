"""Open types: what never had a value, at every depth."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import SchemaConflict
from lakeport.schema.evolution import plan_evolution
from lakeport.schema.nested import (
    EMPTY_STRUCT,
    UnexpectedValue,
    fill_untyped,
    replace_untyped,
    restore_untyped,
    to_file_type,
)

NOTHING = pa.null()
INT = pa.int64()


def struct(**members: pa.DataType) -> pa.DataType:
    return pa.struct(list(members.items()))


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (pa.list_(NOTHING), pa.list_(INT), pa.list_(INT)),
        (EMPTY_STRUCT, struct(k=INT), struct(k=INT)),
        (struct(k=NOTHING), struct(k=INT), struct(k=INT)),
        (pa.list_(struct(x=NOTHING)), pa.list_(struct(x=INT)), pa.list_(struct(x=INT))),
        (pa.list_(NOTHING), pa.list_(struct(x=INT)), pa.list_(struct(x=INT))),
        (pa.list_(EMPTY_STRUCT), pa.list_(struct(x=INT)), pa.list_(struct(x=INT))),
        (pa.map_(pa.string(), NOTHING), pa.map_(pa.string(), INT), pa.map_(pa.string(), INT)),
        (NOTHING, EMPTY_STRUCT, EMPTY_STRUCT),
        (
            struct(a=EMPTY_STRUCT),
            struct(a=struct(b=pa.list_(INT))),
            struct(a=struct(b=pa.list_(INT))),
        ),
    ],
)
@pytest.mark.parametrize("policy", ["evolve", "strict"])
def test_either_side_takes_the_others_type(
    one: pa.DataType, other: pa.DataType, both: pa.DataType, policy: str
) -> None:
    for table, incoming in ((one, other), (other, one)):
        plan = plan_evolution(pa.schema([("c", table)]), pa.schema([("c", incoming)]), policy)
        assert plan.schema.field("c").type == both
        assert (plan.added, bool(plan.typed)) == ((), table == one)


@pytest.mark.parametrize("other", [INT, pa.list_(INT), pa.string()])
def test_an_object_without_members_is_no_other_value(other: pa.DataType) -> None:
    with pytest.raises(SchemaConflict, match="object in the table"):
        plan_evolution(pa.schema([("c", EMPTY_STRUCT)]), pa.schema([("c", other)]))


def test_an_overwrite_takes_the_tables_types_where_it_has_none() -> None:
    table = pa.schema([("c", pa.list_(INT)), ("d", INT)])
    new = pa.schema([("c", pa.list_(NOTHING)), ("e", NOTHING)])
    plan = plan_evolution(table, new, "evolve", "overwrite")
    assert plan.schema.types == [pa.list_(INT), NOTHING]


def test_what_data_files_hold() -> None:
    assert to_file_type(struct(a=INT, b=NOTHING, c=EMPTY_STRUCT)) == struct(a=INT, c=pa.string())
    assert to_file_type(struct(a=NOTHING)) == struct(a=pa.string())
    assert to_file_type(pa.list_(struct(a=INT, b=NOTHING))) == pa.list_(struct(a=INT))
    assert fill_untyped(pa.list_(EMPTY_STRUCT), pa.list_(struct(a=INT))) == pa.list_(struct(a=INT))


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (NOTHING, [None, None]),
        (EMPTY_STRUCT, ["{}", None, "{ }"]),
        (pa.list_(NOTHING), [[], None, [None]]),
        (pa.list_(struct(x=NOTHING, o=EMPTY_STRUCT)), [[{"x": None, "o": "{}"}], None, [], [None]]),
        (pa.map_(pa.string(), NOTHING), [[("a", None)], None, []]),
        (struct(a=pa.list_(NOTHING), b=INT), [None, {"a": [], "b": 1}, {"a": None, "b": None}]),
    ],
)
def test_text_without_a_value_becomes_what_it_is(type_: pa.DataType, values: list[Any]) -> None:
    array = pa.array([None, *values, None], replace_untyped(type_))
    for part in (array, array.slice(1), array.slice(2, 1)):
        found = restore_untyped(part, type_)
        found.validate(full=True)
        assert found.type == type_ and found.is_null().equals(part.is_null())


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (NOTHING, "x"),
        (EMPTY_STRUCT, '{"a": 1}'),
        (pa.list_(NOTHING), ["x"]),
        (struct(k=NOTHING), {"k": ""}),
    ],
)
def test_a_value_is_never_taken_for_none(type_: pa.DataType, value: Any) -> None:
    with pytest.raises(UnexpectedValue):
        restore_untyped(pa.array([value], replace_untyped(type_)), type_)
