"""Which destinations a config can be for: a name, or a URI's scheme -> the class with its keys."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from lakeport.config.base import DestinationConfig
from lakeport.config.explain import no_such
from lakeport.errors import ConfigError

_DESTINATIONS = {
    "local": "lakeport.config.destinations.local:LocalConfig",
    "amazon_s3": "lakeport.config.destinations.amazon_s3:AmazonS3Config",
    "delta_lake_azure": "lakeport.config.destinations.delta_lake_azure:DeltaLakeAzureConfig",
    "delta_lake_s3": "lakeport.config.destinations.delta_lake_s3:DeltaLakeS3Config",
    "google_cloud_storage": (
        "lakeport.config.destinations.google_cloud_storage:GoogleCloudStorageConfig"
    ),
}
_SCHEMES = {
    "abfs": "delta_lake_azure",
    "abfss": "delta_lake_azure",
    "file": "local",
    "gs": "google_cloud_storage",
    "s3": "amazon_s3",
}
_TABLES = {"amazon_s3": "delta_lake_s3"}  # files -> tables in the same store
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")


def destinations() -> tuple[str, ...]:
    """Names of the destinations that a config can be for."""
    return tuple(_DESTINATIONS)


def destination_of(scheme: str) -> str:
    """The destination that a target of that scheme is for; empty if there is none."""
    return _SCHEMES.get(scheme, "")


def known_schemes() -> str:
    """The schemes that some destination takes, for a hint."""
    return ", ".join(sorted(f"{name}://" for name in _SCHEMES))


def named_as_by_users(uri: str) -> str:
    """A URI that may be Spark's name of a place, as users name it.

    >>> named_as_by_users("s3a://lake/silver")
    's3://lake/silver'
    """
    return f"s3://{uri[6:]}" if uri[:6].lower() == "s3a://" else uri


def table_destination(destination: str) -> str:
    """The destination whose Delta tables lie in the same store; itself if there is no other.

    >>> table_destination("amazon_s3"), table_destination("local")
    ('delta_lake_s3', 'local')
    """
    return _TABLES.get(destination, destination)


def config_class(destination: str) -> type[DestinationConfig]:
    """The config class of a destination.

    Raises:
        ConfigError: there is no destination of that name; the error lists those that exist.
    """
    if destination not in _DESTINATIONS:
        raise no_such("destination", destination, _DESTINATIONS)
    module, _, name = _DESTINATIONS[destination].partition(":")
    found: type[DestinationConfig] = getattr(import_module(module), name)
    return found


def all_keys() -> frozenset[str]:
    """The keys of all destinations."""
    return frozenset(key for name in _DESTINATIONS for key in config_class(name).model_fields)


def uri_values(text: str, *, may_be_uri: bool = True) -> dict[str, Any]:
    """The keys that a folder's path or a URI stands for, `destination` among them.

    Raises:
        ConfigError: no destination takes such a URI.
    """
    match = _SCHEME.match(text) if may_be_uri else None
    scheme = match[1].lower() if match else "file"
    if not destination_of(scheme):
        raise ConfigError(
            f"no destination takes the target {scheme}:…",
            f"give a folder, or a URI of: {known_schemes()}.",
        )
    name = destination_of(scheme)
    return {"destination": name, **config_class(name).uri_keys(text)}


def what_to_name() -> str:
    """The hint for a target that names no destination."""
    names = ", ".join(sorted(_DESTINATIONS))
    return f"give a folder, a URI, a config file, or keys with `destination:` ({names})."
