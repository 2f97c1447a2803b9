"""Options that transform and check rows, and the command `lakeport quarantine`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeport.cli.options import (
    Debug,
    EngineName,
    JsonOut,
    SetKeys,
    SparkKeys,
    keys,
    refuse_secrets,
)
from lakeport.cli.output.console import Console, Json
from lakeport.cli.output.formatting import shown
from lakeport.cli.output.help import KEEP, LOOK, Guard, about, group
from lakeport.cli.tables import Invocation, Target, lake_command
from lakeport.errors import ConfigError
from lakeport.units import format_count, pluralize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakeport.loading.replay import Replayed, SetAside


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

Run = Annotated[str | None, typer.Option("--run", metavar="ID", help="Of this run alone.")]


def transform_options(
    sql: str | None,
    python: str | None,
    expect: Iterable[str] | None,
    *,
    no_expect: bool = False,
) -> dict[str, Any]:
    """Return the arguments of `lakeport.land` that these options stand for; none if not given.

    Raises:
        ConfigError: an expectation is no YAML mapping, or `--no-expect` is given beside one.
    """
    if no_expect and expect:
        raise ConfigError("`--expect` and `--no-expect` exclude each other", "give one of them.")
    given = {"sql": sql, "python": python, "expect": [_expectation(text) for text in expect or ()]}
    found: dict[str, Any] = {name: value for name, value in given.items() if value}
    return {**found, "expect": ()} if no_expect else found


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


quarantine = group("Look at what was set aside, and land it once it is right.")


@quarantine.command("show", **about(LOOK, "lakeport quarantine show ./lake flights --records 5"))
@lake_command
def show(
    lake: Invocation,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="Of this table.")] = None,
    run: Run = None,
    records: Annotated[
        int, typer.Option("--records", metavar="N", min=0, help="Print so many records, too.")
    ] = 0,
) -> None:
    """List what was set aside, with its reasons, by runs and streams."""
    from lakeport.destinations import open_storage
    from lakeport.loading import replay

    output, storage = lake.output, open_storage(lake.config)
    found = replay.list_quarantined(lake.config, storage, table or "", run or "")
    heads = [list(islice(replay.read_records(storage, one), records)) for one in found]
    if isinstance(output, Json):
        documents = [one.to_dict() for one in found]
        for document, head in zip(documents, heads, strict=True):
            document["first"] = [raw.decode("utf-8", "backslashreplace") for raw in head]
        output.document(documents)
        return
    if not found:
        output.say(f"nothing was set aside in {lake.name}")
    for one, head in zip(found, heads, strict=True):
        _tell(output, one, head)


def _tell(output: Console, one: SetAside, head: Sequence[bytes]) -> None:
    stream = shown(one.stream) or "lines of no stream"
    output.say(f"{stream}: {pluralize(one.records, 'record')} of run {shown(one.run_id)}")
    for reason in one.reasons:
        column = f"{shown(reason.column)}: " if reason.column else ""
        output.say(f"  {format_count(reason.count)}  {column}{shown(reason.reason)}", hanging=4)
    if one.samples:
        output.say(f"  {pluralize(one.samples, 'sample')} of rows for which the run failed")
    for file in one.files:
        output.say(f"  in {file}", hanging=5)
    for raw in head:
        output.say(f"  {shown(raw.decode('utf-8', 'backslashreplace'))}", hanging=2)


@quarantine.command(
    "replay",
    **about(
        KEEP,
        "lakeport quarantine replay ./lake a --run monday",
        "lakeport quarantine replay ./lake a --from b.jsonl",
    ),
)
def replay(
    target: Target,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table, by its name.")],
    run: Run = None,
    records_from: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="JSON lines with the corrected records."),
    ] = None,
    sql: Sql = None,
    python: PythonFunction = None,
    expect: Expect = None,
    no_expect: Annotated[
        bool,
        typer.Option(
            "--no-expect",
            help="Expect nothing of the rows; default: what a lake's file expects, or `--expect`.",
            rich_help_panel=TRANSFORM,
        ),
    ] = False,
    set_keys: SetKeys = None,
    spark: SparkKeys = None,
    engine: EngineName = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Land what was set aside, once; what fails again stays aside, with its new reason."""
    output = Json() if json_out else Console()
    with Guard(output, debug, again="the same command adds nothing twice.") as guard:
        output.begin("landing")
        from lakeport.config.load import load_target
        from lakeport.loading.replay import replay as replayed

        given = keys({"engine": engine}, set_keys, spark)
        config = load_target(target, given)
        guard.protect(config, target, set_keys)
        refuse_secrets(given, type(config))
        done = replayed(
            target,
            table,
            run=run or "",
            records_from=records_from or "",
            **transform_options(sql, python, expect, no_expect=no_expect),
            **given,
        )
        if isinstance(output, Json):
            output.document([one.to_dict() for one in done])
            return
        for one in done:
            output.say(_outcome(one), hanging=2)


def _outcome(one: Replayed) -> str:
    of = f"run {shown(one.run_id)}: {pluralize(one.records, 'record')}"
    if one.before:
        return f"{of}, replayed before: nothing was landed again"
    return (
        f"{of}, {pluralize(one.rows, 'row')} landed, {format_count(one.rejected)} set aside again"
    )
