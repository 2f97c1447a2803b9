"""The JSON Schema of lake files, built from the classes that check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeport.config.base import OTHER_NAMES
from lakeport.config.expectations import Expectation
from lakeport.config.lake.model import Lineage, Notices
from lakeport.config.lake.read import KINDS, LOAD_KEYS, TOP_KEYS
from lakeport.config.singer import settings_schema
from lakeport.config.sources import ConfigPart

_TEXT = {"type": "string"}
_LIST = {"type": "array", "items": _TEXT}
_VARIABLE = {"type": "string", "pattern": r"\$\{[^}]*\}|\{\{.*\}\}"}
_SINK = {
    "connector_type": "Mage's name of a streaming sink, in place of `destination`.",
    "prefix": "Folder and table of a streaming sink.",
    "region": "Name of `aws_region` in Mage's sinks.",
    "path_to_credentials_json_file": "Name of `google_application_credentials` in Mage's sinks.",
    "buffer_size_mb": "Accepted for Mage, without effect: a load is no stream.",
    "buffer_timeout_seconds": "Accepted for Mage, without effect: a load is no stream.",
}
_NAMES = r"^[^\W_][\w-]*$"

_MORE: Mapping[str, tuple[object, ...]] = {
    "mode": ("append-only", "upsert"),
    "partition_columns": (False,),
    "warm": (False,),
}
"""Key -> values that it takes besides those of its field."""


def lake_schema() -> dict[str, Any]:
    """Return the JSON Schema of lake files (draft 2020-12).

    It allows everything that lakeport allows, variables and short forms included, so that an
    editor marks no valid file.
    """
    keys = _destination_keys()
    definitions: dict[str, Any] = {}
    sources = [_part_schema(model, definitions) for model in KINDS.values()]
    load: dict[str, dict[str, Any]] = {
        "from": {"oneOf": sources},
        "sql": _TEXT,
        "python": {"type": "string", "pattern": r"^[\w.]+:\w+$"},
        "expect": {"type": "array", "items": _part_schema(Expectation, definitions)},
        "tags": {"anyOf": [_TEXT, _LIST]},
        "description": _TEXT,
    }
    described = {name: {**load[name], "description": text} for name, text in LOAD_KEYS.items()}
    top: dict[str, Any] = {
        "target": {"anyOf": [_TEXT, {"$ref": "#/$defs/target"}]},
        "defaults": {"$ref": "#/$defs/defaults"},
        "loads": {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": _NAMES, "not": {"const": "source"}},
            "additionalProperties": {"$ref": "#/$defs/load"},
        },
        "lineage": _part_schema(Lineage, definitions),
        "notices": _part_schema(Notices, definitions),
    }
    nested = {"config": _object_schema(keys, "The same keys, nested as in Mage and Meltano.")}
    definitions |= {
        "target": _object_schema({**keys, **nested}, TOP_KEYS["target"]),
        "defaults": _object_schema({**keys, **nested}, TOP_KEYS["defaults"]),
        "load": {
            **_object_schema({**described, **keys, **nested}, "A load."),
            "required": ["from"],
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "lakeport: a lake's file",
        "type": "object",
        "properties": {
            "$schema": _TEXT,
            **{name: {**top[name], "description": text} for name, text in TOP_KEYS.items()},
        },
        "required": ["loads"],
        "additionalProperties": False,
        "$defs": definitions,
    }


def _object_schema(properties: Mapping[str, Any], description: str) -> dict[str, Any]:
    """Return the JSON Schema of an object that allows these properties only."""
    return {
        "type": "object",
        "description": description,
        "properties": dict(properties),
        "additionalProperties": False,
    }


def _destination_keys() -> dict[str, Any]:
    """Return the JSON Schemas of all destinations' keys, by name or alias; null is allowed."""
    own = settings_schema()["properties"]
    keys = {name: _key_schema(field, _MORE.get(name, ())) for name, field in own.items()}
    for other, key in OTHER_NAMES.items():
        known = keys.get(key, {"description": "Accepted for Mage, without effect."})
        about = known["description"] if other == key else f"Another name of `{key}`."
        keys.setdefault(other, {**known, "description": about})
    keys["_streams"] = {"type": "object", "description": "Mage's settings for every stream."}
    keys |= {name: {"description": text} for name, text in _SINK.items()}
    return dict(sorted(keys.items()))


def _key_schema(field: Mapping[str, Any], more: Sequence[object]) -> dict[str, Any]:
    """Return a key's JSON Schema that also allows variables, null, text and `more` values."""
    kept = {name: field[name] for name in ("description", "default") if name in field}
    strict = {
        name: value
        for name, value in field.items()
        if name not in (*kept, "secret", "writeOnly", "format")
    }
    kinds = strict.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    if kinds == ["string"] and "enum" not in strict:
        limits = {key: value for key, value in strict.items() if key in ("minLength", "maxLength")}
        return {**kept, "type": ["string", "number", "null"], **limits}
    others: list[dict[str, Any]] = [_VARIABLE, {"type": "null"}]
    if {"array", "object", "number"} & {*kinds}:  # names with commas, JSON, a share, a duration
        others.append(_TEXT)
    if "enum" in strict:
        strict = {"enum": [*strict["enum"], *more]}
    return {**kept, "anyOf": [strict, *others]}


def _part_schema(model: type[ConfigPart], definitions: dict[str, Any]) -> dict[str, Any]:
    """Add a model's JSON Schema to `definitions`, which changes; return a `$ref` to it."""
    schema = model.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    for name, found in schema.pop("$defs", {}).items():
        definitions[name] = _widen_properties(found)
    definitions[model.__name__] = _widen_properties(schema)
    return {"$ref": f"#/$defs/{model.__name__}"}


def _widen_properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's JSON Schema whose properties also allow variables, `${NAME}`."""
    if "properties" not in schema:
        return dict(schema)
    return {
        **{name: value for name, value in schema.items() if name != "title"},
        "properties": {name: _widen(found) for name, found in schema["properties"].items()},
    }


def _widen(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a property's JSON Schema that also allows variables, or one item for a list."""
    kept = {name: found[name] for name in ("description", "default") if name in found}
    strict = {name: value for name, value in found.items() if name not in (*kept, "title")}
    if kept.get("default", 0) in (None, []):
        del kept["default"]
    if strict.pop("format", "") == "password" or strict == _TEXT:
        return {**kept, **_TEXT}
    others: list[dict[str, Any]] = [_VARIABLE]
    if strict.get("type") == "array" and strict.get("minItems", 0) == 0:
        others = [_TEXT]
    if strict.get("minProperties"):  # tables: a list of names, or one
        others = [_TEXT, _LIST]
    return {**kept, "anyOf": [strict, *others]}
