"""What records have to become, told with Python's json, decimal and datetime alone.

Independent of lakeport but for the types of columns. Where the documentation leaves a choice (the
forms of dates, for example) a value is `Either`: bad, or landed as anything that both of lakeport's
own paths agree on.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from lakeport.schema.types import Field, FieldType, Kind

_NUMBER = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?", re.ASCII)
_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:[Zz]|[+-]\d\d:\d\d)?)?", re.ASCII
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DEEPEST = 500
_CERTAIN_DEPTH = 400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Bad(Exception):
    """A record that must not land."""


class Either(Exception):
    """A record of which the documentation does not tell what becomes of it."""


class Num(str):
    """A number as it was written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{self}>"


def parsed(line: bytes) -> Any:
    """Strict JSON: no key twice, no NaN, no half surrogates; numbers as `Num`."""
    depth = deepest = 0
    for char in re.sub(rb'"(?:[^"\\]|\\.)*"?', b"", line, flags=re.DOTALL):
        depth += (char in b"[{") - (char in b"]}")
        deepest = max(deepest, depth)
    if deepest > _DEEPEST:
        raise Bad("nested too deep")
    try:
        found = json.loads(
            line.decode(),
            object_pairs_hook=_once,
            parse_int=Num,
            parse_float=Num,
            parse_constant=_refused,
        )
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Bad(str(error)) from None
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Bad("a key twice")
    return found


def _refused(name: str) -> Any:
    raise Bad(name)


def row_of(
    line: bytes, fields: Sequence[Field], *, envelope: bool, drop: bool, keys: Sequence[str] = ()
) -> dict[str, Any]:
    """The declared columns of one line.

    Raises:
        Bad: the record must not land.
        Either: it may or may not.
    """
    record = parsed(line)
    if envelope and isinstance(record, dict):
        record = record.get("record")
    if not isinstance(record, dict):
        raise Bad("no record")
    columns = {f.name: f.type for f in fields}
    if "" in record and not drop:
        raise Bad("a field without a name")
    either = False
    row: dict[str, Any] = dict.fromkeys(columns)
    for name, value in record.items():
        if name in columns and value is not None:
            try:
                row[name] = landed(columns[name], value, drop=drop)
            except Either:
                either = True
    if not either:
        for field in fields:
            if (field.required or field.name in keys) and row[field.name] is None:
                raise Bad("a required field is missing")
        return row
    raise Either


def landed(t: FieldType, value: Any, *, drop: bool) -> Any:
    """One value that is not null, as a table holds it; JSON text as `("json", value)`."""
    match t.kind:
        case Kind.JSON:
            return ("json", _opened(value, sorted(t.opening)))
        case Kind.MIXED:
            return value if type(value) is str else ("json", value)
        case Kind.STRUCT if not t.fields:
            return ("json", value)
        case Kind.STRING | Kind.NULL:
            return _typed(value, str)
        case Kind.BOOLEAN:
            return _typed(value, bool)
        case Kind.INTEGER:
            return _integer(_typed(value, Num))
        case Kind.NUMBER:
            return double(_typed(value, Num))
        case Kind.DECIMAL:
            return _decimal(value, t.precision, t.scale)
        case Kind.TIMESTAMP:
            return _stamp(_typed(value, str))
        case Kind.DATE:
            return _date(_typed(value, str))
        case Kind.BINARY:
            return _base64(_typed(value, str))
        case Kind.LIST:
            items = _typed(_held(value, "["), list)
            return [None if v is None else _item(t.item, v, drop=drop) for v in items]
    return _struct(t, value, drop=drop)


def _item(t: FieldType | None, value: Any, *, drop: bool) -> Any:
    return ("json", value) if t is None else landed(t, value, drop=drop)


def _struct(t: FieldType, value: Any, *, drop: bool) -> Any:
    members = {f.name: f.type for f in t.fields}
    found = _typed(_held(value, "{"), dict)
    row: dict[str, Any] = dict.fromkeys(members)
    for name, part in found.items():
        if name in members:
            row[name] = None if part is None else landed(members[name], part, drop=drop)
        elif not drop:
            raise Bad("an undeclared member")
    return row


def _opened(value: Any, brackets: list[str]) -> Any:
    """A value of a column of any objects (or lists); of a column of any values with no brackets."""
    if type(value) is not str or not brackets:
        return value
    held = [inner for b in brackets if type(inner := _held(value, b)) is not str]
    if not held:
        raise Bad("a text, and neither object nor list")
    return held[0]


def _held(value: Any, start: str) -> Any:
    """The list or object that a string holds as JSON; the value itself if it is none."""
    if type(value) is not str or not value.lstrip().startswith(start):
        return value
    if value.strip(" \t\r\n") != value.strip():
        raise Either
    try:
        return parsed(value.encode())
    except Bad:
        return value


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise Bad(f"no {kind.__name__}")
    return value


def exact(text: str) -> tuple[int, int]:
    """A number as `digits * 10 ** exponent`, digits without trailing zeros; exactly.

    >>> exact("-1.50e3"), exact("0e99")
    ((-15, 2), (0, 0))
    """
    found = _NUMBER.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        raise Bad("no number")
    written = (found[2] + (found[3] or "")).lstrip("0")
    digits = written.rstrip("0")
    if not digits:
        return 0, 0
    exponent = int((found[4] or "0")[:4000]) - len(found[3] or "") + len(written) - len(digits)
    return int(digits[:4000]) * (-1 if found[1] == "-" else 1), exponent


def _integer(text: str) -> int:
    digits, exponent = exact(text)
    if exponent < 0:
        raise Bad("a fraction")
    if len(str(abs(digits))) + exponent > 19 or not -(2**63) <= digits * 10**exponent < 2**63:
        raise Bad("over 64 bit")
    return digits * 10**exponent


def double(text: str) -> float:
    """The double that a number is.

    Raises:
        Bad: none is, but for the rounding of fractions.
        Either: the documentation does not tell.
    """
    value = float(text)
    digits, exponent = exact(text)
    if math.isinf(value) or (digits and not value):
        raise Bad("no double holds it")
    if exponent >= 0 and digits * 10**exponent != int(value):
        again = f"{value:.{len(str(abs(digits))) - 1}e}"
        if (digits, exponent) in (exact(repr(value)), exact(again)):
            raise Either  # a text of that double, as programs write it
        raise Bad("an integer that no double holds")
    return value


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    if type(value) not in (Num, str):
        raise Bad("no number")
    digits, exponent = exact(value)
    if re.search(r"[eE][+-]?\d{10}", value) and (not digits or abs(exponent) < 100):
        raise Either
    if exponent < -scale or (digits and len(str(abs(digits))) + exponent > precision - scale):
        raise Bad("digits would be lost")
    return Decimal(f"{digits}E{exponent}")


def _stamp(text: str) -> datetime:
    if not _STAMP.fullmatch(text):
        raise Either
    try:
        found = datetime.fromisoformat(text.upper())
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        return EPOCH + (found - EPOCH)
    except (ValueError, OverflowError):
        if text[11:13] == "24":
            raise Either from None
        raise Bad("no time") from None


def _date(text: str) -> date:
    if not _DATE.fullmatch(text):
        raise Either
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Bad("no date") from None


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise Bad("no base64") from None


def same(got: Any, wanted: Any) -> bool:
    """Whether a landed value is the one that was sent."""
    if isinstance(wanted, tuple):
        return _same_json(got, wanted[1])
    if wanted is None or got is None:
        return wanted is None and got is None
    if isinstance(wanted, list):
        return len(got) == len(wanted) and all(map(same, got, wanted))
    if isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(same(got[k], v) for k, v in wanted.items())
    if isinstance(wanted, float):
        return bool(got == wanted and math.copysign(1, got) == math.copysign(1, wanted))
    if isinstance(wanted, datetime):
        return bool(
            (got - EPOCH) // timedelta(microseconds=1)
            == (wanted - EPOCH) // timedelta(microseconds=1)
        )
    return type(got) is type(wanted) and bool(got == wanted)


def _same_json(text: str, sent: Any) -> bool:
    if sent is None or text is None:
        return sent is None and text in (None, "null")
    found = parsed(text.encode())
    return repr(found) == repr(sent)
