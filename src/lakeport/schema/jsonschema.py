"""Parse JSON Schema, as Singer taps write it, into the columns that lakeport lands.

What JSON Schema allows and a column can't hold (mixed types, objects without properties,
recursion) becomes JSON text, so nothing is lost. Items of lists that have no one type are mixed:
strings stay strings. An object that declares properties and allows others (`additionalProperties`,
`patternProperties`) has the others in a member of JSON text. Every column may be null in the table;
a field is required of records if it is a key, or if `required` names it and its schema does not
allow null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import reduce
from types import NoneType
from typing import Any
from urllib.parse import unquote

from lakeport.errors import InputError
from lakeport.schema.literals import split_significand
from lakeport.schema.types import (
    MAX_PRECISION,
    Field,
    FieldType,
    Kind,
    check_column_names,
    merge_types,
)

_JSON = FieldType(Kind.JSON)
_OBJECT = FieldType(Kind.JSON, opening=frozenset("{"))
_REST = "additional_properties"
_MAX_DEPTH = 100
_MAX_NODES = 200_000
_DEFAULT_SCALE = 18
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_FORMATS = {"date-time": Kind.TIMESTAMP, "date": Kind.DATE}

_TYPE_NAMES: dict[type, str] = {
    NoneType: "null",
    bool: "boolean",
    int: "integer",
    str: "string",
    dict: "object",
    list: "array",
}

Schema = Mapping[str, Any]


def parse_schema(
    stream: str, schema: Schema, key_properties: Sequence[str] = ()
) -> tuple[Field, ...]:
    """Parse the JSON Schema of a stream's records into columns, in the order of its properties.

    The columns in `key_properties` become required. Without properties there are no columns.

    Raises:
        InputError: the schema is malformed, asks for decimals of more than 38 digits, or has
            a column with an empty name. The message names the column.

    >>> schema = {"properties": {"id": {"type": "integer"}, "at": {"format": "date-time",
    ...     "type": ["null", "string"]}}}
    >>> [(f.name, f.type.kind.value, f.required) for f in parse_schema("users", schema, ["id"])]
    [('id', 'integer', True), ('at', 'timestamp', False)]
    """
    fields = _SchemaParser(stream, schema).parse_columns()
    check_column_names(stream, (f.name for f in fields))
    return tuple(
        Field(f.name, _mix_items(f.type), f.required or f.name in key_properties) for f in fields
    )


class _SchemaParser:
    """Parses one stream's JSON Schema; `followed` are the `$ref`s on the way to a subschema."""

    def __init__(self, stream: str, root: Schema) -> None:
        self.stream = stream
        self.root = root
        self.nodes = 0

    def parse_columns(self) -> tuple[Field, ...]:
        """Return the columns of the stream's records; none if it has no properties."""
        self.check_schema(self.root, ())
        record = self.merge_references(self.root, (), ("#",))[0]
        found = self.iterate_types({**record, "type": "object"}, (), ("#",))
        structs = [t for t in found if t is not None and t.kind is Kind.STRUCT]
        return reduce(merge_types, structs).fields if structs else ()

    def build_error(self, path: tuple[str, ...], what: str, hint: str = "") -> InputError:
        """Build the error for the schema of a column, or of the stream if `path` is empty."""
        stream = f"stream {self.stream!r}"
        where = f"column {'.'.join(path)!r} of {stream}" if path else stream
        return InputError(f"the schema of {where} {what}", hint or "correct the stream's SCHEMA.")

    def check_schema(self, schema: Any, path: tuple[str, ...]) -> None:
        """Count a subschema; InputError if it is no object, or one of over 200,000."""
        if not isinstance(schema, Mapping):
            raise self.build_error(path, "is not an object")
        self.nodes += 1
        if self.nodes > _MAX_NODES:
            raise self.build_error(path, f"has more than {_MAX_NODES} parts, `$ref`s followed")

    def parse_type(
        self, schema: Any, path: tuple[str, ...], followed: tuple[str, ...]
    ) -> tuple[FieldType, bool]:
        """Return the type of a column, or of a part of one, and whether null is allowed.

        JSON text for a schema that is a boolean, and below 100 levels.
        """
        if isinstance(schema, bool) or len(path) > _MAX_DEPTH:
            return _JSON, True
        found = list(self.iterate_types(schema, path, followed))
        types = [t for t in found if t is not None]
        merged = reduce(merge_types, types) if types else _JSON
        return merged, None in found or merged.kind is Kind.JSON

    def iterate_types(
        self, schema: Any, path: tuple[str, ...], followed: tuple[str, ...]
    ) -> Iterator[FieldType | None]:
        """Yield the types that a value may have: None for null, JSON for a recursive `$ref`."""
        self.check_schema(schema, path)
        if schema.get("$ref") in followed:
            yield _JSON
            return
        schema, followed = self.merge_references(schema, path, followed)
        for keyword in ("anyOf", "oneOf"):
            if branches := self.list_branches(schema, keyword, path):
                rest = {k: v for k, v in schema.items() if k != keyword}
                for branch in branches:
                    if branch.get("$ref") in followed:
                        yield _JSON
                        continue
                    both, below = self.merge_references({**rest, "allOf": [branch]}, path, followed)
                    yield from self.iterate_types(both, path, below)
                return
        for name in self.list_type_names(schema, path):
            yield None if name == "null" else self.build_type(name, schema, path, followed)

    def merge_references(
        self, schema: Schema, path: tuple[str, ...], followed: tuple[str, ...]
    ) -> tuple[Schema, tuple[str, ...]]:
        """Merge a schema's `$ref` and `allOf` into it; also return the `$ref`s followed.

        An empty schema for a recursion.
        """
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref not in followed:
            rest = {k: v for k, v in schema.items() if k != "$ref"}
            followed = (*followed, ref)
            return self.merge_references(
                _merge_schemas(rest, self.resolve_reference(ref, path)), path, followed
            )
        branches = self.list_branches(schema, "allOf", path)
        schema = {k: v for k, v in schema.items() if k != "allOf"}
        for branch in branches:
            if branch.get("$ref") in followed:
                return {}, followed
            inner, followed = self.merge_references(branch, path, followed)
            schema = _merge_schemas(schema, inner)
        return schema, followed

    def list_branches(self, schema: Schema, keyword: str, path: tuple[str, ...]) -> list[Schema]:
        """Return the schemas under a keyword such as `anyOf`; empty if absent. Booleans are {}."""
        branches = schema.get(keyword)
        if branches is None:
            return []
        if not isinstance(branches, list):
            raise self.build_error(path, f"has an `{keyword}` that is not a list")
        branches = [{} if isinstance(b, bool) else b for b in branches]
        for branch in branches:
            self.check_schema(branch, path)
        return branches

    def resolve_reference(self, ref: str, path: tuple[str, ...]) -> Schema:
        """Return the schema of a `$ref`; InputError if it is not local, or does not exist."""
        found: Any = self.root
        head, _, pointer = ref.partition("#")
        parts = [unquote(p).replace("~1", "/").replace("~0", "~") for p in pointer.split("/")]
        if head or parts[0]:
            raise self.build_error(
                path,
                f"refers to {ref!r}, which is not a part of it",
                "only local references (`#/…`) are followed: put their target into the SCHEMA.",
            )
        for part in parts[1:]:
            if isinstance(found, list) and part.isdecimal() and int(part) < len(found):
                found = found[int(part)]
            elif isinstance(found, Mapping) and part in found:
                found = found[part]
            else:
                raise self.build_error(path, f"refers to {ref!r}, which does not exist")
        found = {} if isinstance(found, bool) else found
        self.check_schema(found, path)
        return found  # type: ignore[no-any-return]

    def list_type_names(self, schema: Schema, path: tuple[str, ...]) -> list[str]:
        """Return a schema's JSON type names, inferred if `type` is absent; may raise InputError."""
        named = schema.get("type")
        if named is None:
            return _infer_type_names(schema)
        names = [named] if isinstance(named, str) else named
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise self.build_error(path, "has a `type` that is neither a name nor a list of names")
        return names

    def build_type(
        self, name: str, schema: Schema, path: tuple[str, ...], followed: tuple[str, ...]
    ) -> FieldType:
        """Return the column type for a JSON type name; JSON text for an unknown name."""
        match name:
            case "object":
                return self.build_struct(schema, path, followed)
            case "array":
                return FieldType(
                    Kind.LIST, item=self.parse_items(schema, (*path, "element"), followed)
                )
            case "integer" | "boolean":
                return FieldType(Kind(name))
            case "number":
                return self.find_decimal_type(schema, path) or FieldType(Kind.NUMBER)
            case "string":
                if schema.get("contentEncoding") == "base64":
                    return FieldType(Kind.BINARY)
                kind = _FORMATS.get(str(schema.get("format")), Kind.STRING)
                return self.find_decimal_type(schema, path, text=True) or FieldType(kind)
        return _JSON

    def build_struct(
        self, schema: Schema, path: tuple[str, ...], followed: tuple[str, ...]
    ) -> FieldType:
        """Return a struct of a schema's properties, or JSON text if a struct can't hold them."""
        properties = schema.get("properties") or {}
        if not isinstance(properties, Mapping):
            raise self.build_error(path, "has `properties` that are not an object")
        for name in properties:
            if not _is_valid_unicode(name):
                raise self.build_error(path, "has a property whose name is no Unicode text")
        folded = {name.lower() for name in properties}
        if path and ("" in folded or len(folded) < len(properties)):
            return _OBJECT
        required = schema.get("required")
        needed = required if isinstance(required, list) else ()
        fields = []
        for name, sub in properties.items():
            found, nullable = self.parse_type(sub, (*path, name), followed)
            fields.append(Field(name, found, name in needed and not nullable))
        others = (schema.get("additionalProperties", False), schema.get("patternProperties", {}))
        if not path or others in ((False, {}), (None, {})):
            return FieldType(Kind.STRUCT, fields=tuple(fields)) if fields else _OBJECT
        if not fields or _REST in folded:
            return _OBJECT
        return FieldType(Kind.STRUCT, fields=(*fields, Field(_REST, _JSON)), rest=_REST)

    def parse_items(
        self, schema: Schema, path: tuple[str, ...], followed: tuple[str, ...]
    ) -> FieldType:
        """Return the type of a list's items; JSON text without `items` or with `prefixItems`."""
        items = schema.get("items")
        if items is None or isinstance(schema.get("prefixItems"), list):
            return _JSON
        if isinstance(items, list):
            found = [self.parse_type(sub, path, followed)[0] for sub in items]
            return reduce(merge_types, found) if found else _JSON
        return self.parse_type(items, path, followed)[0]

    def find_decimal_type(
        self, schema: Schema, path: tuple[str, ...], *, text: bool = False
    ) -> FieldType | None:
        """Return the decimal type that a number or string schema declares; None if it is none.

        `x-precision` and `x-scale` (or `precision` and `scale` beside `format: singer.decimal`)
        say it outright; `multipleOf` gives the fraction digits of a number; `singer.decimal` alone
        means 38 digits, 18 of them after the point. `text`: whether the schema is of strings.

        Raises:
            InputError: more than 38 digits, or values that are not numbers.
        """
        singer = schema.get("format") == "singer.decimal"
        precision, scale = schema.get("x-precision"), schema.get("x-scale")
        if singer:
            precision = schema.get("precision") if precision is None else precision
            scale = schema.get("scale") if scale is None else scale
        if precision is not None or scale is not None:
            return self.build_decimal(precision, scale, path, text)
        if not text and schema.get("multipleOf") is not None:
            return FieldType(Kind.DECIMAL, MAX_PRECISION, self.find_step_scale(schema, path))
        if singer:
            return FieldType(Kind.DECIMAL, MAX_PRECISION, _DEFAULT_SCALE, text=text)
        return None

    def build_decimal(
        self, precision: Any, scale: Any, path: tuple[str, ...], text: bool
    ) -> FieldType:
        """Build a decimal type; InputError unless tables allow the precision and scale."""
        p = MAX_PRECISION if precision is None else precision
        s = 0 if scale is None else scale
        if type(p) is not int or type(s) is not int or p < 1 or not 0 <= s <= p:
            raise self.build_error(path, f"asks for a decimal of precision {p!r} and scale {s!r}")
        if p > MAX_PRECISION:
            raise self.build_error(
                path,
                f"asks for decimals of {p} digits; {MAX_PRECISION} is the most that a table can "
                "hold",
                "lower the precision, or declare the column a string.",
            )
        return FieldType(Kind.DECIMAL, p, s, text=text)

    def find_step_scale(self, schema: Schema, path: tuple[str, ...]) -> int:
        """Return the decimal places of `multipleOf`; above 18 only if min and max leave room.

        InputError for a `multipleOf` that is not a number above zero.
        """
        step = _parse_decimal(schema["multipleOf"])
        if step is None or step <= 0:
            raise self.build_error(path, "has a `multipleOf` that is not a number above zero")
        scale = max(0, -split_significand(str(step))[1])
        bounds = [_parse_decimal(schema[b]) for b in _BOUNDS if schema.get(b) is not None]
        whole = max((b.adjusted() + 1 for b in bounds if b is not None), default=MAX_PRECISION)
        if scale > _DEFAULT_SCALE and (len(bounds) < 2 or whole + scale > MAX_PRECISION):
            return _DEFAULT_SCALE
        return scale


def _mix_items(t: FieldType) -> FieldType:
    """Return a type whose list items are mixed, at any depth, where they would be JSON text."""
    if t.item is not None:
        return replace(t, item=FieldType(Kind.MIXED) if t.item == _JSON else _mix_items(t.item))
    members = tuple(replace(f, type=_mix_items(f.type)) for f in t.fields)
    return replace(t, fields=members) if members else t


def _is_valid_unicode(name: Any) -> bool:
    """Whether a property's name is a string of valid Unicode, without lone surrogates."""
    try:
        return isinstance(name, str) and name.encode() is not None
    except UnicodeEncodeError:
        return False


def _infer_type_names(schema: Schema) -> list[str]:
    """Infer JSON types from `const`, `enum`, `properties` or `items`; else return `unknown`."""
    if "const" in schema or isinstance(schema.get("enum"), list):
        values = [schema["const"]] if "const" in schema else schema["enum"]
        return sorted({_TYPE_NAMES.get(type(v), "number") for v in values})
    if "properties" in schema:
        return ["object"]
    if "items" in schema:
        return ["array"]
    return ["unknown"]


def _merge_schemas(one: Schema, other: Schema) -> Schema:
    """Merge schemas that both apply: `one` wins; types intersect, properties add up."""
    merged = {**other, **one}
    if "type" in one and "type" in other:
        merged["type"] = _intersect_types(one["type"], other["type"])
    mine, theirs = one.get("properties"), other.get("properties")
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        merged["properties"] = {
            name: {"allOf": [mine[name], theirs[name]]}
            if name in mine and name in theirs
            else mine.get(name, theirs.get(name))
            for name in (*mine, *(n for n in theirs if n not in mine))
        }
    if isinstance(one.get("required"), list) and isinstance(other.get("required"), list):
        merged["required"] = [*one["required"], *other["required"]]
    return merged


def _intersect_types(one: Any, other: Any) -> Any:
    """Return the types in both `type` keywords, or ["unknown"]; an integer is a number."""
    mine = [one] if isinstance(one, str) else one
    theirs = [other] if isinstance(other, str) else other
    if not isinstance(mine, list) or not isinstance(theirs, list):
        return one
    shared = [n for n in mine if n in theirs or (n == "integer" and "number" in theirs)]
    if "integer" in theirs and "number" in mine and "integer" not in shared:
        shared.append("integer")
    return shared or ["unknown"]


def _parse_decimal(value: Any) -> Decimal | None:
    """Return a JSON number as an exact Decimal; None if it is not a finite number."""
    if isinstance(value, bool):
        return None
    try:
        number = Decimal(str(value))
    except (InvalidOperation, ValueError):  # an integer too long to be written
        return None
    return number if number.is_finite() else None
