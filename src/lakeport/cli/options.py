"""Options that several commands share, and what their texts mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeport.errors import ConfigError
from lakeport.scrub import is_secret_name

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.loading.report import LandingReport


JsonOut = Annotated[
    bool, typer.Option("--json", help="One JSON document instead of words, errors too.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
RunId = Annotated[
    str | None,
    typer.Option("--run-id", metavar="ID", help="The same run repeated adds nothing twice."),
]
SetKeys = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any key of the config; repeat it for more."),
]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="spark|threads",
        help="What runs the tasks; default: spark. threads: without Java.",
    ),
]
SparkKeys = Annotated[
    list[str] | None,
    typer.Option("--spark", metavar="KEY=VALUE", help="A setting of Spark; repeat it for more."),
]
StatePath = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="FILE", help="Keep the durable STATE in this file.", dir_okay=False
    ),
]


def parameter(name: str, annotation: object, default: object = Parameter.empty) -> Parameter:
    """Return a parameter of a command, as typer reads it from a signature."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def own_parameters(body: Callable[..., None]) -> list[Parameter]:
    """Return the parameters of a command's function behind the first, by which it gets the rest."""
    _, *own = signature(body, eval_str=True).parameters.values()
    own = [each for each in own if each.kind is not Parameter.VAR_KEYWORD]
    return [each.replace(kind=Parameter.KEYWORD_ONLY) for each in own]


def declare(
    command: Callable[..., None], body: Callable[..., None], parameters: Sequence[Parameter]
) -> Callable[..., None]:
    """Return a command that typer sees with these parameters, under its function's name."""
    command.__name__, command.__doc__ = body.__name__, body.__doc__
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return command


COMMON = (
    parameter("set_keys", SetKeys, None),
    parameter("json_out", JsonOut, False),
    parameter("debug", Debug, False),
)
"""Parameters that every command about a lake or a table has."""


def internal_keys(left_out: bool, prefix: str | None) -> dict[str, Any]:
    """The config keys of the options about internal columns that are given.

    Raises:
        ConfigError: both are given.
    """
    if left_out and prefix is not None:
        raise ConfigError(
            "`--no-internal-columns` and `--internal-columns` exclude each other", "give one."
        )
    given = {"internal_columns": False if left_out else None, "internal_columns_prefix": prefix}
    return {key: value for key, value in given.items() if value is not None}


def keys(
    options: Mapping[str, Any], set_keys: Iterable[str] | None, spark: Iterable[str] | None
) -> dict[str, Any]:
    """The config keys that a command line gives.

    Args:
        options: key -> value of the options that stand for one key each, None when not given.
        set_keys: texts `key=value`.
        spark: texts `setting=value`.

    Raises:
        ConfigError: a text without `=`, or a key given twice.
    """
    from lakeport.config.base import canonical_keys

    found = canonical_keys(options)
    settings = pairs(spark, "--spark")
    if settings:
        found["spark"] = settings
    for key, value in pairs(set_keys, "--set").items():
        name = next(iter(canonical_keys({key: value})), key)
        if name in found:
            raise ConfigError(
                f"`--set {key}` gives a key that another option gives too", "give one of them."
            )
        found[name] = value
    return found


def refuse_secrets(given: Mapping[str, Any], model: type[DestinationConfig]) -> None:
    """Refuse secrets on the command line, which every user of the machine can read.

    Raises:
        ConfigError: naming the key, and where to put it instead.
    """
    for key in sorted(given.keys() & model.secret_keys()):
        raise ConfigError(
            f"`{key}` is a secret, and other users can read a command line",
            f"put it in the config file, or in the environment as LAKEPORT_{key.upper()}.",
        )
    settings = given.get("spark")
    for name in sorted(settings if isinstance(settings, Mapping) else ()):
        if is_secret_name(name):
            raise ConfigError(
                f"the Spark setting {name!r} is a secret, and other users can read a command line",
                "put it under `spark:` in the config file.",
            )


def pairs(texts: Iterable[str] | None, option: str, *, last: bool = False) -> dict[str, str]:
    """Return texts `key=value` as a mapping.

    Args:
        texts: what was given, if anything.
        option: how errors call it.
        last: whether the last `=` counts, not the first one.

    Raises:
        ConfigError: a text without `=`, or a key given twice.
    """
    pairs: dict[str, str] = {}
    for text in texts or ():
        # A column's name may have the sign in it; a type has none.
        key, equals, value = text.rpartition("=") if last else text.partition("=")
        key = key.strip()
        if not (key and equals):
            problem = "names no key" if equals else f"{text!r} has no value"
            raise ConfigError(f"`{option}` {problem}", f"write {option} key=value.")
        if key in pairs:
            raise ConfigError(f"`{option} {key}` is given twice", "give it once.")
        pairs[key] = value
    return pairs


def about_internal(
    config: DestinationConfig, otherwise: str, report: LandingReport
) -> tuple[str, ...]:
    """Return a note on the internal columns of a new table; empty if the config mentions them.

    Args:
        config: that of the load.
        otherwise: what leaves them out, such as an option.
        report: that of the load.
    """
    said = {"internal_columns", "internal_columns_prefix"} & config.model_fields_set
    made = any(stream.rows and not stream.first_version for stream in report.streams)
    if said or not made:
        return ()
    from lakeport.shape import apply_header_case, list_internal_columns

    names = list_internal_columns(config.internal_columns_prefix)
    shown = " and ".join(apply_header_case(name, config.column_header_format) for name in names)
    return (f"{shown} tell when rows came and changed; `{otherwise}` leaves them out",)
