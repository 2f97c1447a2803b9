"""The settings of `target-lakeport`: lakeport's keys, and those that Meltano's SDK gives a target.

Settings come from `--config` files, later ones winning, and with `--config ENV` from variables
named `TARGET_LAKEPORT_` and the setting in capitals, which win over files as in the SDK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeport.config.base import DestinationConfig, config_class, destinations
from lakeport.config.explain import closest_match
from lakeport.config.load import environment_keys, load_files
from lakeport.errors import ConfigError

PREFIX = "TARGET_LAKEPORT_"
_TRUE = ("true", "1", "yes", "on")
_NOT_HAD = {
    "stream_maps": "map streams with meltano-map-transform between tap and target.",
    "flattening_enabled": "nested values land as structs, or as JSON text in CSV files.",
}
_WITH_THEM = {
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
        "description": "`mode` as Meltano's SDK calls it.",
    },
    "batch_size_rows": {
        "type": "integer",
        "description": "`maximum_batch_rows` as Meltano's SDK calls it.",
    },
}


def load_settings(configs: Sequence[str]) -> DestinationConfig:
    """The config that `--config` options name; without any it is taken from the environment.

    Args:
        configs: paths of YAML or JSON files, and `ENV` for the environment's variables.

    Raises:
        ConfigError: naming what is wrong and what is valid.
    """
    files = [config for config in configs if config != "ENV"]
    told: dict[str, Any] = {}
    warnings: list[str] = []
    if len(files) < len(configs) or not configs:
        told, unknown = environment_keys(PREFIX, (*_SDK, *_NOT_HAD, "validate_records"))
        warnings = [_unknown(name) for name in unknown]
    told = _own(told)

    def translate(values: Mapping[str, Any]) -> dict[str, Any]:
        found = _own(values)
        if not found.keys() | told.keys() >= {"destination"}:
            raise ConfigError(
                "the setting `destination` is missing",
                f"name one of {', '.join(destinations())}, in a --config file or, with "
                f"--config ENV, in {PREFIX}DESTINATION.",
            )
        return found

    try:
        config = load_files(files, told, translate=translate)
    except ConfigError as error:
        hint = error.hint or "`target-lakeport --about` lists the settings."
        raise type(error)(error.message, " ".join([hint, *warnings])) from None
    return config.with_warnings(*warnings)


def _unknown(name: str) -> str:
    close = closest_match(name.removeprefix(PREFIX).lower(), settings_schema()["properties"])
    guess = f"; did you mean {PREFIX}{close.upper()}?" if close else ""
    return f"The environment variable {name} names no setting{guess}."


def _own(values: Mapping[str, Any]) -> dict[str, Any]:
    """The SDK's settings under lakeport's names.

    Raises:
        ConfigError: one asks for what lakeport does not do.
    """
    for name, hint in _NOT_HAD.items():
        if _wanted(values.get(name)):
            raise ConfigError(f"lakeport has no `{name}`", hint)
    if not _wanted(values.get("validate_records", True)):
        raise ConfigError(
            "`validate_records` can't be false: every record is read as its schema declares it",
            "leave it out; `on_bad_record: quarantine` sets aside what does not fit.",
        )
    unused = {*_NOT_HAD, *_WITH_THEM, "validate_records"}
    return {name: value for name, value in values.items() if name not in unused}


def _wanted(value: object) -> bool:
    return value.strip().lower() in _TRUE if isinstance(value, str) else bool(value)


def settings_schema() -> dict[str, Any]:
    """The JSON schema of the settings, over all destinations, as `--about` shows it."""
    models = {name: config_class(name) for name in destinations()}
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
            field = _plain(found, schema.get("$defs", {}))
            if name in model.secret_keys():
                field |= {"secret": True, "writeOnly": True}
            known = properties.setdefault(name, field)
            properties[name] = known if known == field else _either(known, field)
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


def _plain(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A property as the SDK writes it: one `type` (a list with null), no references."""
    merged = dict(field)
    if "$ref" in merged:
        merged = {**definitions[merged.pop("$ref").rpartition("/")[2]], **merged}
    options = [_plain(option, definitions) for option in merged.pop("anyOf", ())]
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
    kinds = field.get("type", [])
    return list(kinds) if isinstance(kinds, list) else [kinds]


def _either(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A property that destinations declare differently: what any of them takes."""
    both = {key: value for key, value in one.items() if other.get(key, value) == value}
    both["description"] = one["description"]
    if "enum" in one and "enum" in other:
        both["enum"] = list(dict.fromkeys([*one["enum"], *other["enum"]]))
    return both
