"""Texts of Spark SQL for examples: typed, so that most of them mean something."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from lakeport.schema.types import TIMESTAMP

__all__ = ["KINDS", "ROWS", "texts_of"]

_INTS = [0, 1, -1, 2, 7, -7, 100, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), None]
_FLOATS = [
    0.0,
    -0.0,
    1.5,
    -2.5,
    0.285,
    -1.005,
    2.675,
    1e15,
    -0.04,
    12345.6785,
    1e300,
    float("nan"),
    float("inf"),
    float("-inf"),
    0.1,
    3.0,
    None,
]
_TEXTS = [
    "",
    "a",
    "ab c",
    " x ",
    "\t y",
    "12",
    "-7",
    "1.5",
    "2020-02-29",
    "2021-02-29",
    "É",
    "😀b",
    "ß",
    "2020-01-01 10:00:00",
    "NaN",
    "%_",
    "line\nend",
    None,
]
_DAYS = [
    dt.date(1, 1, 1),
    dt.date(1582, 10, 10),
    dt.date(1969, 12, 31),
    dt.date(1970, 1, 1),
    dt.date(2020, 2, 29),
    dt.date(2024, 12, 30),
    dt.date(9999, 12, 31),
    None,
]
_MOMENTS = [
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
    dt.datetime(2020, 2, 29, 12, 30, 45, 123456, tzinfo=dt.UTC),
    dt.datetime(2020, 2, 29, tzinfo=dt.UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC),
    None,
]
_COUNT = 36


def _column(values: list[object], type_: pa.DataType, step: int) -> pa.Array:
    return pa.array([values[(i * step + i // 7) % len(values)] for i in range(_COUNT)], type_)


ROWS = pa.RecordBatch.from_pydict(
    {
        "i": _column(_INTS, pa.int64(), 1),
        "j": _column([0, 1, -1, 5, 12, -100, None], pa.int64(), 3),
        "n": _column([0, 1, -1, 2**31 - 1, -(2**31), 3, None], pa.int32(), 2),
        "b": _column([0, 1, 127, -128, None], pa.int8(), 1),
        "f": _column(_FLOATS, pa.float64(), 1),
        "h": _column(
            [1.005, 2.675, 0.285, -1.1, 19.99, 0.1 + 0.2, -0.005, 1e9 + 0.5, None], pa.float64(), 1
        ),
        "g": _column([1.5, float("nan"), 0.0, -0.0, None], pa.float64(), 1),
        "s": _column(_TEXTS, pa.string(), 1),
        "t": _column(["a", "b", "A", "ab c", "abc", None], pa.string(), 1),
        "d": _column(_DAYS, pa.date32(), 1),
        "e": _column(_DAYS, pa.date32(), 3),
        "ts": _column(_MOMENTS, TIMESTAMP, 1),
        "u": _column(_MOMENTS, TIMESTAMP, 3),
        "p": _column([True, False, None], pa.bool_(), 1),
        "q": _column([True, None, False, False], pa.bool_(), 1),
        "x y": _column([1, 2, None], pa.int64(), 1),
        "m": _column([Decimal("1.50"), Decimal("-0.01"), None], pa.decimal128(10, 2), 1),
        "w": _column([Decimal("1.2345"), Decimal("-99999.0001"), None], pa.decimal128(12, 4), 1),
        "r": _column(
            [{"A": 1, "b": "x"}, {"A": None, "b": ""}, None],
            pa.struct([("A", pa.int64()), ("b", pa.string())]),
            1,
        ),
        "l": _column([[1, None], [], None], pa.list_(pa.int64()), 1),
    }
)

_COLUMNS = {
    "int": ["i", "j", "n", "b", "`x y`", "I", "source.j", "r.a", "r.A"],
    "float": ["f", "g", "h", "F"],
    "text": ["s", "t", "r.b"],
    "date": ["d", "e"],
    "moment": ["ts", "u"],
    "bool": ["p", "q"],
}
_CONSTANTS = {
    "int": ["0", "1", "-1", "2", "7", "100", "2147483647", "-2147483648", "3000000000", "null"],
    "float": ["1.5", "0.0", "-2.5", "1e3", "0.1", "1e0", "CAST(1 AS DOUBLE)"],
    "text": ["''", "'a'", "'ab c'", "'2020-02-29'", "'12'", "'É'", "null"],
    "date": ["DATE '2020-02-29'", "date'1970-01-01'", "'2020-02-29'"],
    "moment": ["TIMESTAMP '2020-02-29 12:30:45'", "'2020-02-29 12:30:45.123456'", "'2020-02-29'"],
    "bool": ["TRUE", "false", "NULL"],
}
_COLUMNS["decimal"] = ["m", "w"]
_CONSTANTS["decimal"] = ["1.50", "0.05", "-2.5", "100.0", "7"]
KINDS = tuple(_COLUMNS)
_NESTED = ["m", "r", "l"]
_PATTERNS = ["'a%'", "'%b%'", "'_'", "'a_'", "'%'", "''", "'%_%'", "'ab c'", "'l%d'"]
_REPLACED = ["[a-c]", "[0-9]+", "b|a", "(a|b)+ ?c", "[^0-9]", "-", " {1,2}", "x*", "É"]
_PARTS = ["year", "month", "day", "dayofmonth", "dayofyear", "quarter", "weekofyear", "dayofweek"]
_UNITS = ["year", "YYYY", "quarter", "month", "MM", "week"]
_FORMATS = ["yyyy-MM", "yyyyMMdd", "yyyy-MM-dd HH:mm:ss", "yyyy/MM", "HH", "dd.MM.yyyy"]

Texts = st.SearchStrategy[str]


def texts_of(kind: str, depth: int) -> Texts:
    """Expressions that give values of a kind: `int`, `float`, `text`, `date`, `moment`, `bool`."""
    leaf = st.sampled_from(_COLUMNS[kind]) | st.sampled_from(_CONSTANTS[kind])
    if depth == 0:
        return leaf
    return st.one_of(leaf, *_DEEPER[kind](depth - 1), _chosen(kind, depth - 1))


def _made(template: str, *parts: Texts) -> Texts:
    return st.tuples(*parts).map(lambda found: template.format(*found))


def _chosen(kind: str, depth: int) -> Texts:
    value, condition = texts_of(kind, depth), texts_of("bool", depth)
    return st.one_of(
        _made("coalesce({}, {})", value, value),
        _made("if({}, {}, {})", condition, value, value),
        _made("nullif({}, {})", value, value),
        _made("CASE WHEN {} THEN {} END", condition, value),
        _made(
            "CASE WHEN {} THEN {} WHEN {} THEN {} ELSE {} END",
            condition,
            value,
            condition,
            value,
            value,
        ),
        _made(
            "CASE {} WHEN {} THEN {} ELSE {} END",
            texts_of("int", depth),
            texts_of("int", 0),
            value,
            value,
        ),
        _made("({})", value),
    )


def _ints(depth: int) -> list[Texts]:
    value, text = texts_of("int", depth), texts_of("text", depth)
    days, moment = texts_of("date", depth), texts_of("moment", depth)
    return [
        _made("{} {} {}", value, st.sampled_from(["+", "-", "*", "%", "div"]), value),
        _made("({}) {} ({})", value, st.sampled_from(["+", "-", "*", "%", "DIV"]), value),
        _made("mod({}, {})", value, value),
        _made("{}{}", st.sampled_from(["-", "+"]), value),
        _made("abs({})", value),
        _made(
            "{}({})", st.sampled_from(["floor", "ceil", "int", "bigint"]), texts_of("float", depth)
        ),
        _made("{}({})", st.sampled_from(["length", "char_length", "len"]), text),
        _made(
            "CAST({} AS {})",
            st.one_of(value, text, texts_of("bool", depth)),
            st.sampled_from(["INT", "bigint", "tinyint"]),
        ),
        _made("{}({})", st.sampled_from(_PARTS), days | moment),
        _made("{}({})", st.sampled_from(["hour", "minute", "second"]), moment),
        _made("datediff({}, {})", days, days | moment),
        _made("{}::int", text),
        _made("try_cast({} AS INT)", text),
        _made("{}({}, {})", st.sampled_from(["greatest", "LEAST"]), value, value),
        _made("size({})", st.just("l")),
        _made("extract({} FROM {})", st.sampled_from(["YEAR", "month", "day", "hour"]), moment),
        _made("case when {} then {} end", st.sampled_from(["null", "p is null"]), value),
    ]


def _floats(depth: int) -> list[Texts]:
    value, whole = texts_of("float", depth), texts_of("int", depth)
    return [
        _made("{} {} {}", value, st.sampled_from(["+", "-", "*", "/"]), value | whole),
        _made("{} / {}", whole, whole),
        _made("-({})", value),
        _made("round({}, {})", value, st.sampled_from(["0", "1", "2", "5"])),
        _made("round({})", value),
        _made("sqrt({})", value),
        _made("abs({})", value),
        _made("CAST({} AS DOUBLE)", whole | texts_of("text", depth)),
    ]


def _decimals(depth: int) -> list[Texts]:
    value, whole = texts_of("decimal", depth), texts_of("int", 0)
    return [
        _made("{} {} {}", value, st.sampled_from(["+", "-", "*"]), value | whole),
        _made(
            "CAST({} AS {}({}, {}))",
            st.one_of(value, whole, texts_of("text", depth), texts_of("float", depth)),
            st.sampled_from(["decimal", "NUMERIC"]),
            st.sampled_from(["5", "10", "18", "38"]),
            st.sampled_from(["0", "1", "2", "4"]),
        ),
        _made("CAST({} AS {})", whole, st.sampled_from(["decimal", "decimal(12)"])),
        _made("{} {} ({})", whole, st.sampled_from(["+", "-", "*", "/"]), value),
    ]


def _texts(depth: int) -> list[Texts]:
    value, whole = texts_of("text", depth), texts_of("int", depth)
    small = st.sampled_from(["0", "1", "2", "5", "-1"])
    return [
        _made(
            "{}({})", st.sampled_from(["upper", "lower", "trim", "ltrim", "RTRIM", "ucase"]), value
        ),
        _made("{} || {}", value, value | whole),
        _made(
            "concat({}, {}, {})",
            value,
            value | whole | texts_of("date", depth),
            value | texts_of("bool", depth),
        ),
        _made("substring({}, {}, {})", value, small, small),
        _made("substr({}, {})", value, small),
        _made("left({}, {})", value, small),
        _made("{}({})", st.sampled_from(["md5", "sha1"]), value),
        _made("sha2({}, {})", value, st.sampled_from(["0", "224", "256", "512", "5"])),
        _made("concat_ws({}, {}, {})", texts_of("text", 0), value, value),
        _made(
            "regexp_replace({}, '{}', {})", value, st.sampled_from(_REPLACED), texts_of("text", 0)
        ),
        _made("replace({}, {}, {})", value, texts_of("text", 0), texts_of("text", 0)),
        _made(
            "CAST({} AS STRING)", st.one_of(whole, texts_of("bool", depth), texts_of("date", depth))
        ),
        _made(
            "date_format({}, '{}')",
            texts_of("moment", depth) | texts_of("date", depth),
            st.sampled_from(_FORMATS),
        ),
    ]


def _dates(depth: int) -> list[Texts]:
    value, moment = texts_of("date", depth), texts_of("moment", depth)
    return [
        _made("CAST({} AS DATE)", moment | texts_of("text", depth)),
        _made("date({})", moment),
        _made("trunc({}, '{}')", value, st.sampled_from(_UNITS)),
        _made(
            "{}({}, {})", st.sampled_from(["date_add", "date_sub"]), value, texts_of("int", depth)
        ),
    ]


def _moments(depth: int) -> list[Texts]:
    value, days = texts_of("moment", depth), texts_of("date", depth)
    units = st.sampled_from([*_UNITS, "day", "HOUR", "minute", "second"])
    return [
        _made("CAST({} AS TIMESTAMP)", days | texts_of("text", depth)),
        _made("date_trunc('{}', {})", units, value | days),
    ]


def _bools(depth: int) -> list[Texts]:
    value, text = texts_of("bool", depth), texts_of("text", depth)
    signs = st.sampled_from(["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"])
    found = [
        _made("{} {} {}", value, st.sampled_from(["AND", "or", "=", "<>"]), value),
        _made("({}) {} ({})", value, st.sampled_from(["AND", "or", "<=>"]), value),
        _made("{} {}", st.sampled_from(["NOT", "!"]), value),
        _made("({}) IS {}", value, st.sampled_from(["TRUE", "not true", "FALSE", "NOT FALSE"])),
        _made("{} {} {}", text, st.sampled_from(["LIKE", "not like"]), st.sampled_from(_PATTERNS)),
        _made(
            "{}({}, {})",
            st.sampled_from(["contains", "startswith", "endswith"]),
            text,
            texts_of("text", 0),
        ),
        _made("{} IS {}", st.sampled_from(_NESTED), st.sampled_from(["NULL", "NOT NULL"])),
        _made("{} {} {}", texts_of("date", depth), signs, texts_of("moment", depth)),
        _made("{} {} {}", texts_of("int", depth), signs, texts_of("float", depth)),
        _made("m {} {}", signs, st.sampled_from(["0", "1.5", "-0.01", "1.500", "3000000000", "m"])),
        _made(
            "m BETWEEN {} AND {}", st.sampled_from(["0", "-0.5"]), st.sampled_from(["1", "9.99"])
        ),
        _made("w {} {}", signs, st.sampled_from(["m", "i", "0", "1.05", "n * 2.5", "m * m"])),
        _made("{} rlike '{}'", text, st.sampled_from(_REPLACED)),
        _made("m in (1.5, {})", st.sampled_from(["0", "-0.01", "null"])),
    ]
    for kind in KINDS:
        one, leaf = texts_of(kind, depth), texts_of(kind, 0)
        found += [
            _made("{} {} {}", one, signs, one),
            _made("{} {} ({}, {})", one, st.sampled_from(["IN", "NOT in"]), leaf, leaf),
            _made("{} {} {} AND {}", one, st.sampled_from(["BETWEEN", "not between"]), one, one),
            _made("{}({})", st.sampled_from(["isnull", "isnotnull"]), one),
            _made("{} IS NULL", one),
        ]
    return found


_DEEPER = {
    "int": _ints,
    "float": _floats,
    "decimal": _decimals,
    "text": _texts,
    "date": _dates,
    "moment": _moments,
    "bool": _bools,
}
