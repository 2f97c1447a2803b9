"""Options that several commands share, and parsers of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeport.config.references import is_reference
from lakeport.errors import ConfigError
from lakeport.scrub import is_secret_name

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.loading.report import LandingReport


JsonOut = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of text, also for errors.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


class LogFormat(StrEnum):
    """Formats of a command's log on standard error."""

    TEXT = "text"
    JSON = "json"


# `output.logs` finds its value in the command line, before that is parsed.
LogFormatName = Annotated[
    LogFormat | None,
    typer.Option(
        "--log-format",
        metavar="text|json",
        help="Log JSON lines on standard error, not text; LAKEPORT_LOG_FORMAT does so, too.",
    ),
]
MetricsFile = Annotated[
    Path | None,
    typer.Option(
        "--metrics-file",
        metavar="FILE",
        help="Write metrics of the last run to this file, such as lakeport.prom, for Prometheus.",
        dir_okay=False,
    ),
]
RunId = Annotated[
    str | None,
    typer.Option(
        "--run-id", metavar="ID", help="Name of the run: repeating a run adds nothing twice."
    ),
]
SetKeys = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the config; repeat it for more."),
]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="spark|threads",
        help="Run tasks by Spark (the default), or by threads, which need no Java.",
    ),
]
SparkKeys = Annotated[
    list[str] | None,
    typer.Option("--spark", metavar="KEY=VALUE", help="Set a Spark option; repeat it for more."),
]
StatePath = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="FILE", help="Keep the durable STATE in this file.", dir_okay=False
    ),
]


TRANSFORM = "Transform and check rows"

Sql = Annotated[
    str | None,
    typer.Option(
        "--sql",
        metavar="QUERY",
        help="Land the result of this Spark SQL query on `source`.",
        rich_help_panel=TRANSFORM,
    ),
]
PythonFunction = Annotated[
    str | None,
    typer.Option(
        "--python",
        metavar="MODULE:FUNCTION",
        help="Land the Spark DataFrame that this function returns for the source's.",
        rich_help_panel=TRANSFORM,
    ),
]
Expect = Annotated[
    list[str] | None,
    typer.Option(
        "--expect",
        metavar="YAML",
        help="Check rows before they are committed, such as `not_null: id`; repeat it for more.",
        rich_help_panel=TRANSFORM,
    ),
]


def keyword_parameter(
    name: str, annotation: object, default: object = Parameter.empty
) -> Parameter:
    """Return a keyword-only parameter, from which typer makes a command's option."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def body_parameters(body: Callable[..., None]) -> list[Parameter]:
    """Return a function's parameters as keyword-only, without the first and any `**` one."""
    _, *own = signature(body, eval_str=True).parameters.values()
    own = [each for each in own if each.kind is not Parameter.VAR_KEYWORD]
    return [each.replace(kind=Parameter.KEYWORD_ONLY) for each in own]


def make_command(
    command: Callable[..., None], body: Callable[..., None], parameters: Sequence[Parameter]
) -> Callable[..., None]:
    """Give `command` these parameters and `body`'s name and docstring, for typer; return it."""
    command.__name__, command.__doc__ = body.__name__, body.__doc__
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return command


LAKE = "lake"
"""Parameter of a command for its lake: the argument or `--to`. For a table they differ."""
OMITTED = "\0"
"""A lake or table that is left out before other arguments; no command line can hold it."""


def is_place_omitted(given: Sequence[str], arguments: Sequence[Any], *, to: bool) -> bool:
    """Whether a command line leaves out its first argument, a lake or a table, but not others.

    Args:
        given: the arguments on the command line.
        arguments: click's parameters for them.
        to: whether `--to` is given; the environment may name a target, too.
    """
    from lakeport.config.load import environment_target

    if not 0 < len(given) < len(arguments):
        return False
    needed = len(given) <= sum(each.required for each in arguments)
    if to and needed:
        return True
    optional = needed or arguments[0].name == LAKE
    return optional and not _is_place(given[0]) and (to or environment_target() is not None)


def _is_place(text: str) -> bool:
    """Whether a text is a path, a URI or a config file, but neither a table's name nor SQL."""
    from lakeport.config.load import is_config_file

    if text in (".", "..", "~") or is_config_file(text, must_exist=False):
        return True
    return "/" in text and not any(map(str.isspace, text))


def choose_lake(lake: str | None, to: str | None) -> str | dict[str, str]:
    """Return the lake that an argument, `--to` or the environment names.

    Raises:
        ConfigError: both the argument and `--to` are given, or nothing names a lake.
    """
    from lakeport.config.load import environment_target, missing_target_error

    lake = None if lake == OMITTED else lake
    if lake is not None and to is not None:
        raise ConfigError(
            f"the argument {lake!r} and `--to {to}` both name the lake", "give one of them."
        )
    given = to if lake is None else lake
    target = environment_target() if given is None else given
    if target is None:
        raise missing_target_error()
    return target


def choose_table(
    table: str | None, to: str | None, keys: Mapping[str, Any]
) -> tuple[str, str | dict[str, str] | None]:
    """Return a table's name, folder or URI, and the target it is in or None.

    The environment's target counts without `--to`, unless the table is a path or URI. `keys` are
    further keys of the target.

    Raises:
        ConfigError: nothing names a table, or `--to` has the path of one beside it.
    """
    from lakeport.config.load import environment_target, is_config_file, load_target

    table = None if table == OMITTED else table
    if table is not None and (to is None and _is_place(table)):
        return table, None
    if table is not None and to is not None and table.startswith(("./", "../", "~")):
        raise ConfigError(
            f"the argument {table!r} is a path, and `--to {to}` names a target",
            "give the table's name below the target, or the path alone.",
        )
    target = environment_target() if to is None else to
    if table is not None:
        return table, target
    if isinstance(target, str) and not is_config_file(target, must_exist=False):
        return target, None
    name = None if target is None else load_target(target, keys).table
    if name is None or "{" in name:
        raise ConfigError(
            "no table is named",
            "name its folder or URI, or its name and the target with `--to` or in LAKEPORT_TO.",
        )
    return name, target


COMMON = (
    keyword_parameter("set_keys", SetKeys, None),
    keyword_parameter("json_out", JsonOut, False),
    keyword_parameter("debug", Debug, False),
)
"""Parameters of every command about a lake or a table."""


def internal_column_keys(left_out: bool, prefix: str | None) -> dict[str, Any]:
    """Return the config keys for `--no-internal-columns` and `--internal-columns`, if given.

    Raises:
        ConfigError: both are given.
    """
    if left_out and prefix is not None:
        raise ConfigError(
            "`--no-internal-columns` and `--internal-columns` exclude each other", "give one."
        )
    given = {"internal_columns": False if left_out else None, "internal_columns_prefix": prefix}
    return {key: value for key, value in given.items() if value is not None}


def collect_keys(
    options: Mapping[str, Any], set_keys: Iterable[str] | None, spark: Iterable[str] | None
) -> dict[str, Any]:
    """Return the config keys set by options, `--set` and `--spark`, under lakeport's names.

    Raises:
        ConfigError: a text has no `=`, or a key is given twice.
    """
    from lakeport.config.base import canonical_keys

    found = canonical_keys(options)
    settings = parse_pairs(spark, "--spark")
    if settings:
        found["spark"] = settings
    for key, value in parse_pairs(set_keys, "--set").items():
        name = next(iter(canonical_keys({key: value})), key)
        if name in found:
            raise ConfigError(
                f"`--set {key}` gives a key that another option gives too", "give one of them."
            )
        found[name] = value
    return found


def refuse_secrets(given: Mapping[str, Any], model: type[DestinationConfig]) -> None:
    """Raise ConfigError for secrets on a command line, as every user can read it.

    A reference such as `${file:/run/secrets/key}` is none. The hint says where to put secrets.
    """
    secrets = {key for key in given.keys() & model.secret_keys() if not is_reference(given[key])}
    for key in sorted(secrets):
        raise ConfigError(
            f"`{key}` is a secret, and other users can read a command line",
            f"put it in the config file, or in the environment as LAKEPORT_{key.upper()}; or give "
            f"a reference in quotes, such as `--set '{key}=${{file:/run/secrets/key}}'`.",
        )
    settings = given.get("spark")
    for name in sorted(settings if isinstance(settings, Mapping) else ()):
        if is_secret_name(name) and not is_reference((settings or {})[name]):
            raise ConfigError(
                f"the Spark setting {name!r} is a secret, and other users can read a command line",
                "put it under `spark:` in the config file.",
            )


def parse_pairs(
    texts: Iterable[str] | None, option: str, *, split_at_last: bool = False
) -> dict[str, str]:
    """Parse texts `key=value` to a dict, split at the first or last `=`; empty for None.

    Raises:
        ConfigError: a text has no `=`, or a key is given twice.
    """
    pairs: dict[str, str] = {}
    for text in texts or ():
        # A column's name may have the sign in it, and spaces around it; a type has none.
        key, equals, value = text.rpartition("=") if split_at_last else text.partition("=")
        key = key if split_at_last else key.strip()
        if not (key.strip() and equals):
            problem = "names no key" if equals else f"{text!r} has no value"
            raise ConfigError(f"`{option}` {problem}", f"write {option} key=value.")
        if key in pairs:
            raise ConfigError(f"`{option} {key}` is given twice", "give it once.")
        pairs[key] = value
    return pairs


def transform_options(
    sql: str | None,
    python: str | None,
    expect: Iterable[str] | None,
    *,
    no_expect: bool = False,
) -> dict[str, Any]:
    """Return the arguments of `lakeport.land` for `--sql`, `--python` and `--expect`, if given.

    Raises:
        ConfigError: an expectation is no YAML mapping, or `--no-expect` is given beside one.
    """
    if no_expect and expect:
        raise ConfigError("`--expect` and `--no-expect` exclude each other", "give one of them.")
    parsed = [_parse_expectation(text) for text in expect or ()]
    given = {"sql": sql, "python": python, "expect": parsed}
    found: dict[str, Any] = {name: value for name, value in given.items() if value}
    return {**found, "expect": ()} if no_expect else found


def _parse_expectation(text: str) -> dict[str, Any]:
    """Parse the YAML mapping of one `--expect`; raise ConfigError for other text."""
    import yaml

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(
            f"`--expect`: {text!r} is no mapping",
            "write it as in YAML: --expect 'not_null: [id, name]', or with `otherwise`: "
            "--expect '{check: \"price >= 0\", otherwise: quarantine}'.",
        )
    return found


def internal_columns_note(
    config: DestinationConfig, off_switch: str, report: LandingReport
) -> tuple[str, ...]:
    """Return a note on a new table's internal columns; () if the config sets their keys.

    The note names `off_switch`, the option or key that leaves them out.
    """
    mentioned = {"internal_columns", "internal_columns_prefix"} & config.model_fields_set
    is_new = any(stream.rows and not stream.first_version for stream in report.streams)
    if mentioned or not is_new:
        return ()
    from lakeport.shape import apply_header_case, list_internal_columns

    names = list_internal_columns(config.internal_columns_prefix)
    columns = " and ".join(apply_header_case(name, config.column_header_format) for name in names)
    return (f"{columns} tell when rows came and changed; `{off_switch}` leaves them out",)
