"""What `target` in a lake's file stands for: keys, a config file, a folder or a URI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakeport.config.classes import uri_values
from lakeport.config.files import expand, parse_text, read_text
from lakeport.config.layers import flat
from lakeport.errors import ConfigError

_STREAM = "{stream}"
_PATHS = ("path", "spool_dir", "google_application_credentials")
_CONFIGS = (".yaml", ".yml", ".json")


def target_values(target: Any, folder: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """The keys that `target` stands for: its own, a config file's, or those of a folder or a URI.

    Args:
        target: its value, with variables replaced.
        folder: of the lake's file, from which relative paths go.
        environ: the environment, for a config file's variables.

    Raises:
        ConfigError: it is none of these, or the config file is wrong.
    """
    if isinstance(target, Mapping):
        return placed(flat(target), folder)
    if not isinstance(target, str) or not target.strip():
        raise ConfigError(
            "`target` has to be keys, a config file, a folder or a URI",
            "such as `target: ./lake`, or `target: {destination: local, path: ./lake}`.",
        )
    if "://" in target:
        keys = uri_values(target)
        if "table_uri" in keys:  # of a lake it is the folder of the tables
            keys["table_uri"] = f"{keys['table_uri'].rstrip('/')}/{_STREAM}"
        return keys
    path = folder / Path(target).expanduser()
    if not target.lower().endswith(_CONFIGS):
        return uri_values(str(path), may_be_uri=False)
    name = f"config file {str(path)!r}"
    return placed(expand(flat(parse_text(read_text(path), name)), environ, name), path.parent)


def placed(keys: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Keys whose relative paths go from a folder."""
    found = dict(keys)
    for key in _PATHS:
        value = found.get(key)
        if isinstance(value, str) and value and not value.startswith(("file:", "~", "{")):
            found[key] = str(folder / value)
    return found
