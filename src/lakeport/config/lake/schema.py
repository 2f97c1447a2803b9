"""The JSON Schema of a lake's file, made of the classes that check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeport.config.base import OTHER_NAMES
from lakeport.config.expectations import Expectation
from lakeport.config.inputs import Input
from lakeport.config.lake.model import Lineage, Notices
from lakeport.config.lake.read import KINDS, LOAD_KEYS, TOP_KEYS
from lakeport.config.singer import settings_schema

_TEXT = {"type": "string"}
_LIST = {"type": "array", "items": _TEXT}
_VARIABLE = {"type": "string", "pattern": r"\$\{[^}]*\}|\{\{.*\}\}"}
_SINK = {
    "connector_type": "Mage's name of a streaming sink, in place of `destination`.",
    "prefix": "Folder and table of a streaming sink.",
    "region": "`aws_region` as Mage's sinks call it.",
    "path_to_credentials_json_file": "`google_application_credentials` as Mage's sinks call it.",
    "buffer_size_mb": "Taken for Mage's sake; a load is no stream.",
    "buffer_timeout_seconds": "Taken for Mage's sake; a load is no stream.",
}
_NAMES = r"^[^\W_][\w-]*$"

_MORE: Mapping[str, tuple[object, ...]] = {
    "mode": ("append-only", "upsert"),
    "partition_columns": (False,),
    "warm": (False,),
}
"""Values that keys take besides those of their class."""


def lake_schema() -> dict[str, Any]:
    """The schema, in the words of draft 2020-12.

    What a value may be in the file, variables and shorter forms among it, is valid: an editor that
    follows the schema marks nothing that lakeport takes.
    """
    keys = _destination_keys()
    definitions: dict[str, Any] = {"keys": {"properties": keys}}
    sources = [_model(model, definitions) for model in KINDS.values()]
    load: dict[str, dict[str, Any]] = {
        "from": {"oneOf": sources},
        "sql": _TEXT,
        "python": {"type": "string", "pattern": r"^[\w.]+:\w+$"},
        "expect": {"type": "array", "items": _model(Expectation, definitions)},
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
        "lineage": _model(Lineage, definitions),
        "notices": _model(Notices, definitions),
    }
    nested = {"config": _closed(keys, "The same keys, as Mage and Meltano nest them.")}
    definitions |= {
        "target": _closed({**keys, **nested}, TOP_KEYS["target"]),
        "defaults": _closed({**keys, **nested}, TOP_KEYS["defaults"]),
        "load": {
            **_closed({**described, **keys, **nested}, "A load."),
            "required": ["from"],
        },
    }
    del definitions["keys"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "lakeport: a lake's file",
        "type": "object",
        "properties": {
            "$schema": _TEXT,
            **{name: {**top[name], "description": text} for name, text in TOP_KEYS.items()},
        },
        "required": ["target", "loads"],
        "additionalProperties": False,
        "$defs": definitions,
    }


def _closed(properties: Mapping[str, Any], description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "properties": dict(properties),
        "additionalProperties": False,
    }


def _destination_keys() -> dict[str, Any]:
    """The keys of all destinations, by all their names; a null is a key left out."""
    own = settings_schema()["properties"]
    keys = {name: _wide(field, _MORE.get(name, ())) for name, field in own.items()}
    for other, key in OTHER_NAMES.items():
        known = keys.get(key, {"description": "Taken for Mage's sake; it has no use here."})
        about = known["description"] if other == key else f"`{key}` by another name."
        keys.setdefault(other, {**known, "description": about})
    keys["_streams"] = {"type": "object", "description": "Mage's settings for every stream."}
    keys |= {name: {"description": text} for name, text in _SINK.items()}
    return dict(sorted(keys.items()))


def _wide(field: Mapping[str, Any], more: Sequence[object]) -> dict[str, Any]:
    """A key's schema, with the other forms and values that may be written."""
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


def _model(model: type[Input], definitions: dict[str, Any]) -> dict[str, Any]:
    """A description's schema; its parts go among the definitions."""
    schema = model.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    for name, found in schema.pop("$defs", {}).items():
        definitions[name] = _parts(found)
    definitions[model.__name__] = _parts(schema)
    return {"$ref": f"#/$defs/{model.__name__}"}


def _parts(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema whose properties also take variables, and one item for a list."""
    if "properties" not in schema:
        return dict(schema)
    return {
        **{name: value for name, value in schema.items() if name != "title"},
        "properties": {name: _part(found) for name, found in schema["properties"].items()},
    }


def _part(found: Mapping[str, Any]) -> dict[str, Any]:
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
