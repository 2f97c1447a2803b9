"""What a text says of a schema's columns: names looked up, and types by Spark's rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, Final, assert_never

import pyarrow as pa

from lakeport.loading.expressions.bound import Bound, Call, Column, Constant
from lakeport.loading.expressions.coercion import (
    CASTS_BY_NAME,
    INTEGERS,
    as_decimal,
    cast_to,
    date_of,
    is_exact,
    moment_of,
    need,
    to_common,
)
from lakeport.loading.expressions.functions import FUNCTIONS, concat
from lakeport.loading.expressions.kernels import logic, nested, numbers, texts
from lakeport.loading.expressions.syntax import (
    Between,
    Case,
    Cast,
    Function,
    In,
    Infix,
    Is,
    Like,
    Name,
    Null,
    Number,
    Prefix,
    Syntax,
    Text,
    Truth,
    Typed,
)
from lakeport.loading.expressions.tokens import Beyond
from lakeport.schema.types import MAX_PRECISION, TIMESTAMP

__all__ = ["Binder", "compared", "same_name"]

_BOOL: Final = pa.bool_()
_COMPARED: Final = {
    "=": logic.equal,
    "<=>": logic.null_safe_equal,
    "<": logic.less,
    "<=": logic.less_equal,
}
_ARITHMETIC: Final = {"+": numbers.add, "-": numbers.subtract, "*": numbers.multiply}
_SWAPPED: Final = {">": "<", ">=": "<="}
_UNSAID: Final = (10, 0)
"""Precision and scale of a decimal that says none."""
_MOST_ITEMS: Final = 10_000


class Binder:
    """Binds expressions to a table's columns.

    Args:
        schema: the columns.
        table: what the text may call the table; empty for an expression beside none.
    """

    def __init__(self, schema: pa.Schema, table: str = "") -> None:
        self._schema = schema
        self._table = table
        self._now = datetime.now(UTC)

    def bound(self, syntax: Syntax) -> Bound:
        """An expression with its types.

        Raises:
            Beyond: it names what is not there, or there is no rule for it.
        """
        match syntax:
            case Name(parts):
                return self._named(parts)
            case Number(text, negative):
                return _number(text, negative)
            case Text(value):
                return Constant(value, pa.string())
            case Typed(type_, value):
                return _typed(type_, value)
            case Truth(truth):
                return Constant(truth, _BOOL)
            case Null():
                return Constant(None, pa.null())
            case Cast(operand, type_, digits):
                return cast_to(self.bound(operand), _type(type_, digits))
            case Function(name, arguments):
                return self._function(name, arguments)
            case Case(branches, otherwise):
                return self._case(branches, otherwise)
            case Prefix() | Infix() | Is() | In() | Between() | Like():
                return self._operator(syntax)
        assert_never(syntax)

    def column(self, name: str) -> Column:
        """A column by its name, whose case does not matter.

        Raises:
            Beyond: there is none, or more than one.
        """
        found = [i for i, known in enumerate(self._schema.names) if same_name(known, name)]
        if len(found) != 1:
            raise Beyond
        return Column(found[0], self._schema.field(found[0]).type)

    def _named(self, parts: Sequence[str]) -> Bound:
        first, *fields = parts
        if self._table and fields and same_name(first, self._table):
            if any(same_name(known, first) for known in self._schema.names):
                raise Beyond
            first, *fields = fields
        found: Bound = self.column(first)
        for field in fields:
            found = _field(found, field)
        return found

    def _operator(self, syntax: Prefix | Infix | Is | In | Between | Like) -> Bound:
        match syntax:
            case Prefix("not", operand):
                return Call(logic.negation, (_truth(self.bound(operand)),), _BOOL)
            case Prefix(sign, operand):
                value = need(self.bound(operand), *INTEGERS, pa.float64())
                return Call(numbers.negative, (value,), value.type) if sign == "-" else value
            case Infix(operator, left, right):
                return _infix(operator, self.bound(left), self.bound(right))
            case Is(operand, what):
                return _is(self.bound(operand), what)
            case In(operand, items):
                return _in(self.bound(operand), [self.bound(item) for item in items])
            case Between(operand, low, high):
                value, least, most = map(self.bound, (operand, low, high))
                above, below = compared("<=", least, value), compared("<=", value, most)
                return Call(logic.both, (above, below), _BOOL)
            case Like(operand, pattern):
                text = need(self.bound(operand), pa.string())
                return Call(texts.like, (text, Constant(pattern, pa.string())), _BOOL)
        assert_never(syntax)

    def _function(self, name: str, arguments: Sequence[Syntax]) -> Bound:
        if name in ("current_timestamp", "now") and not arguments:
            return Constant(self._now, TIMESTAMP)
        if name in ("current_date", "curdate") and not arguments:
            return Constant(self._now.date(), pa.date32())
        rule = FUNCTIONS.get(name)
        if rule is None:
            raise Beyond
        operands = [self.bound(argument) for argument in arguments]
        try:
            return rule(*operands)
        except TypeError:  # of another number of arguments
            raise Beyond from None

    def _case(self, branches: Sequence[tuple[Syntax, Syntax]], otherwise: Syntax) -> Bound:
        conditions = [need(self.bound(condition), _BOOL) for condition, _ in branches]
        values = to_common([*(self.bound(v) for _, v in branches), self.bound(otherwise)])
        pairs = zip(conditions, values[:-1], strict=True)
        arguments = (values[-1], *(one for pair in pairs for one in pair))
        return Call(logic.case, arguments, values[-1].type)


def same_name(known: str, name: str) -> bool:
    """Whether a name is another's but for case; of letters that have none elsewhere but in ASCII.

    Raises:
        Beyond: it depends on tables of Unicode's.
    """
    if known == name:
        return True
    if known.casefold() != name.casefold():
        return False
    if not (known.isascii() and name.isascii()):
        raise Beyond
    return True


def _number(text: str, negative: bool) -> Constant:
    sign = -1 if negative else 1
    if text.isdigit():
        value = sign * int(text)
        for type_ in (pa.int32(), pa.int64()):
            if -(2 ** (type_.bit_width - 1)) <= value < 2 ** (type_.bit_width - 1):
                return Constant(value, type_)
        raise Beyond
    digits = text.lower().partition("e")[0].replace(".", "").lstrip("0")
    if len(digits) > 15:  # digits that any double has
        raise Beyond
    exact = None if "e" in text.lower() else sign * Decimal(text)
    return Constant(sign * float(text), pa.float64(), exact)


def _typed(type_: str, value: str) -> Constant:
    if type_ == "date":
        return Constant(date_of(value), pa.date32())
    return Constant(moment_of(value), TIMESTAMP)


def _type(name: str, digits: Sequence[int]) -> pa.DataType:
    if name in ("decimal", "dec", "numeric") and len(digits) <= len(_UNSAID):
        precision, scale = (*digits, *_UNSAID[len(digits) :])
        if not 0 <= scale <= precision <= MAX_PRECISION or not precision:
            raise Beyond
        return pa.decimal128(precision, scale)
    if name not in CASTS_BY_NAME or digits:
        raise Beyond
    return CASTS_BY_NAME[name]


def _field(value: Bound, name: str) -> Bound:
    if not pa.types.is_struct(value.type):
        raise Beyond
    members = [value.type.field(i) for i in range(value.type.num_fields)]
    found = [i for i, member in enumerate(members) if same_name(member.name, name)]
    if len(found) != 1:
        raise Beyond
    place = Constant(found[0], pa.int32())
    return Call(nested.field, (value, place), members[found[0]].type)


def _infix(operator: str, left: Bound, right: Bound) -> Bound:
    if operator in ("and", "or"):
        kernel = logic.both if operator == "and" else logic.either
        return Call(kernel, (_truth(left), _truth(right)), _BOOL)
    if operator == "||":
        return concat(left, right)
    if operator in _SWAPPED:
        return compared(_SWAPPED[operator], right, left)
    if operator == "<>":
        return Call(logic.negation, (compared("=", left, right),), _BOOL)
    if operator in _COMPARED:
        return compared(operator, left, right)
    return _arithmetic(operator, left, right)


def compared(operator: str, left: Bound, right: Bound) -> Bound:
    """A comparison: `=`, `<=>`, `<` or `<=`.

    Raises:
        Beyond: these are not compared with one another here.
    """
    found = to_common([left, right], compared=True)
    return Call(_COMPARED[operator], tuple(found), _BOOL)


def _arithmetic(operator: str, left: Bound, right: Bound) -> Bound:
    if is_exact([left, right]):
        return _exactly(operator, as_decimal(left), as_decimal(right))
    found = to_common([left, right])
    type_ = found[0].type
    if operator in _ARITHMETIC:
        need(found[0], *INTEGERS, pa.float64())
        return Call(_ARITHMETIC[operator], tuple(found), type_)
    if operator == "/":
        need(found[0], *INTEGERS, pa.float64())
        doubles = tuple(cast_to(one, pa.float64()) for one in found)
        return Call(numbers.divide, doubles, pa.float64())
    need(found[0], *INTEGERS)
    if operator == "%":
        return Call(numbers.remainder, tuple(found), type_)
    wide = tuple(cast_to(one, pa.int64()) for one in found)
    return Call(numbers.integral_divide, wide, pa.int64())


def _truth(value: Bound) -> Bound:
    return Constant(None, _BOOL) if value.type == pa.null() else need(value, _BOOL)


def _exactly(operator: str, left: Bound, right: Bound) -> Bound:
    """`+`, `-` and `*` of decimals, whose result has all digits."""
    if operator not in _ARITHMETIC:
        raise Beyond
    one, other = left.type, right.type
    if operator == "*":
        digits, scale = one.precision + other.precision + 1, one.scale + other.scale
    else:
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale + 1
    if digits > MAX_PRECISION:
        raise Beyond
    return Call(_ARITHMETIC[operator], (left, right), pa.decimal128(digits, scale))


def _is(value: Bound, what: str) -> Bound:
    if what == "null":
        return Call(logic.is_null, (value,), _BOOL)
    kernel = logic.is_true if what == "true" else logic.is_false
    return Call(kernel, (need(value, _BOOL),), _BOOL)


def _in(value: Bound, items: Sequence[Bound]) -> Bound:
    if not 0 < len(items) <= _MOST_ITEMS:
        raise Beyond
    found = to_common([value, *items], compared=True)
    constants: list[Any] = [one.value for one in found[1:] if isinstance(one, Constant)]
    if len(constants) < len(items) or found[0].type == pa.float64():
        raise Beyond
    if None in constants:
        equals = [Call(logic.equal, (found[0], item), _BOOL) for item in found[1:]]
        return reduce(lambda a, b: Call(logic.either, (a, b), _BOOL), equals)
    return Call(logic.is_in, tuple(found), _BOOL)
