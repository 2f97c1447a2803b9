"""Mage's config: profiles of `io_config.yaml`, catalogs, `_streams` and streaming sinks.

A profile has its keys flat (`AWS_REGION: …`) or under headers (`AWS: {region: …}`). A value is
rendered when it is read, so variables of other keys may be unset. Placeholders of Mage's template
(`AWS_REGION: region`) count as absent.

| sink | destination | objects |
|---|---|---|
| `amazon_s3` | `amazon_s3` | `<prefix>/[date folders/]YYYYMMDD-HHMMSS.<file_type>` |
| `amazon_s3` with `file_type: delta` | `delta_lake_s3` | the table `<prefix>`, or `table_uri` |
| `google_cloud_storage` | `google_cloud_storage` | as `amazon_s3` |
| `azure_data_lake` | `delta_lake_azure` | the table `table_uri` |

A prefix's last part is the table, so that objects have the names that the sinks give them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from lakeport.config.explain import did_you_mean, unknown_name_error
from lakeport.config.files import expand, parse_text, read_text
from lakeport.errors import ConfigError

_VERBOSE = {
    "AWS_ACCESS_KEY_ID": ("AWS", "access_key_id"),
    "AWS_SECRET_ACCESS_KEY": ("AWS", "secret_access_key"),
    "AWS_SESSION_TOKEN": ("AWS", "session_token"),
    "AWS_REGION": ("AWS", "region"),
    "GOOGLE_SERVICE_ACC_KEY": ("BigQuery", "credentials_mapping"),
    "GOOGLE_SERVICE_ACC_KEY_FILEPATH": ("BigQuery", "path_to_credentials"),
    "GOOGLE_LOCATION": ("BigQuery", "location"),
}
_PLACEHOLDERS = {
    "",
    "/path/to/your/service/account/key.json",
    "session_token (Used to generate Redshift credentials)",
}
"""Values of Mage's template that stand for none; others are the setting's name in small letters."""
_PLACEHOLDER_KEY = "your_private_key"
_AWS = {
    "AWS_ACCESS_KEY_ID": "aws_access_key_id",
    "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
    "AWS_SESSION_TOKEN": "aws_session_token",
    "AWS_REGION": "aws_region",
    "AWS_ENDPOINT": "aws_endpoint",
}
_AZURE = {
    "AZURE_CLIENT_ID": "client_id",
    "AZURE_CLIENT_SECRET": "client_secret",
    "AZURE_TENANT_ID": "tenant_id",
    "AZURE_STORAGE_ACCOUNT_NAME": "account_name",
}
_KEYS = {
    "amazon_s3": _AWS,
    "delta_lake_s3": _AWS,
    "delta_lake_azure": _AZURE,
    "google_cloud_storage": {},
}

_OVERRIDE_KEYS = {"columns": "constant_columns", "partition_keys": "partition_keys"}
"""Key of `_streams` -> lakeport's key."""

_NO_EFFECT = ("unique_constraints", "unique_conflict_method")  # keys of a catalog's stream

_DESTINATIONS = {
    "amazon_s3": "amazon_s3",
    "google_cloud_storage": "google_cloud_storage",
    "azure_data_lake": "delta_lake_azure",
}
_RENAMED = {
    "path_to_credentials_json_file": "google_application_credentials",
    "region": "aws_region",
}
SINK_KEYS = frozenset(
    {"connector_type", "prefix", "buffer_size_mb", "buffer_timeout_seconds", *_RENAMED}
)
"""Keys of sinks that destinations do not have."""


class ConfigLoader(Protocol):
    """Protocol of an object that returns settings by name, as Mage's own loaders do."""

    def get(self, key: str) -> Any:
        """Return a setting; None if it is absent."""
        ...


class ConfigFileLoader:
    """Reads the settings of one profile in an `io_config.yaml`.

    Args:
        filepath: the file; default: `io_config.yaml` in the current folder.
        profile: the profile's name.
        config: settings instead of a file's.

    Raises:
        ConfigError: the file can't be read, or has no such profile.

    Example:
        >>> loader = ConfigFileLoader(config={"AWS": {"region": "eu-west-1"}})
        >>> loader["AWS_REGION"], "AWS_ENDPOINT" in loader
        ('eu-west-1', False)
    """

    def __init__(
        self,
        filepath: str | os.PathLike[str] | None = None,
        profile: str = "default",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = "the config"
        if config is not None:
            self._values = dict(config)
            return
        path = Path("io_config.yaml" if filepath is None else filepath)
        self.name = f"config file {str(path)!r}, profile {profile!r}"
        profiles = parse_text(read_text(path), f"config file {str(path)!r}")
        names = [name for name in profiles if name != "version"]
        if profile not in names:
            raise unknown_name_error("profile", profile, names)
        values = profiles[profile]
        if not isinstance(values, Mapping):
            raise ConfigError(
                f"{self.name} holds no keys", "write one `key: value` on each line below it."
            )
        self._values = dict(values)

    def get(self, key: str) -> Any:
        """Return a setting with variables and templates replaced; None if it is absent.

        Raises:
            ConfigError: it names an environment variable that is not set, or a template is wrong.
        """
        key = str(getattr(key, "value", key))
        found = self._raw_value(key)
        if found is None:
            return None
        return expand(found, os.environ, f"{self.name}, `{key}`")

    def __getitem__(self, key: str) -> Any:
        return self.get(key)

    def __contains__(self, key: str) -> bool:
        return self._raw_value(str(getattr(key, "value", key))) is not None

    def _raw_value(self, key: str) -> Any:
        """Return a setting as the file has it, nested or at the top level; None if absent."""
        header, name = _VERBOSE.get(key, ("", ""))
        section = self._values.get(header)
        found = section.get(name) if isinstance(section, Mapping) else None
        return self._values.get(key) if found is None else found


class EnvironmentVariableLoader:
    """Reads settings from the environment variables of the same names."""

    def get(self, key: str) -> str | None:
        """Return a setting; None if its variable is not set."""
        return os.environ.get(str(getattr(key, "value", key)))

    def __getitem__(self, key: str) -> str | None:
        return self.get(key)

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None


def destination_keys(loader: ConfigLoader, destination: str) -> dict[str, Any]:
    """Return a destination's keys from a Mage profile: credentials, region, endpoint.

    Example:
        >>> loader = ConfigFileLoader(config={"AWS_REGION": "eu-west-1", "AWS_ENDPOINT": None})
        >>> destination_keys(loader, "amazon_s3")
        {'aws_region': 'eu-west-1'}
    """
    names = _KEYS.get(destination, {})
    found = {key: _read_setting(loader, name) for name, key in names.items()}
    if destination == "google_cloud_storage":
        found["google_application_credentials"] = _google_key(loader)
    return {key: value for key, value in found.items() if value is not None}


def _read_setting(loader: ConfigLoader, name: str) -> Any:
    """Return a setting; None if absent or a placeholder of Mage's sample `io_config.yaml`."""
    value = loader.get(name)
    none = {*_PLACEHOLDERS, name.partition("_")[2].lower()}
    return None if isinstance(value, str) and value.strip() in none else value


def _google_key(loader: ConfigLoader) -> Any:
    """Return a service account's key as JSON text, else its file's path; None if not set."""
    key = loader.get("GOOGLE_SERVICE_ACC_KEY")
    if isinstance(key, Mapping) and _PLACEHOLDER_KEY in str(key.get("private_key", "")):
        key = None
    if isinstance(key, Mapping):
        return json.dumps(dict(key))
    return key or _read_setting(loader, "GOOGLE_SERVICE_ACC_KEY_FILEPATH")


def fold_streams(values: Mapping[str, Any]) -> dict[str, Any]:
    """Merge Mage's `_streams`, constant columns and partition keys, into the other keys.

    Raises:
        ConfigError: `_streams` holds anything else.

    Example:
        >>> fold_streams({"partition_keys": ["a"], "_streams": {"partition_keys": ["b"]}})
        {'partition_keys': ['a', 'b']}
    """
    folded = {name: value for name, value in values.items() if name != "_streams"}
    streams = values.get("_streams")
    if streams is None:
        return folded
    if not isinstance(streams, Mapping):
        raise ConfigError(
            "`_streams` has to hold `columns` and `partition_keys`",
            "write them below it, indented, or leave `_streams` out.",
        )
    for name, value in streams.items():
        if name not in _OVERRIDE_KEYS:
            guess = did_you_mean(str(name), _OVERRIDE_KEYS)
            raise ConfigError(
                f"`_streams`: there is no key {name!r}{guess}",
                "it takes `columns` and `partition_keys`, which are for every stream.",
            )
        if value is None:
            continue
        given = folded.get(_OVERRIDE_KEYS[name])
        if name == "partition_keys":
            folded[name] = [*_override_names(given), *_override_names(value)]
        elif isinstance(given, Mapping) and isinstance(value, Mapping):
            folded[_OVERRIDE_KEYS[name]] = {**given, **value}
        else:
            folded[_OVERRIDE_KEYS[name]] = value
    return folded


def _override_names(value: Any) -> list[Any]:
    """Convert partition keys (list, comma-separated text, None) to a list; else ConfigError."""
    if value is None:
        return []
    if isinstance(value, str):
        return [name.strip() for name in value.split(",")]
    if not isinstance(value, list | tuple):
        raise ConfigError(
            f"`partition_keys` is {value!r}, which is no list", "write it like `[day, country]`."
        )
    return list(value)


@dataclass(frozen=True, slots=True)
class CatalogStream:
    """A stream in a Singer catalog: JSON schema, key columns and partition columns.

    Fields that the JSON schema does not declare are dropped.
    """

    schema: Mapping[str, Any]
    key_properties: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()  # given keys that have no effect


def parse_catalog(value: Any) -> dict[str, CatalogStream]:
    """Parse a Singer catalog, or its JSON text, to streams by `tap_stream_id` or name.

    Raises:
        ValueError: it is no catalog; the sentence names the wrong part.

    Example:
        >>> list(parse_catalog('{"streams": [{"stream": "users", "schema": {"properties": {}}}]}'))
        ['users']
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError("is no JSON") from None
    if not isinstance(value, Mapping):
        raise ValueError('has to look like {"streams": […]}')
    if value and all(isinstance(stream, CatalogStream) for stream in value.values()):
        return dict(value)
    streams = value.get("streams", [] if not value else None)
    if not isinstance(streams, Sequence) or isinstance(streams, str):
        raise ValueError("has no list `streams`")
    return dict(_parse_stream(stream, number) for number, stream in enumerate(streams, 1))


def unused_key_warnings(catalog: Mapping[str, CatalogStream]) -> tuple[str, ...]:
    """Return a warning for each stream of a catalog with a key that has no effect."""
    return tuple(
        f"catalog: stream {name!r}: {' and '.join(f'`{key}`' for key in stream.unused)} "
        "took no effect: `mode` decides what happens to rows that are there already"
        for name, stream in catalog.items()
        if stream.unused
    )


def _parse_stream(stream: Any, number: int) -> tuple[str, CatalogStream]:
    """Parse stream `number` (from 1) of a catalog; return (name, stream), or raise ValueError."""
    if not isinstance(stream, Mapping):
        raise ValueError(f"has no mapping as stream {number}")
    name = stream.get("tap_stream_id") or stream.get("stream")
    if not isinstance(name, str):
        raise ValueError(f"has a stream without `tap_stream_id` and `stream`: number {number}")
    schema = stream.get("schema")
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        raise ValueError(f"has no `schema` with `properties` for the stream {name!r}")
    return name, CatalogStream(
        dict(schema),
        _parse_stream_columns(stream, "key_properties", name),
        _parse_stream_columns(stream, "partition_keys", name),
        tuple(key for key in _NO_EFFECT if stream.get(key)),
    )


def _parse_stream_columns(stream: Mapping[str, Any], key: str, name: str) -> tuple[str, ...]:
    """Return a stream's column names under `key`, each once; () if absent, else ValueError."""
    names = stream.get(key) or ()
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
        raise ValueError(f"has no list of names as `{key}` of the stream {name!r}")
    return tuple(dict.fromkeys(names))


def is_sink(values: Mapping[str, Any]) -> bool:
    """Whether a config is one of a Mage streaming sink."""
    return "connector_type" in values


def parse_sink(
    values: Mapping[str, Any], destination_keys: Iterable[str] = ()
) -> tuple[dict[str, Any], float]:
    """Translate a Mage streaming sink to a destination's keys and the seconds between batches.

    It may have keys of its destination, too.

    Raises:
        ConfigError: an unknown sink, an invalid value, or a key that is neither a sink's nor in
            `destination_keys`, if there are any.

    Example:
        >>> sink = {"connector_type": "amazon_s3", "bucket": "lake", "prefix": "raw/clicks"}
        >>> keys, seconds = parse_sink(sink)
        >>> keys["object_key_path"], keys["table"], seconds
        ('raw', 'clicks', 300.0)
    """
    given = {name: value for name, value in values.items() if value is not None}
    kind = given.pop("connector_type", None)
    if not isinstance(kind, str) or kind not in _DESTINATIONS:
        raise unknown_name_error("streaming sink", str(kind), _DESTINATIONS)
    allowed = SINK_KEYS | set(destination_keys)
    for name in given:
        if destination_keys and name not in allowed:
            raise unknown_name_error("key", name, allowed)
    _parse_positive(given.pop("buffer_size_mb", 5), "buffer_size_mb")  # a trigger has no size
    seconds = _parse_positive(given.pop("buffer_timeout_seconds", 300), "buffer_timeout_seconds")
    for old, new in _RENAMED.items():
        if old in given:
            given.setdefault(new, given.pop(old))
    keys = {"destination": _DESTINATIONS[kind], **given}
    if kind == "azure_data_lake":
        return keys, seconds
    if str(given.get("file_type", "")).lower() == "delta":
        if kind != "amazon_s3":
            raise ConfigError(
                f"the sink `{kind}` can't write `file_type: delta`", "use parquet or csv."
            )
        keys |= {"destination": "delta_lake_s3", **_parse_table_uri(keys.pop("table_uri", None))}
    return _split_prefix(keys, kind), seconds


def _parse_table_uri(uri: Any) -> dict[str, Any]:
    """Return `bucket` and `prefix` of a table's S3 URI; {} for None; ConfigError for others."""
    if uri is None:
        return {}
    parts = urlsplit(str(uri))
    if parts.scheme not in {"s3", "s3a"} or not parts.netloc or not parts.path.strip("/"):
        raise ConfigError(f"`table_uri` is {str(uri)!r}", "write s3://bucket/path/of/the/table.")
    return {"bucket": parts.netloc, "prefix": parts.path}


def _split_prefix(keys: dict[str, Any], kind: str) -> dict[str, Any]:
    """Split a sink's `prefix` into `object_key_path` and `table`; ConfigError if missing."""
    prefix = keys.pop("prefix", None)
    if prefix is None:
        if keys.get("table") is None:
            raise ConfigError(
                f"the sink `{kind}` has no `prefix`", "name the folder of its objects."
            )
        return keys
    if not isinstance(prefix, str) or not prefix.strip("/"):
        raise ConfigError(f"`prefix` is {prefix!r}", "name the folder of the sink's objects.")
    if keys.get("table") is not None:
        return {**keys, "object_key_path": prefix}
    path, _, table = prefix.strip("/").rpartition("/")
    return {**keys, "object_key_path": path, "table": table}


def _parse_positive(value: Any, name: str) -> float:
    """Convert a key's value to a finite number above 0; raise ConfigError for other values."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if isinstance(value, bool) or not 0 < number < float("inf"):
        raise ConfigError(
            f"`{name}` is {value!r}, not a number above 0", "give one, or leave the key out."
        )
    return number
