"""Functions by name: the types that they take here, and what computes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import pyarrow as pa

from lakeport.loading.expressions.bound import Bound, Call, Constant
from lakeport.loading.expressions.coercion import (
    CASTS_BY_NAME,
    INTEGERS,
    cast_to,
    need,
    to_common,
)
from lakeport.loading.expressions.kernels import digests, logic, moments, nested, numbers, texts
from lakeport.loading.expressions.patterns import is_portable
from lakeport.loading.expressions.tokens import Beyond
from lakeport.schema.types import TIMESTAMP

__all__ = ["FUNCTIONS"]

Rule = Callable[..., Bound]
_NO_PLACES: Final = Constant(0, pa.int32())
_WHOLE: Final = Constant(2**30, pa.int32())
"""More characters than a text has."""
_PATTERN: Final = re.compile(r"yyyy|MM|dd|HH|mm|ss|[-/.:_ ]")
_SECONDS: Final = {"hour": "hour", "minute": "minute", "second": "second"}
_DAYS: Final = {"day": "day", "dd": "day"}


def _is_null(value: Bound) -> Bound:
    return Call(logic.is_null, (value,), pa.bool_())


def _is_not_null(value: Bound) -> Bound:
    return Call(logic.negation, (_is_null(value),), pa.bool_())


def _coalesce(*values: Bound) -> Bound:
    found = to_common(list(values))
    return Call(logic.coalesce, tuple(found), found[0].type)


def _ifnull(value: Bound, other: Bound) -> Bound:
    return _coalesce(value, other)


def _if(condition: Bound, value: Bound, otherwise: Bound) -> Bound:
    same = to_common([value, otherwise])
    return Call(logic.case, (same[1], need(condition, pa.bool_()), same[0]), same[0].type)


def _nvl2(value: Bound, present: Bound, absent: Bound) -> Bound:
    return _if(_is_not_null(value), present, absent)


def _nullif(value: Bound, other: Bound) -> Bound:
    same = to_common([value, other])
    if same[0] is not value:  # it keeps its own type, also beside a wider one
        raise Beyond
    return Call(logic.null_if, tuple(same), value.type)


def _of_text(kernel: Callable[..., object], type_: pa.DataType, text: Bound) -> Bound:
    return Call(kernel, (need(text, pa.string()),), type_)


def _sought(kernel: Callable[..., object], text: Bound, sought: Bound) -> Bound:
    return Call(kernel, (need(text, pa.string()), _written(sought, pa.string())), pa.bool_())


def _substring(text: Bound, start: Bound, size: Bound = _WHOLE) -> Bound:
    first, most = _written(start, pa.int32()), _written(size, pa.int32())
    if first.value < 0 or most.value < 0:
        raise Beyond
    return Call(texts.part, (need(text, pa.string()), first, most), pa.string())


def _left(text: Bound, size: Bound) -> Bound:
    return _substring(text, Constant(1, pa.int32()), size)


def _replace(text: Bound, old: Bound, new: Bound) -> Bound:
    sought, put = _written(old, pa.string()), _written(new, pa.string())
    if not sought.value:
        raise Beyond
    return Call(texts.replaced, (need(text, pa.string()), sought, put), pa.string())


def concat(*values: Bound) -> Bound:
    """Texts one behind the other; integers, dates and booleans beside one are made texts."""
    if not any(value.type == pa.string() for value in values):
        raise Beyond
    found = tuple(cast_to(value, pa.string()) for value in values)
    return Call(texts.concatenated, found, pa.string())


def _concat_ws(separator: Bound, first: Bound, *others: Bound) -> Bound:
    found = [need(value, pa.string()) for value in (first, *others)]
    return Call(texts.joined, (_written(separator, pa.string()), *found), pa.string())


def _regexp_replace(text: Bound, pattern: Bound, new: Bound) -> Bound:
    sought, put = _written(pattern, pa.string()), _written(new, pa.string())
    # `$` and `\\` would stand for what was matched; Java finds other empty texts than RE2.
    if not is_portable(sought.value) or re.fullmatch(sought.value, "") or "$" in put.value:
        raise Beyond
    return Call(texts.replaced_matches, (need(text, pa.string()), sought, put), pa.string())


def _regexp_like(text: Bound, pattern: Bound) -> Bound:
    sought = _written(pattern, pa.string())
    if not is_portable(sought.value):
        raise Beyond
    return Call(texts.finds, (need(text, pa.string()), sought), pa.bool_())


def _sqrt(value: Bound) -> Bound:
    return Call(numbers.root, (need(value, pa.float64()),), pa.float64())


def _digest(name: str, value: Bound) -> Bound:
    need(value, pa.string(), pa.binary())
    return Call(digests.digest, (value, Constant(name, pa.string())), pa.string())


def _sha2(value: Bound, bits: Bound) -> Bound:
    name = f"sha{_written(bits, pa.int32()).value or 256}"
    if name not in digests.DIGESTS:
        raise Beyond
    return _digest(name, value)


def _size(value: Bound) -> Bound:
    if not pa.types.is_list(value.type):
        raise Beyond
    return Call(nested.size, (value,), pa.int32())


def _round(value: Bound, places: Bound = _NO_PLACES) -> Bound:
    digits = _written(places, pa.int32())
    if not 0 <= digits.value <= numbers.MOST_PLACES:
        raise Beyond
    return Call(numbers.rounded, (need(value, pa.float64()), digits), pa.float64())


def _extreme(kernel: Callable[..., object], first: Bound, second: Bound, *others: Bound) -> Bound:
    found = to_common([first, second, *others])
    need(found[0], *INTEGERS, pa.date32(), TIMESTAMP)
    return Call(kernel, tuple(found), found[0].type)


def _abs(value: Bound) -> Bound:
    return Call(numbers.absolute, (need(value, *INTEGERS, pa.float64()),), value.type)


def _rounded(kernel: Callable[..., object], value: Bound) -> Bound:
    return Call(kernel, (need(value, pa.float64()),), pa.int64())


def _mod(value: Bound, other: Bound) -> Bound:
    found = to_common([need(value, *INTEGERS), need(other, *INTEGERS)])
    return Call(numbers.remainder, tuple(found), found[0].type)


def _part(name: str, value: Bound) -> Bound:
    types = (TIMESTAMP,) if name in _SECONDS else (TIMESTAMP, pa.date32())
    return Call(moments.part, (need(value, *types), Constant(name, pa.string())), pa.int32())


def _date_trunc(unit: Bound, value: Bound) -> Bound:
    name = (moments.UNITS | _DAYS | _SECONDS).get(_written(unit, pa.string()).value.lower())
    if name is None:
        raise Beyond
    return Call(moments.truncated, (_as(TIMESTAMP, value), Constant(name, pa.string())), TIMESTAMP)


def _trunc(value: Bound, unit: Bound) -> Bound:
    name = moments.UNITS.get(_written(unit, pa.string()).value.lower())
    if name is None:
        raise Beyond
    return Call(
        moments.truncated, (_as(pa.date32(), value), Constant(name, pa.string())), pa.date32()
    )


def _date_format(value: Bound, pattern: Bound) -> Bound:
    text, made = _written(pattern, pa.string()).value, ""
    while text:
        match = _PATTERN.match(text)
        if match is None or text[match.end() : match.end() + 1] == match[0][-1:].strip("-/.:_ "):
            raise Beyond
        made += moments.FORMATS.get(match[0], match[0])
        text = text[match.end() :]
    return Call(
        moments.formatted, (_as(TIMESTAMP, value), Constant(made, pa.string())), pa.string()
    )


def _datediff(end: Bound, start: Bound) -> Bound:
    days = (_as(pa.date32(), end), _as(pa.date32(), start))
    return Call(moments.days_between, days, pa.int32())


def _date_add(value: Bound, days: Bound) -> Bound:
    later = (_as(pa.date32(), value), need(days, pa.int32()))
    return Call(moments.days_later, later, pa.date32())


def _date_sub(value: Bound, days: Bound) -> Bound:
    return _date_add(value, Call(numbers.negative, (need(days, pa.int32()),), pa.int32()))


def _as(type_: pa.DataType, value: Bound) -> Bound:
    """A date or timestamp as the one of them that is wanted."""
    return cast_to(need(value, TIMESTAMP, pa.date32()), type_)


def _written(value: Bound, type_: pa.DataType) -> Constant:
    if not isinstance(value, Constant) or value.type != type_:
        raise Beyond
    return value


def _cast(name: str, value: Bound) -> Bound:
    return cast_to(value, CASTS_BY_NAME[name])


_TEXT: Final = pa.string()
FUNCTIONS: Final[Mapping[str, Rule]] = {
    "isnull": _is_null,
    "nvl2": _nvl2,
    "isnotnull": _is_not_null,
    "coalesce": _coalesce,
    "ifnull": _ifnull,
    "nvl": _ifnull,
    "if": _if,
    "nullif": _nullif,
    **dict.fromkeys(("upper", "ucase"), partial(_of_text, texts.upper, _TEXT)),
    **dict.fromkeys(("lower", "lcase"), partial(_of_text, texts.lower, _TEXT)),
    "trim": partial(_of_text, texts.trimmed, _TEXT),
    "ltrim": partial(_of_text, texts.trimmed_left, _TEXT),
    "rtrim": partial(_of_text, texts.trimmed_right, _TEXT),
    **dict.fromkeys(
        ("length", "len", "char_length", "character_length"),
        partial(_of_text, texts.length, pa.int32()),
    ),
    "contains": partial(_sought, texts.contains),
    "startswith": partial(_sought, texts.starts_with),
    "endswith": partial(_sought, texts.ends_with),
    **dict.fromkeys(("substring", "substr"), _substring),
    "left": _left,
    "replace": _replace,
    "concat": concat,
    "concat_ws": _concat_ws,
    "regexp_replace": _regexp_replace,
    "md5": partial(_digest, "md5"),
    **dict.fromkeys(("sha", "sha1"), partial(_digest, "sha1")),
    "sha2": _sha2,
    "size": _size,
    **dict.fromkeys(("regexp_like", "rlike", "regexp"), _regexp_like),
    "abs": _abs,
    "sqrt": _sqrt,
    "round": _round,
    "greatest": partial(_extreme, numbers.greatest),
    "least": partial(_extreme, numbers.least),
    "floor": partial(_rounded, numbers.floor),
    **dict.fromkeys(("ceil", "ceiling"), partial(_rounded, numbers.ceiling)),
    "mod": _mod,
    **{name: partial(_part, name) for name in (*moments.PARTS, "dayofweek")},
    "date_trunc": _date_trunc,
    "trunc": _trunc,
    "date_format": _date_format,
    "datediff": _datediff,
    "date_diff": _datediff,
    "date_add": _date_add,
    "dateadd": _date_add,
    "date_sub": _date_sub,
    **{name: partial(_cast, name) for name in ("int", "bigint", "double", "string", "date")},
    "to_date": partial(_cast, "date"),
    "to_timestamp": partial(_cast, "timestamp"),
}
"""Name in lower case -> the rule that takes its arguments; it raises `Beyond`."""
