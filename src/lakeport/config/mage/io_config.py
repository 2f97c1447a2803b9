"""Mage's `io_config.yaml`: profiles with credentials, and where a destination's keys come from.

A profile has its keys flat (`AWS_REGION: …`) or under headers (`AWS: {region: …}`). Values are
rendered when they are asked for, so a variable that another source's key needs may be unset. What
Mage's template puts where nothing was filled in (`AWS_REGION: region`) counts as absent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from lakeport.config.explain import no_such
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
    "AWS_ACCESS_KEY_ID": {"access_key_id"},
    "AWS_SECRET_ACCESS_KEY": {"secret_access_key"},
    "AWS_SESSION_TOKEN": {
        "session_token",
        "session_token (Used to generate Redshift credentials)",
    },
    "AWS_REGION": {"region"},
    "GOOGLE_SERVICE_ACC_KEY_FILEPATH": {"/path/to/your/service/account/key.json"},
    "AZURE_CLIENT_ID": {"client_id"},
    "AZURE_CLIENT_SECRET": {"client_secret"},
    "AZURE_STORAGE_ACCOUNT_NAME": {"storage_account_name"},
    "AZURE_TENANT_ID": {"tenant_id"},
}
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


class ConfigLoader(Protocol):
    """What gives a setting by its name; Mage's own loaders are such."""

    def get(self, key: str) -> Any:
        """The setting; None if there is none."""
        ...


class ConfigFileLoader:
    """A profile of an `io_config.yaml`.

    Args:
        filepath: the file; default: `io_config.yaml` in the current folder.
        profile: the profile's name.
        config: settings instead of a file's.
        environ: the environment; default: the process's.

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
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._environ = environ
        self.name = "the config"
        if config is not None:
            self._values = dict(config)
            return
        path = Path("io_config.yaml" if filepath is None else filepath)
        self.name = f"config file {str(path)!r}, profile {profile!r}"
        profiles = parse_text(read_text(path), f"config file {str(path)!r}")
        names = [name for name in profiles if name != "version"]
        if profile not in names:
            raise no_such("profile", profile, names)
        values = profiles[profile]
        if not isinstance(values, Mapping):
            raise ConfigError(
                f"{self.name} holds no keys", "write one `key: value` on each line below it."
            )
        self._values = dict(values)

    def get(self, key: str) -> Any:
        """A setting, rendered; None if there is none.

        Raises:
            ConfigError: it names an environment variable that is not set, or such.
        """
        key = str(getattr(key, "value", key))
        found = self._raw(key)
        if found is None:
            return None
        environ = os.environ if self._environ is None else self._environ
        return expand(found, environ, f"{self.name}, `{key}`")

    def __getitem__(self, key: str) -> Any:
        return self.get(key)

    def __contains__(self, key: str) -> bool:
        return self._raw(str(getattr(key, "value", key))) is not None

    def _raw(self, key: str) -> Any:
        header, name = _VERBOSE.get(key, ("", ""))
        section = self._values.get(header)
        found = section.get(name) if isinstance(section, Mapping) else None
        return self._values.get(key) if found is None else found


class EnvironmentVariableLoader:
    """Settings from environment variables of the same names."""

    def get(self, key: str) -> str | None:
        """A setting; None if the variable is not set."""
        return os.environ.get(str(getattr(key, "value", key)))

    def __getitem__(self, key: str) -> str | None:
        return self.get(key)

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None


def destination_keys(loader: ConfigLoader, destination: str) -> dict[str, Any]:
    """A destination's keys that a profile has: credentials, region, endpoint.

    Example:
        >>> loader = ConfigFileLoader(config={"AWS_REGION": "eu-west-1", "AWS_ENDPOINT": None})
        >>> destination_keys(loader, "amazon_s3")
        {'aws_region': 'eu-west-1'}
    """
    names = _KEYS.get(destination, {})
    found = {key: _filled(loader, name) for name, key in names.items()}
    if destination == "google_cloud_storage":
        found["google_application_credentials"] = _google_key(loader)
    return {key: value for key, value in found.items() if value is not None}


def _filled(loader: ConfigLoader, name: str) -> Any:
    value = loader.get(name)
    if isinstance(value, str) and (
        not value.strip() or value.strip() in _PLACEHOLDERS.get(name, ())
    ):
        return None
    return value


def _google_key(loader: ConfigLoader) -> Any:
    """The key as a mapping or JSON text, else the path of its file."""
    key = loader.get("GOOGLE_SERVICE_ACC_KEY")
    if isinstance(key, Mapping) and _PLACEHOLDER_KEY in str(key.get("private_key", "")):
        key = None
    if isinstance(key, Mapping):
        return json.dumps(dict(key))
    return key or _filled(loader, "GOOGLE_SERVICE_ACC_KEY_FILEPATH")
