"""`lakeport quarantine`: list rejected records, and load them again."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeport.cli.options import (
    TRANSFORM,
    Debug,
    EngineName,
    Expect,
    JsonOut,
    LogFormatName,
    PythonFunction,
    SetKeys,
    SparkKeys,
    Sql,
    choose_lake,
    collect_keys,
    refuse_secrets,
    transform_options,
)
from lakeport.cli.output.console import Console, Json
from lakeport.cli.output.formatting import format_value
from lakeport.cli.output.help import KEEP, LOOK, Guard, command_help, make_group
from lakeport.cli.tables import Invocation, LakeName, LakeOption, lake_command
from lakeport.schema.hints import format_command
from lakeport.units import format_count, pluralize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakeport.loading.corrections import RejectedRecord
    from lakeport.loading.replay import Replayed, SetAside


Run = Annotated[str | None, typer.Option("--run", metavar="ID", help="Only records of this run.")]


quarantine = make_group("List rejected records, and land them once they are corrected.")


@quarantine.command(
    "show", **command_help(LOOK, "lakeport quarantine show ./lake flights --records 5")
)
@lake_command
def show(
    lake: Invocation,
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="Only records for this table.")
    ] = None,
    run: Run = None,
    records: Annotated[
        int, typer.Option("--records", metavar="N", min=0, help="Also print the first N records.")
    ] = 0,
) -> None:
    """List rejected records that were set aside, with reasons, by run and stream."""
    from lakeport.destinations import open_storage
    from lakeport.loading import replay

    output, storage = lake.output, open_storage(lake.config)
    found = replay.list_quarantined(lake.config, storage, table or "", run or "")
    heads = [list(islice(replay.read_records(storage, one), records)) for one in found]
    if isinstance(output, Json):
        documents = [one.to_dict() for one in found]
        for document, head in zip(documents, heads, strict=True):
            document["first"] = [one.raw.decode("utf-8", "backslashreplace") for one in head]
        output.document(documents)
        return
    if not found:
        output.say(f"nothing was set aside in {lake.name}")
    for one, head in zip(found, heads, strict=True):
        _print_records(output, one, head)


def _print_records(output: Console, one: SetAside, head: Sequence[RejectedRecord]) -> None:
    """Print a run's rejected records of one stream: counts by reason, files, first ones."""
    stream = format_value(one.stream) or "lines of no stream"
    count, replayed = pluralize(one.records, "record"), ", replayed" if one.replayed else ""
    output.say(f"{stream}: {count} of run {format_value(one.run_id)}{replayed}")
    for reason in one.reasons:
        column = f"{format_value(reason.column)}: " if reason.column else ""
        output.say(
            f"  {format_count(reason.count)}  {column}{format_value(reason.reason)}", hanging=4
        )
    if one.samples:
        output.say(f"  {pluralize(one.samples, 'sample')} of rows for which the run failed")
    for file in one.files:
        output.say(f"  in {file}", hanging=5)
    for record in head:
        place = f"line {record.line}, " if record.line else ""
        column = f"{format_value(record.column)}: " if record.column else ""
        output.say(f"  {place}{column}{format_value(record.reason)}", hanging=2)
        output.say(f"    {format_value(record.raw.decode('utf-8', 'backslashreplace'))}", hanging=2)


@quarantine.command(
    "export",
    **command_help(KEEP, "lakeport quarantine export ./lake flights rejected.csv"),
)
@lake_command
def export(
    lake: Invocation,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new CSV file.")],
    run: Run = None,
) -> None:
    """Write rejected records with their reasons to a CSV file, to correct and replay them."""
    from lakeport.loading.replay import export_quarantined

    records = export_quarantined(lake.config, table, file, run=run or "")
    if isinstance(lake.output, Json):
        lake.output.document({"file": str(file), "records": records})
        return
    again = format_command("quarantine", "replay", lake.name, table, "--from", str(file))
    lake.output.say(
        f"{pluralize(records, 'record')} written to {format_value(str(file))}; correct the cells, "
        f"and {again} lands them"
    )


@quarantine.command(
    "replay",
    **command_help(
        KEEP,
        "lakeport quarantine replay ./lake a --run monday",
        "lakeport quarantine replay ./lake a --from b.csv",
    ),
)
def replay(
    lake: LakeName = None,
    *,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")],
    to: LakeOption = None,
    run: Run = None,
    records_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Corrected records: the CSV file of `export`, or JSON lines.",
        ),
    ] = None,
    sql: Sql = None,
    python: PythonFunction = None,
    expect: Expect = None,
    no_expect: Annotated[
        bool,
        typer.Option(
            "--no-expect",
            help="Check no expectations; default: those of a lake file, or of `--expect`.",
            rich_help_panel=TRANSFORM,
        ),
    ] = False,
    set_keys: SetKeys = None,
    spark: SparkKeys = None,
    engine: EngineName = None,
    log_format: LogFormatName = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Land records that were set aside, once; those that fail again stay, with the new reason."""
    output = Json() if json_out else Console()
    with Guard(output, debug, again="the same command adds nothing twice.") as guard:
        output.begin("landing")
        from lakeport.config.load import load_target
        from lakeport.loading.replay import replay as replayed

        given = collect_keys({"engine": engine}, set_keys, spark)
        target = choose_lake(lake, to)
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
    """Return a line about a replayed run: rows landed, and records rejected again."""
    subject = f"run {format_value(one.run_id)}: {pluralize(one.records, 'record')}"
    if one.before:
        return f"{subject}, replayed before: nothing was landed again"
    rejected = f"{format_count(one.rejected)} set aside again"
    if one.rejected and one.report is not None:
        rejected += f", as of run {format_value(one.report.run_id)}"
    return f"{subject}, {pluralize(one.rows, 'row')} landed, {rejected}"
