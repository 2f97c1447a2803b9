"""Numbers in JSON lines: what lands is what was written, told by Python's own decimals."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeport.model import Split
from lakeport.schema.jsonschema import parse_schema
from lakeport.schema.literals import parse_double, split_significand
from lakeport.sources.csv.conversion import convert_texts, match_kinds, narrowest_type
from lakeport.sources.json.inference import infer_fields
from lakeport.sources.json.reader import JsonReader

pytestmark = pytest.mark.usefixtures("fast_path")

EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
WHOLE = ["0", "1", "7", "10", "9007199254740993", "90071992547409930", "1" * 21, "9" * 38]
FRACTION = [".0", ".5", ".000", ".10", ".25000000000000000000000000", "." + "0" * 40 + "1"]
EXPONENT = [0, 1, 2, 17, 18, 22, 30, 38, 39, 40, 77, 99, 300, 308, 324, 1000, 2**31, 10**9 - 1]

literals = st.tuples(
    st.sampled_from(["", "-"]),
    st.sampled_from(WHOLE) | st.integers(0, 10**40).map(str),
    st.just("") | st.sampled_from(FRACTION),
    st.just("")
    | st.tuples(
        st.sampled_from(["e", "E", "e+", "e-", "E-", "e-00"]),
        (st.sampled_from(EXPONENT) | st.integers(0, 400)).map(str),
    ).map("".join),
).map("".join) | st.floats(allow_nan=False, allow_infinity=False).map(repr)


def escaped(literal: str, which: set[int]) -> str:
    """A JSON string of the literal, some characters as escapes."""
    return '"{}"'.format(
        "".join(f"\\u{ord(c):04x}" if i in which else c for i, c in enumerate(literal))
    )


spelled = literals.flatmap(
    lambda n: st.tuples(
        st.just(n), st.sets(st.integers(0, len(n) - 1), max_size=3).map(lambda w: escaped(n, w))
    )
)


def as_decimal(precision: int, scale: int) -> Callable[[str], Decimal | None]:
    def oracle(literal: str) -> Decimal | None:
        exact = Decimal(literal, EXACT)
        if not exact:
            return Decimal(0)
        if not -scale - 60 < exact.adjusted() < 60:
            return None
        shifted = exact.scaleb(scale, EXACT)
        integral = shifted == shifted.to_integral_value(context=EXACT)
        return exact if integral and shifted.copy_abs() < 10**precision else None

    return oracle


def as_integer(literal: str) -> int | None:
    whole = as_decimal(38, 0)(literal)
    return int(whole) if whole is not None and -(2**63) <= whole < 2**63 else None


def as_double(literal: str) -> float | None:
    exact, number = Decimal(literal, EXACT), float(literal)
    if math.isinf(number) or (number == 0) != (exact == 0):
        return None
    if abs(number) < 2**53:
        return number
    digits, power = exact.as_tuple()[1:]
    assert isinstance(power, int)
    if power <= 0:
        integral = exact == exact.to_integral_value(context=EXACT)
        return None if integral and Decimal(number) != exact else number
    again = Context(prec=len(digits)).create_decimal(Decimal(number))
    shortest = Decimal(repr(number))
    return number if exact == again or exact.compare_total(shortest) == 0 else None


COLUMNS: dict[str, tuple[dict[str, Any], Callable[[str], Any]]] = {
    "i": ({"type": "integer"}, as_integer),
    "n": ({"type": "number"}, as_double),
    **{
        f"d{p}_{s}": ({"type": "number", "x-precision": p, "x-scale": s}, as_decimal(p, s))
        for p, s in ((20, 3), (38, 18), (38, 38), (38, 0), (5, 0), (1, 1))
    },
}


def landed(reader: JsonReader, lines: list[str]) -> tuple[list[Any], list[int]]:
    """The good rows, and which lines are bad."""
    with tempfile.NamedTemporaryFile() as file:
        file.write("\n".join(lines).encode())
        file.flush()
        split = Split(file.name)
        rows = [r for batch in reader.skip_bad_records().read(split) for r in batch.to_pylist()]
        return rows, [bad.line - 1 for bad in reader.scan(split).bad]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("shape", ["{}", '{{"x": {}}}', "[ {} ]", '[{{"x":\t{}}}]'])
@settings(max_examples=10)
@given(numbers=st.lists(spelled, min_size=1, max_size=6), as_text=st.booleans())
def test_a_number_lands_as_it_was_written(
    column: str, shape: str, numbers: list[tuple[str, str]], as_text: bool
) -> None:
    schema, oracle = COLUMNS[column]
    as_text = as_text and column.startswith("d")
    if "x" in shape:
        schema = {"type": "object", "properties": {"x": schema}}
    if shape.startswith("["):
        schema = {"type": "array", "items": schema}
    reader = JsonReader("s", parse_schema("s", {"properties": {"v": schema}}), envelope=False)
    lines = [f'{{"v": {shape.format(text if as_text else n)}}}' for n, text in numbers]
    rows, bad = landed(reader, lines)
    wanted = [oracle(n) for n, _ in numbers]
    assert bad == [at for at, value in enumerate(wanted) if value is None]
    kept = [unwrapped(row["v"]) for row in rows]
    assert kept == [value for value in wanted if value is not None]


def unwrapped(value: Any) -> Any:
    while isinstance(value, (list, dict)):
        value = value[0] if isinstance(value, list) else value["x"]
    return value


@given(st.lists(literals, min_size=1, max_size=4))
def test_inferred_columns_keep_every_number(numbers: list[str]) -> None:
    """As numbers if they all are as they were written, else as their text."""
    lines = [f'{{"v":{n}}}' for n in numbers]
    reader = JsonReader("s", infer_fields(["\n".join(lines).encode()]), envelope=False)
    rows, bad = landed(reader, lines)
    assert not bad
    for number, row in zip(numbers, rows, strict=True):
        value = row["v"]
        if isinstance(value, float):
            assert value == as_double(number)
        else:
            assert Decimal(value, EXACT) == Decimal(number, EXACT)


@given(st.lists(literals, min_size=1, max_size=4))
def test_undeclared_numbers_keep_their_kind_on_either_path(numbers: list[str]) -> None:
    reader = JsonReader("s", (), envelope=False)
    lines = [f'{{"v":{n}}}' for n in numbers]
    with tempfile.NamedTemporaryFile() as file:
        file.write("\n".join(lines).encode())
        file.flush()
        found = [reader.scan(Split(file.name)).unknown]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LAKEPORT_NATIVE", "off")
            found.append(reader.scan(Split(file.name)).unknown)
    assert found[0] == found[1]


@given(st.lists(literals, min_size=1, max_size=6))
def test_csv_columns_of_numbers_follow_the_same_rule(numbers: list[str]) -> None:
    values, unfit = convert_texts(pa.array(numbers), pa.float64())
    wanted = [as_double(number) for number in numbers]
    assert values.to_pylist() == wanted
    assert (unfit or pa.array([False] * len(numbers))).to_pylist() == [v is None for v in wanted]
    if narrowest_type(match_kinds(pa.array(numbers))) == pa.float64():
        assert None not in wanted


@given(literals)
def test_significand(literal: str) -> None:
    digits, power = split_significand(literal)
    assert Decimal(f"{digits or 0}E{power}", EXACT) == Decimal(literal, EXACT).copy_abs()
    assert digits == digits.strip("0")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_as_programs_write_them_are_kept(number: float) -> None:
    texts = {repr(number), f"{number:.16e}", f"{number:.17g}", f"{number:.16E}"}
    assert {parse_double(text) for text in texts if "e" in text.lower() or abs(number) < 2**53} <= {
        number
    }
    assert parse_double(f"{number:.1100f}") == number


@pytest.mark.parametrize(
    "literal",
    ["1e" + "9" * 10**5, "1e-" + "9" * 10**5, "9" * 10**6, "0." + "0" * 10**6 + "1", "1" * 10**6],
)
@pytest.mark.parametrize("column", COLUMNS)
def test_numbers_of_any_length_are_told_at_once(column: str, literal: str) -> None:
    schema, _ = COLUMNS[column]
    reader = JsonReader("s", parse_schema("s", {"properties": {"v": schema}}), envelope=False)
    assert landed(reader, [f'{{"v":{literal}}}', '{"v":0}'])[1] == [0]
