"""The options that say what is made, and expected, of the rows that are landed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from lakeport.errors import ConfigError

TRANSFORM = "What is made and expected of the rows"

Sql = Annotated[
    str | None,
    typer.Option(
        "--sql",
        metavar="QUERY",
        help="Land the result of this Spark SQL on `source`.",
        rich_help_panel=TRANSFORM,
    ),
]
PythonFunction = Annotated[
    str | None,
    typer.Option(
        "--python",
        metavar="MODULE:FUNCTION",
        help="Land what this function makes of a Spark DataFrame.",
        rich_help_panel=TRANSFORM,
    ),
]
Expect = Annotated[
    list[str] | None,
    typer.Option(
        "--expect",
        metavar="YAML",
        help="Check rows before they are committed, such as `not_null: id`; repeat it.",
        rich_help_panel=TRANSFORM,
    ),
]


def transform_options(
    sql: str | None, python: str | None, expect: Iterable[str] | None
) -> dict[str, Any]:
    """The arguments of `lakeport.land` that these options stand for; none for those not given.

    Raises:
        ConfigError: an expectation is no YAML mapping.
    """
    found: dict[str, Any] = {}
    if sql:
        found["sql"] = sql
    if python:
        found["python"] = python
    if expect:
        found["expect"] = [_expectation(text) for text in expect]
    return found


def _expectation(text: str) -> dict[str, Any]:
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
