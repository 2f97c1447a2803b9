"""`lakeport land` and `lakeport plan`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from lakeport.cli.options import (
    Columns,
    Debug,
    Drop,
    EngineName,
    JsonOut,
    Rename,
    RunId,
    SetKeys,
    SparkKeys,
    StatePath,
    about_internal,
    column_keys,
    internal_keys,
    keys,
    refuse_secrets,
)
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.help import RUN_AGAIN, Guard
from lakeport.cli.page import PagePath, observed, page_of_plan
from lakeport.cli.rows import Expect, PythonFunction, Sql, transform_options
from lakeport.cli.sources import (
    Again,
    Cursor,
    DatabaseOptions,
    Deletes,
    Driver,
    FromDatabase,
    FromTable,
    FromTap,
    FullRefresh,
    Incremental,
    NewOnly,
    Ordered,
    Query,
    SourceName,
    SourceOptions,
    SplitBy,
    TableOf,
)
from lakeport.sources.csv.dialect import CsvOptions

_SOURCE = "How to read a source"
_POLICY = "What to do with the data"
_LEAVE_OUT = "--no-internal-columns"


def land(
    ctx: typer.Context,
    *,
    source: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE", help="Files, folders or globs; `-` reads Singer from stdin."
        ),
    ] = None,
    to: Annotated[
        str, typer.Option("--to", metavar="TARGET", help="A folder, a URI, or a config file.")
    ],
    table: Annotated[
        str | None, typer.Option("--table", help="Name of the table; default: the stream's.")
    ] = None,
    file_type: Annotated[
        str | None, typer.Option("--format", metavar="delta|parquet|csv", help="Format to write.")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option("--mode", metavar="append|overwrite|merge", help="Default: append."),
    ] = None,
    partition_by: Annotated[
        str | None, typer.Option("--partition-by", metavar="A,B", help="Columns to partition by.")
    ] = None,
    merge_keys: Annotated[
        str | None,
        typer.Option("--merge-keys", metavar="A,B", help="Columns that identify a row, to merge."),
    ] = None,
    columns: Columns = None,
    rename: Rename = None,
    drop: Drop = None,
    once: Annotated[
        bool, typer.Option("--once", help="Leave out files whose content the table has had.")
    ] = False,
    new_only: NewOnly = False,
    again: Again = None,
    ordered: Ordered = False,
    full_refresh: FullRefresh = False,
    run_id: RunId = None,
    json_out: JsonOut = False,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Show what would happen, and write nothing.")
    ] = False,
    state: StatePath = None,
    page: PagePath = None,
    sql: Sql = None,
    python: PythonFunction = None,
    expect: Expect = None,
    set_keys: SetKeys = None,
    spark: SparkKeys = None,
    engine: EngineName = None,
    debug: Debug = False,
    source_format: Annotated[
        str | None,
        typer.Option(
            "--source-format",
            metavar="FORMAT",
            help="csv, tsv, json, jsonl, parquet, arrow, orc, avro, xlsx or singer; default: by "
            "the name.",
            rich_help_panel=_SOURCE,
        ),
    ] = None,
    records_path: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="JSON: where the records are, such as data or result.items.",
            rich_help_panel=_SOURCE,
        ),
    ] = None,
    sheet: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Excel: which sheet; default: the first.", rich_help_panel=_SOURCE
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema", metavar="FILE", help="JSON Schema of the records.", rich_help_panel=_SOURCE
        ),
    ] = None,
    from_tap: FromTap = None,
    from_table: FromTable = None,
    incremental: Incremental = False,
    delimiter: Annotated[
        str | None, typer.Option(help="CSV: between fields.", rich_help_panel=_SOURCE)
    ] = None,
    quote: Annotated[
        str | None, typer.Option(help="CSV: around fields.", rich_help_panel=_SOURCE)
    ] = None,
    escape: Annotated[
        str | None, typer.Option(help="CSV: before a literal quote.", rich_help_panel=_SOURCE)
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="CSV: such as latin-1.", rich_help_panel=_SOURCE)
    ] = None,
    null_value: Annotated[
        list[str] | None,
        typer.Option(
            "--null-value", help="CSV: a text that means null; repeat it.", rich_help_panel=_SOURCE
        ),
    ] = None,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="CSV: no names.", rich_help_panel=_SOURCE)
    ] = False,
    names: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="A,B",
            help="CSV: names where there is no header.",
            rich_help_panel=_SOURCE,
        ),
    ] = None,
    skip_rows: Annotated[
        int | None,
        typer.Option(
            metavar="COUNT", help="CSV: lines before the header.", rich_help_panel=_SOURCE
        ),
    ] = None,
    comment: Annotated[
        str | None, typer.Option(help="CSV: begins lines to leave out.", rich_help_panel=_SOURCE)
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(help="CSV: decimal mark, . or ,", rich_help_panel=_SOURCE)
    ] = None,
    thousands: Annotated[
        str | None,
        typer.Option(help="CSV: between groups of digits; '' is none.", rich_help_panel=_SOURCE),
    ] = None,
    date_format: Annotated[
        str | None, typer.Option(help="CSV: such as %d/%m/%Y.", rich_help_panel=_SOURCE)
    ] = None,
    no_detect: Annotated[
        bool,
        typer.Option(
            "--no-detect", help="CSV: plain unless said otherwise.", rich_help_panel=_SOURCE
        ),
    ] = False,
    no_infer: Annotated[
        bool,
        typer.Option("--no-infer", help="CSV: all columns are text.", rich_help_panel=_SOURCE),
    ] = False,
    partition_columns: Annotated[
        str | None,
        typer.Option(
            metavar="auto|off",
            help="Whether folders name=value are columns; default: auto.",
            rich_help_panel=_SOURCE,
        ),
    ] = None,
    from_database: FromDatabase = None,
    table_of: TableOf = None,
    query: Query = None,
    cursor: Cursor = None,
    split_by: SplitBy = None,
    deletes: Deletes = None,
    source_name: SourceName = None,
    driver: Driver = None,
    delete_when: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Records that remove their row from the table: `Op = 'D'`.",
            rich_help_panel=_POLICY,
        ),
    ] = None,
    on_bad_record: Annotated[
        str | None,
        typer.Option(metavar="fail|quarantine", help="Default: fail.", rich_help_panel=_POLICY),
    ] = None,
    max_bad_records: Annotated[
        str | None,
        typer.Option(
            metavar="COUNT|SHARE",
            help="More bad records than this fail the load: 10, or 1%; default: any number.",
            rich_help_panel=_POLICY,
        ),
    ] = None,
    unknown_fields: Annotated[
        str | None,
        typer.Option(metavar="evolve|drop|fail", help="Default: evolve.", rich_help_panel=_POLICY),
    ] = None,
    schema_evolution: Annotated[
        str | None,
        typer.Option(
            metavar="evolve|strict|loose", help="Default: evolve.", rich_help_panel=_POLICY
        ),
    ] = None,
    no_internal_columns: Annotated[
        bool,
        typer.Option(
            _LEAVE_OUT,
            help="Leave out the two columns that tell when a row was landed.",
            rich_help_panel=_POLICY,
        ),
    ] = False,
    internal_prefix: Annotated[
        str | None,
        typer.Option(
            "--internal-columns",
            metavar="PREFIX",
            help="What the names of these two begin with; default: _mage_.",
            rich_help_panel=_POLICY,
        ),
    ] = None,
    give_up_after: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS",
            help="How long to ask a store that fails; default: 2m.",
            rich_help_panel=_POLICY,
        ),
    ] = None,
) -> None:
    """Land files, Singer streams from stdin, or tables of databases, in a data lake."""
    only_plan = plan_only or ctx.info_name == "plan"
    output = _output(json_out, state, source == ["-"])
    with Guard(output, debug, again="" if only_plan else RUN_AGAIN) as guard:
        output.begin("planning" if only_plan else "landing")
        from lakeport.config.load import load_target
        from lakeport.loading import plan, run

        given = keys(
            {
                "table": table,
                "file_type": file_type,
                "mode": mode,
                "partition_keys": partition_by,
                "merge_keys": merge_keys,
                "delete_when": delete_when,
                "hard_delete": True if delete_when else None,
                "once": True if once else None,
                "run_id": run_id,
                "on_bad_record": on_bad_record,
                "max_bad_records": max_bad_records,
                "partition_columns": partition_columns,
                "unknown_fields": unknown_fields,
                "schema_evolution": schema_evolution,
                "give_up_after": give_up_after,
                "engine": engine,
                **column_keys(columns, rename, drop),
                **internal_keys(no_internal_columns, internal_prefix),
            },
            set_keys,
            spark,
        )
        read_options = _read_options(
            source_format=source_format,
            records_path=records_path,
            sheet=sheet,
            schema=_schema(schema),
            csv=_csv(
                delimiter=delimiter,
                quote=quote,
                escape=escape,
                encoding=encoding,
                null_values=tuple(null_value) if null_value else None,
                header=False if no_header else None,
                columns=tuple(names.split(",")) if names else None,
                skip_rows=skip_rows,
                comment=comment,
                decimal=decimal,
                thousands=thousands,
                date_format=date_format,
                detect=False if no_detect else None,
                infer_types=False if no_infer else None,
            ),
        )
        read_options |= transform_options(sql, python, expect)
        if full_refresh:
            read_options["full_refresh"] = True
        config = load_target(to, given)
        guard.protect(config, to, set_keys)
        refuse_secrets(given, type(config))
        about = DatabaseOptions(
            from_database, table_of, query, cursor, split_by, deletes, source_name, driver
        )
        named = SourceOptions(
            source or [], new_only, again, ordered, about, from_tap, from_table, incremental
        )
        what = named.source(os.environ)
        if only_plan:
            found = plan.plan(what, config, **read_options)
            if page is not None:
                page_of_plan(found, page)
            output.plan(found)
        else:
            output.remarks = partial(about_internal, config, _LEAVE_OUT)
            run.land(what, config, observer=observed(output, page), **read_options)


def _output(json_out: bool, state: Path | None, streams_states: bool) -> Output:
    """Standard output carries one thing: JSON, else the STATE of a tap on stdin, else words."""
    if not state and (json_out or not streams_states):
        return Json() if json_out else Console()
    from lakeport.sources.singer.state import StateOutput

    if not state:
        return Console(sys.stderr, states=StateOutput(stream=sys.stdout.buffer).emit)
    sink = StateOutput(path=state).emit
    return Json(states=sink) if json_out else Console(states=sink)


def _read_options(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _schema(path: Path | None) -> Mapping[str, Any] | None:
    if path is None:
        return None
    from lakeport.sources.files.declared import declaration

    return declaration(path)


def _csv(**given: Any) -> CsvOptions | None:
    options = _read_options(**given)
    if not options:
        return None
    return CsvOptions(**options)
