"""The command line of Mage's destinations: its flags, and the config and template for them."""

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
    """Values of the flags on a Mage destination's command line; see `lakeport target --help`."""

    config: str | None = None  # path of a YAML or JSON file
    config_json: str | None = None
    settings: str | None = None  # path of a block's YAML file
    catalog_json: str | None = None
    state: str | None = None  # path of the file that keeps the committed STATE
    input_file_path: str | None = None
    log_to_stdout: bool = False
    show_templates: bool = False
    test_connection: bool = False
    debug: bool = False

    @classmethod
    def parse(
        cls, parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None
    ) -> Flags:
        """Add the flags to `parser` and parse arguments; wrong ones exit the process with code 2.

        Example:
            >>> Flags.parse(argparse.ArgumentParser(), ["--log_to_stdout", "False"]).log_to_stdout
            False
        """
        for field in fields(cls):
            name = f"--{field.name}"
            if field.name == "log_to_stdout":
                parser.add_argument(name, type=parse_switch, default=False, metavar="1|0")
            elif field.default is False:
                parser.add_argument(name, action="store_true")
            else:
                parser.add_argument(name)
        known = {field.name for field in fields(cls)}
        given = vars(parser.parse_args(arguments))
        return cls(**{name: value for name, value in given.items() if name in known})


def parse_switch(text: str) -> bool:
    """Parse an on/off value such as 1, true, no or off to a bool; blank text is off.

    Raises:
        ValueError: it is neither on nor off.

    Example:
        >>> parse_switch("1"), parse_switch("False")
        (True, False)
    """
    word = text.strip().lower()
    if word not in (*_ON, *_OFF):
        raise ValueError(f"{text!r} is neither 1 nor 0")
    return word in _ON


def parse_json_object(text: str, flag: str) -> dict[str, Any]:
    """Parse a flag's JSON object; ConfigError, without its text, for others or repeated keys."""
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

    return parse_text(text, f"`{flag}`")  # refuses a repeated key


def load_flags_config(
    destination: str, flags: Flags, overrides: Mapping[str, Any]
) -> DestinationConfig:
    """Build the config from `config_json`, else `config`, else `settings`.

    An empty one counts as absent, and only the one that is used is read. Overrides win.

    Raises:
        ConfigError: it names what is wrong.
    """
    from lakeport.config.load import for_destination, load_file, load_target, prefix_errors

    overrides = dict(overrides)
    if flags.catalog_json:
        overrides["catalog"] = _parse_catalog_flag(flags.catalog_json)
    if flags.config_json is not None:
        values = parse_json_object(flags.config_json, "--config_json")
        if values:
            with prefix_errors("`--config_json`"):
                config = load_target(for_destination(destination, values), overrides)
            return config.with_warnings(*_secret_warnings(config, values))
    path = flags.config
    if flags.settings and (not path or _is_empty(path)):
        path = flags.settings
    if path:
        return load_file(path, overrides, destination=destination)
    return load_target({"destination": destination}, overrides)


def _is_empty(path: str) -> bool:
    """Whether a config file is blank or holds only `{}`."""
    from lakeport.config.files import read_text

    return "".join(read_text(Path(path)).split()) in ("", "{}")


def _parse_catalog_flag(text: str) -> dict[str, CatalogStream]:
    """Parse the catalog of `--catalog_json` to its streams; ConfigError if it is invalid."""
    from lakeport.config.mage.io_config import parse_catalog

    try:
        return parse_catalog(parse_json_object(text, "--catalog_json"))
    except ValueError as error:
        raise ConfigError(
            f"`--catalog_json` {error}", "give the catalog of the source, or leave it out."
        ) from None


def _secret_warnings(config: DestinationConfig, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a warning if `--config_json` holds secrets, which other users can read; else ()."""
    from lakeport.config.files import collect_texts

    if collect_texts(dict(values)).isdisjoint(config.secrets()):
        return ()
    return (
        "`--config_json` holds secrets, and every user of this machine can read a command line "
        "while it runs: a file (`--config`, chmod 600) or LAKEPORT_ variables keep them.",
    )


def log_name(destination: str) -> str:
    """Return a destination's name in log lines: the name of its Mage class.

    Example:
        >>> log_name("amazon_s3"), log_name("local")
        ('AmazonS3', 'Local')
    """
    return destination.title().replace("_", "")


def config_template(destination: str) -> dict[str, Any]:
    """Return a destination's main keys with default values; None for required keys.

    Raises:
        ConfigError: there is no destination of that name.

    Example:
        >>> list(config_template("local")["config"])
        ['path', 'table', 'file_type', 'mode']
    """
    from lakeport.config.base import config_class

    found = config_class(destination).model_fields
    keys = _KEYS[destination]
    return {
        "config": {key: None if found[key].is_required() else found[key].default for key in keys}
    }
