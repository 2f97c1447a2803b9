"""What Arrow tells of rows is what DuckDB says of the same condition in SQL."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from lakeport.config.expectations import Expectation
from lakeport.loading.expect.arrow import mask_violations, needs_spark
from lakeport.schema.types import TIMESTAMP

FLOATS = st.floats(width=64) | st.integers(-3, 3).map(float)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    pa.int8(): st.integers(-3, 3),
    pa.float64(): FLOATS,
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.sampled_from("aBé'\\ \U0001f600"), max_size=3),
    pa.date32(): st.dates(date(1999, 12, 28), date(2000, 1, 3)),
    pa.float32(): st.floats(width=32) | st.integers(-3, 3).map(float),
    pa.decimal128(5, 2): st.decimals(-999, 999, places=2) | st.integers(-3, 3).map(Decimal),
    TIMESTAMP: st.datetimes(
        datetime(1999, 12, 31, 23, 59, 59), datetime(2000, 1, 1), timezones=st.just(UTC)
    ),
}
LITERALS = VALUES | {
    pa.int8(): st.integers(-(2**40), 2**40) | st.integers(-3, 3),
    **dict.fromkeys(
        (pa.float32(), pa.float64()),
        st.integers(-3, 3).map(float) | st.floats(-1e9, 1e9) | st.integers(-3, 3),
    ),
    pa.decimal128(5, 2): st.integers(-3, 3) | st.decimals(-999, 999, places=1),
}


def literal(value: Any, type_: pa.DataType) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return f"TIMESTAMPTZ '{value}'"
    if isinstance(value, Decimal):
        return f"{value}::DECIMAL(9, 2)"
    if isinstance(value, (str, date)):
        text = str(value).replace("'", "''")
        return f"DATE '{text}'" if isinstance(value, date) else f"'{text}'"
    return f"{value!r}::DOUBLE" if pa.types.is_floating(type_) else f"({value})"


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.RecordBatch, Expectation, str]:
    """Rows, an expectation of them, and when a row fails it, in SQL."""
    type_ = draw(st.sampled_from(list(VALUES)))
    values = draw(st.lists(VALUES[type_] | st.none(), max_size=8))
    batch = pa.RecordBatch.from_arrays([pa.array(values, type_)], ["Col"])
    given_ = LITERALS[type_]
    match draw(st.sampled_from(["not_null", "in", "between"])):
        case "not_null":
            return batch, Expectation(not_null="col"), "Col IS NULL"
        case "in":
            chosen = draw(st.lists(given_, min_size=1, max_size=3))
            listed = ", ".join(literal(value, type_) for value in chosen)
            return batch, Expectation(**{"in": {"col": chosen}}), f"Col NOT IN ({listed})"
        case _:
            low, high = sorted(draw(st.tuples(given_, given_)))
            ends = draw(st.sampled_from([(low, high), (low, None), (None, high)]))
            signs = zip("<>", ends, strict=True)
            words = [f"Col {sign} {literal(end, type_)}" for sign, end in signs if end is not None]
            return batch, Expectation(between={"col": ends}), " OR ".join(words)


@given(cases())
def test_the_rows_that_fail_are_those_of_sql(case: tuple[pa.RecordBatch, Expectation, str]) -> None:
    batch, expected, failing = case
    assert not needs_spark(expected, batch.schema)
    rows, bits = mask_violations([Expectation(rows={"at_most": 0}), expected], batch)
    table = pa.Table.from_batches([batch])
    with duckdb.connect() as db:
        db.register("t", table)
        found = db.sql(f"SELECT ({failing}) IS TRUE AS failing FROM t").arrow().read_all()
    told = [bool(bit & 2) for bit in bits.to_pylist()] if bits is not None else [False] * len(rows)
    assert rows is batch
    assert told == found["failing"].to_pylist()
    assert bits is None or pc.max(bits).as_py() == 2


def test_what_arrow_would_find_otherwise_is_left_to_spark() -> None:
    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("d", pa.decimal128(4, 2)),
            ("s", pa.string()),
            ("t", TIMESTAMP),
            ("local", pa.timestamp("us")),
            ("x", pa.float64()),
            ("list", pa.list_(pa.int64())),
        ]
    )
    for given_ in (
        {"in": {"n": ["1"]}},
        {"in": {"n": [1.5]}},
        {"in": {"n": [True]}},
        {"in": {"n": [2**63]}},
        {"between": {"d": [0.5, None]}},
        {"between": {"d": [None, 100]}},
        {"between": {"d": [Decimal("0.001"), None]}},
        {"between": {"s": [1, None]}},
        {"between": {"t": [date(2000, 1, 1), None]}},
        {"between": {"t": ["2000-01-01", None]}},
        {"between": {"local": [datetime(2000, 1, 1), None]}},
        {"between": {"x": [float("nan"), None]}},
        {"between": {"x": [2**53 + 1, None]}},
        {"in": {"list": [1]}},
        {"check": "n > 1"},
        {"matches": {"s": "a.b"}},
        {"matches": {"s": "a)"}},
        {"matches": {"n": "1"}},
        {"unique": "n"},
        {"references": {"n": "other.n"}},
    ):
        assert needs_spark(Expectation(**given_), schema), given_
