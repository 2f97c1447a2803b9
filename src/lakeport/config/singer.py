"""The settings of `target-lakeport`: lakeport's keys and those of Meltano's SDK.

Settings come from `--config` files, later ones winning. With `--config ENV` they also come from
variables named `TARGET_LAKEPORT_` and the setting in capitals, which win over files as in the SDK.
Without any, the target that LAKEPORT_TO or LAKEPORT_DESTINATION names counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeport.config.base import DestinationConfig, config_class, destination_names
from lakeport.config.explain import closest_match
from lakeport.config.load import environment_keys, environment_target, load_files, load_target
from lakeport.errors import ConfigError

PREFIX = "TARGET_LAKEPORT_"
_TRUE = ("true", "1", "yes", "on")
_UNSUPPORTED = {
    "stream_maps": "map streams with meltano-map-transform between tap and target.",
    "flattening_enabled": "nested values land as structs, or as JSON text in CSV files.",
}
_UNSUPPORTED_DETAILS = {
    "stream_map_config",
    "faker_config",
    "flattening_max_depth",
    "flattening_max_key_length",
    "flattening_separator",
}
_SDK = {
    "load_method": {
        "type": "string",
        "enum": ["append-only", "upsert", "overwrite"],
        "description": "Meltano SDK's name of `mode`.",
    },
    "batch_size_rows": {
        "type": "integer",
        "description": "Meltano SDK's name of `maximum_batch_rows`.",
    },
}


def load_settings(configs: Sequence[str]) -> DestinationConfig:
    """Load the Singer target's config from files, and environment variables for `ENV` or none.

    Raises:
        ConfigError: it names what is wrong and what is valid.
    """
    files = [config for config in configs if config != "ENV"]
    in_environment: dict[str, Any] = {}
    warnings: list[str] = []
    if len(files) < len(configs) or not configs:
        in_environment, unknown = environment_keys(
            PREFIX, (*_SDK, *_UNSUPPORTED, "validate_records")
        )
        warnings = [_unknown_variable_warning(name) for name in unknown]
    in_environment = _drop_sdk_settings(in_environment)
    if not files and not in_environment and environment_target() is not None:
        return load_target(None).with_warnings(*warnings)

    def translate(values: Mapping[str, Any]) -> dict[str, Any]:
        found = _drop_sdk_settings(values)
        if not found and not in_environment:
            raise ConfigError(
                "the setting `destination` is missing",
                f"name one of {', '.join(destination_names())}, in a --config file or, with "
                f"--config ENV, in {PREFIX}DESTINATION.",
            )
        return found

    try:
        config = load_files(files, in_environment, translate=translate)
    except ConfigError as error:
        hint = error.hint or "`target-lakeport --about` lists the settings."
        raise type(error)(error.message, " ".join([hint, *warnings])) from None
    return config.with_warnings(*warnings)


def _unknown_variable_warning(name: str) -> str:
    """Return a warning for an environment variable of no setting, with the closest name."""
    close = closest_match(name.removeprefix(PREFIX).lower(), settings_schema()["properties"])
    guess = f"; did you mean {PREFIX}{close.upper()}?" if close else ""
    return f"The environment variable {name} names no setting{guess}."


def _drop_sdk_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Drop Meltano SDK settings that have no effect here.

    Raises:
        ConfigError: one of them asks for what lakeport does not do.
    """
    for name, hint in _UNSUPPORTED.items():
        if _is_on(values.get(name)):
            raise ConfigError(f"lakeport has no `{name}`", hint)
    if not _is_on(values.get("validate_records", True)):
        raise ConfigError(
            "`validate_records` can't be false: every record is read as its schema declares it",
            "leave it out; `on_bad_record: quarantine` sets aside what does not fit.",
        )
    unused = {*_UNSUPPORTED, *_UNSUPPORTED_DETAILS, "validate_records"}
    return {name: value for name, value in values.items() if name not in unused}


def _is_on(value: object) -> bool:
    """Whether a switch is on: true, or a text such as `yes`."""
    return value.strip().lower() in _TRUE if isinstance(value, str) else bool(value)


def settings_schema() -> dict[str, Any]:
    """Return the JSON schema of all destinations' settings, as `--about` shows it."""
    models = {name: config_class(name) for name in destination_names()}
    properties: dict[str, Any] = {
        "destination": {"type": "string", "enum": [*models], "description": "Where to land."}
    }
    owners: dict[str, list[str]] = {}
    required = {}
    for destination, model in models.items():
        schema = model.model_json_schema()
        required[destination] = schema.get("required", [])
        for name, found in schema["properties"].items():
            if name == "destination":
                continue
            field = _flatten_property(found, schema.get("$defs", {}))
            if name in model.secret_keys():
                field |= {"secret": True, "writeOnly": True}
            known = properties.setdefault(name, field)
            properties[name] = known if known == field else _merge_properties(known, field)
            owners.setdefault(name, []).append(destination)
    for name, owned in owners.items():
        if len(owned) < len(models):
            properties[name]["description"] += f" Of: {', '.join(owned)}."
    return {
        "type": "object",
        "properties": {**properties, **_SDK},
        "required": ["destination"],
        "allOf": [
            {"if": {"properties": {"destination": {"const": name}}}, "then": {"required": needed}}
            for name, needed in required.items()
            if needed
        ],
    }


def _flatten_property(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a JSON Schema property: resolve `$ref`, merge `anyOf` into a list of types."""
    merged = dict(field)
    if "$ref" in merged:
        merged = {**definitions[merged.pop("$ref").rpartition("/")[2]], **merged}
    options = [_flatten_property(option, definitions) for option in merged.pop("anyOf", ())]
    for option in options:
        types = _types(merged) + [kind for kind in _types(option) if kind not in _types(merged)]
        merged = {**option, **merged, "type": types}
    merged.pop("title", None)
    if "const" in merged:
        merged["enum"] = [merged.pop("const")]
    if merged.get("default", 0) is None:
        del merged["default"]
    return merged


def _types(field: Mapping[str, Any]) -> list[str]:
    """Return the types of a property as a list; empty if it has none."""
    kinds = field.get("type", [])
    return list(kinds) if isinstance(kinds, list) else [kinds]


def _merge_properties(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two destinations' JSON Schemas of one property into a schema that allows both."""
    both = {key: value for key, value in one.items() if other.get(key, value) == value}
    both["description"] = one["description"]
    if "enum" in one and "enum" in other:
        both["enum"] = list(dict.fromkeys([*one["enum"], *other["enum"]]))
    return both
