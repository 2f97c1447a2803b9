"""One line of JSON -> Python values, with every fault named and no number touched."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 500
"""Levels of nesting that a line may have."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_BRACKET = re.compile(rb"[][{}]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_STARTED = re.compile(r"(?:t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?|-)\s*\Z")
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"


class Fault(Exception):
    """Why a record is bad.

    Attributes:
        column: dotted path of the column at fault, empty where it is the whole record.
        reason: kind of fault, without the record's values.
    """

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason


class Literal(str):
    """A number as it was written."""

    __slots__ = ()


class _Constant(str):
    """`NaN`, `Infinity` or `-Infinity`."""

    __slots__ = ()


class _Repeated(dict[str, Any]):
    """An object that had a key twice."""


class Decoder:
    """Reads JSON values one by one; not to be shared between threads.

    Example:
        >>> Decoder().decode(b'{"n": 1.10}')
        {'n': '1.10'}
    """

    def __init__(self) -> None:
        self._repeated = False
        self._constants = False
        self._json = json.JSONDecoder(
            object_pairs_hook=self._members,
            parse_int=Literal,
            parse_float=Literal,
            parse_constant=self._constant,
        )

    def decode(self, line: bytes) -> Any:
        """Read one value; numbers become `Literal`.

        Raises:
            Fault: it is not JSON, cut off, not UTF-8, nested too deep, or has a key twice, a
                number that is none (NaN), or text that is not Unicode.
        """
        if depth_exceeds(line, MAX_DEPTH):
            raise Fault("", _TOO_DEEP)
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise Fault("", f"not UTF-8 (byte {error.start} of the line)") from None
        self._repeated = self._constants = False
        try:
            value = self._json.decode(text)
        except RecursionError:
            raise Fault("", _TOO_DEEP) from None
        except json.JSONDecodeError as error:
            raise Fault("", "cut off" if _cut_off(error) else "not JSON") from None
        if self._repeated:
            path = _find(value, lambda part: type(part) is _Repeated)
            raise Fault(path or "", "duplicate key in an object")
        if self._constants:
            path = _find(value, lambda part: type(part) is _Constant)
            raise Fault(path or "", "NaN or Infinity, which are not JSON")
        if _SURROGATE.search(text) and (path := _find(value, _broken)) is not None:
            raise Fault(path, "text that is not Unicode (half of a surrogate pair)")
        return value

    def _constant(self, name: str) -> _Constant:
        self._constants = True
        return _Constant(name)

    def _members(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        self._repeated = True
        return _Repeated(found)


def depth_exceeds(line: bytes, limit: int) -> bool:
    """Whether arrays and objects are nested deeper than `limit`, in linear time.

    Example:
        >>> depth_exceeds(b'{"a": ["[[", []]}', 2)
        True
    """
    if line.count(b"[") + line.count(b"{") <= limit:
        return False
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub(b"", line)):
        if bracket[0] in b"[{":
            depth += 1
            if depth > limit:
                return True
        else:
            depth -= 1
    return False


def _cut_off(error: json.JSONDecodeError) -> bool:
    """Whether the text ended before the value did."""
    rest = error.doc[error.pos :]
    return (
        not rest.strip()
        or error.msg.startswith("Unterminated string")
        or _STARTED.match(rest) is not None
        or ("escape" in error.msg and len(rest) <= len("\\u0000"))
    )


def _find(value: Any, wanted: Callable[[Any], bool]) -> str | None:
    """Dotted path of the first part that is wanted, without recursion."""
    stack: list[tuple[str, Any]] = [("", value)]
    while stack:
        path, part = stack.pop()
        if wanted(part):
            return path
        if isinstance(part, dict):
            members = ((f"{path}.{k}" if path else k, v) for k, v in part.items())
            stack.extend(reversed(list(members)))
        elif isinstance(part, list):
            stack.extend((path, v) for v in reversed(part))
    return None


def _broken(part: Any) -> bool:
    texts = part if isinstance(part, dict) else (part,) if type(part) is str else ()
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            return True
    return False
