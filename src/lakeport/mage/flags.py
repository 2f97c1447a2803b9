"""The command line of Mage's destinations: flags, the config that they give, and its template."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeport.errors import ConfigError

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.mage.io_config import CatalogStream

_ON = ("1", "true", "yes", "on")
_OFF = ("0", "false", "no", "off", "")

_AWS = ("aws_access_key_id", "aws_secret_access_key", "aws_region", "bucket", "object_key_path")
_KEYS: dict[str, tuple[str, ...]] = {
    "amazon_s3": (
        *_AWS,
        "table",
        "file_type",
        "aws_endpoint",
        "role_arn",
        "column_header_format",
        "date_partition_format",
    ),
    "delta_lake_azure": ("account_name", "access_key", "table_uri", "mode"),
    "delta_lake_s3": (*_AWS, "table", "mode"),
    "google_cloud_storage": (
        "bucket",
        "object_key_path",
        "table",
        "file_type",
        "date_partition_format",
        "google_application_credentials",
    ),
    "local": ("path", "table", "file_type", "mode"),
}


@dataclass(frozen=True)
class Flags:
    """The flags of a Mage destination's command line.

    Attributes:
        config: path of a YAML or JSON config.
        config_json: a config as JSON text.
        settings: path of a block's YAML.
        catalog_json: a catalog as JSON text.
        state: path of the file that keeps the durable STATE.
        input_file_path: file with the Singer lines; standard input if None.
        log_to_stdout: whether logs are bare JSON lines on standard output.
        show_templates: only print the config's template.
        test_connection: only test the connection.
        debug: more logs, and tracebacks.
    """

    config: str | None = None
    config_json: str | None = None
    settings: str | None = None
    catalog_json: str | None = None
    state: str | None = None
    input_file_path: str | None = None
    log_to_stdout: bool = False
    show_templates: bool = False
    test_connection: bool = False
    debug: bool = False

    @classmethod
    def parse(
        cls, parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None
    ) -> Flags:
        """The flags on a command line, taken apart by the caller's parser; it exits with 2.

        Example:
            >>> Flags.parse(argparse.ArgumentParser(), ["--log_to_stdout", "False"]).log_to_stdout
            False
        """
        for field in fields(cls):
            name = f"--{field.name}"
            if field.name == "log_to_stdout":
                parser.add_argument(name, type=on_or_off, default=False, metavar="1|0")
            elif field.default is False:
                parser.add_argument(name, action="store_true")
            else:
                parser.add_argument(name)
        known = {field.name for field in fields(cls)}
        given = vars(parser.parse_args(arguments))
        return cls(**{name: value for name, value in given.items() if name in known})


def on_or_off(text: str) -> bool:
    """A switch that takes a value.

    Raises:
        ValueError: neither on nor off.

    Example:
        >>> on_or_off("1"), on_or_off("False")
        (True, False)
    """
    word = text.strip().lower()
    if word not in (*_ON, *_OFF):
        raise ValueError(f"{text!r} is neither 1 nor 0")
    return word in _ON


def json_object(text: str, flag: str) -> dict[str, Any]:
    """The object in a flag's JSON text, which no error quotes: it may hold secrets.

    Raises:
        ConfigError: it is no JSON, no object, or gives a key twice.
    """
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        place = getattr(error, "pos", None)
        where = "" if place is None else f" at character {place + 1}"
        raise ConfigError(
            f"`{flag}` is no valid JSON{where}",
            'give a JSON object in quotes, such as \'{"bucket": "lake"}\'.',
        ) from None
    if not isinstance(value, dict):
        raise ConfigError(f"`{flag}` is no JSON object", "give keys and values in braces.")
    from lakeport.config.files import parse_text

    return parse_text(text, f"`{flag}`")  # which refuses a key that is given twice


def config_of(destination: str, flags: Flags, overrides: Mapping[str, Any]) -> DestinationConfig:
    """The config that the flags give: `config_json`, else `config`, else `settings`, whole.

    An empty one counts as none, and a config that another one outdoes is not even read.

    Args:
        destination: its name.
        flags: where the keys are.
        overrides: keys that win over them.

    Raises:
        ConfigError: naming what is wrong.
    """
    from lakeport.config.load import for_destination, load_file, load_target, prefix_errors

    overrides = dict(overrides)
    if flags.catalog_json:
        overrides["catalog"] = _catalog(flags.catalog_json)
    if flags.config_json is not None:
        values = json_object(flags.config_json, "--config_json")
        if values:
            with prefix_errors("`--config_json`"):
                config = load_target(for_destination(destination, values), overrides)
            return config.with_warnings(*_exposed(config, values))
    path = flags.config
    if flags.settings and (not path or _is_empty(path)):
        path = flags.settings
    if path:
        return load_file(path, overrides, destination=destination)
    return load_target({"destination": destination}, overrides)


def _is_empty(path: str) -> bool:
    from lakeport.config.files import read_text

    return "".join(read_text(Path(path)).split()) in ("", "{}")


def _catalog(text: str) -> dict[str, CatalogStream]:
    from lakeport.config.mage.io_config import parse_catalog

    try:
        return parse_catalog(json_object(text, "--catalog_json"))
    except ValueError as error:
        raise ConfigError(
            f"`--catalog_json` {error}", "give the catalog of the source, or leave it out."
        ) from None


def _exposed(config: DestinationConfig, values: Mapping[str, Any]) -> tuple[str, ...]:
    from lakeport.config.files import collect_texts

    if collect_texts(dict(values)).isdisjoint(config.secrets()):
        return ()
    return (
        "`--config_json` holds secrets, and every user of this machine can read a command line "
        "while it runs: a file (`--config`, chmod 600) or LAKEPORT_ variables keep them.",
    )


def caller(destination: str) -> str:
    """The name under which a destination logs: that of its class.

    Example:
        >>> caller("amazon_s3"), caller("local")
        ('AmazonS3', 'Local')
    """
    return destination.title().replace("_", "")


def template(destination: str) -> dict[str, Any]:
    """A destination's keys and their defaults; null where there is none.

    Raises:
        ConfigError: there is no destination of that name.

    Example:
        >>> list(template("local")["config"])
        ['path', 'table', 'file_type', 'mode']
    """
    from lakeport.config.base import config_class

    found = config_class(destination).model_fields
    keys = _KEYS[destination]
    return {
        "config": {key: None if found[key].is_required() else found[key].default for key in keys}
    }
