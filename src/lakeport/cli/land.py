"""`lakeport land` and `lakeport plan`, with options made from the config classes' fields."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from enum import StrEnum
from functools import partial
from inspect import Parameter, cleandoc
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from lakeport.cli.options import (
    Debug,
    EngineName,
    Expect,
    JsonOut,
    LogFormatName,
    MetricsFile,
    PythonFunction,
    RunId,
    SetKeys,
    SparkKeys,
    Sql,
    StatePath,
    body_parameters,
    choose_lake,
    collect_keys,
    internal_column_keys,
    internal_columns_note,
    keyword_parameter,
    make_command,
    parse_pairs,
    refuse_secrets,
    transform_options,
)
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.help import RUN_AGAIN, Guard
from lakeport.cli.pages import PagePath, with_page
from lakeport.cli.telemetry import write_metrics
from lakeport.config.base import DestinationConfig
from lakeport.config.files import expand
from lakeport.config.load import load_target
from lakeport.config.sources import DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.errors import ConfigError
from lakeport.host.scratch import write_output
from lakeport.sources.csv.dialect import CsvOptions

_NO_INTERNAL = "--no-internal-columns"

_READING = "How to read a source"


class KeyOption(NamedTuple):
    """A command-line option for one key of a config class.

    Attributes:
        name: the key.
        option: the option's name; default: the key with hyphens.
        metavar: placeholder of its value in help texts; default: by the key's type.
        help: help text; default: the key's description, with its default value.
        kind: type of its value on the command line; `bool` for a switch.
        gives: the key's value if a switch is given.
    """

    name: str
    option: str = ""
    metavar: str = ""
    help: str = ""
    kind: object = str
    gives: bool = True

    @property
    def argument(self) -> str:
        """Name of the command's Python parameter for the option."""
        return (self.option or self.name).lstrip("-").replace("-", "_")

    def placeholder(self, annotation: Any) -> str:
        """Return the value's placeholder: `metavar`, else by the key's type, else the name."""
        return self.metavar or _metavar(annotation) or self.argument.upper()


class KeyOptions(NamedTuple):
    """Command-line options for keys of one config class, with their heading in the help."""

    fields: Mapping[str, FieldInfo]
    heading: str
    keys: tuple[KeyOption, ...]

    def parameters(self) -> Iterator[Parameter]:
        """Yield a function parameter for each option, annotated for typer."""
        for key in self.keys:
            field = self.fields[key.name]
            option = typer.Option(
                f"--{key.argument.replace('_', '-')}",
                metavar=None if key.kind is bool else key.placeholder(field.annotation),
                help=key.help or _help_text(field, repeated=key.kind == list[str]),
                rich_help_panel=self.heading or None,
            )
            switch = key.kind is bool
            kind: Any = bool if switch else key.kind | None  # type: ignore[operator]
            yield keyword_parameter(
                key.argument, Annotated[kind, option], False if switch else None
            )

    def read_keys(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the config keys that are given on a command line, with their values."""
        values = {key: arguments[key.argument] for key in self.keys}
        return {
            key.name: key.gives if value is True else value
            for key, value in values.items()
            if not (value is None or value is False or value == [])
        }


def _metavar(annotation: Any) -> str | None:
    """Return an option's placeholder in the help: its choices, "A,B" for a list; else None."""
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    if isinstance(annotation, UnionType):
        return _metavar(get_args(annotation)[0])
    if get_origin(annotation) is tuple:
        return "A,B"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return "|".join(annotation)
    return None


def _help_text(field: FieldInfo, *, repeated: bool) -> str:
    """Return a key's description and, if it is text or a number, its default value."""
    about, default = field.description or "", field.default
    if repeated:
        return f"{about} Repeat it for more."
    if "default" in about or not isinstance(default, (str, float)) or not default:
        return about
    shown = default if isinstance(default, str) else f"{default:g}"
    return f"{about.removesuffix('.')}; default: {shown}."


def _csv_fields() -> dict[str, FieldInfo]:
    """Return the fields of `CsvOptions`, with descriptions from the class's docstring."""
    text = cleandoc(CsvOptions.__doc__ or "")
    about = dict(re.findall(r"^    (\w+): (.+(?:\n {5,}.+)*)", text, re.MULTILINE))
    words = {each.name: about.get(each.name, "").split() for each in fields(CsvOptions)}
    return {name: FieldInfo(description=" ".join(["CSV:", *each])) for name, each in words.items()}


_DESTINATION, _FILES = DestinationConfig.model_fields, FilesSource.model_fields
_TABLE = KeyOptions(
    _DESTINATION,
    "",
    (
        KeyOption("table"),
        KeyOption("file_type", "--format", help="Format of the table."),
        KeyOption("mode"),
        KeyOption("partition_keys", "--partition-by"),
        KeyOption("merge_keys"),
    ),
)
_COLUMNS = KeyOptions(
    _DESTINATION,
    "Columns, by the source's names",
    (
        KeyOption("columns", "--column", "NAME=TYPE", kind=list[str]),
        KeyOption("rename", metavar="OLD=NEW", kind=list[str]),
        KeyOption("drop", metavar="NAME", kind=list[str]),
    ),
)
_ONCE = KeyOptions(_DESTINATION, "", (KeyOption("once", kind=bool),))
_NEW_FILES = KeyOptions(
    _FILES,
    "Only new files",
    (KeyOption("new_only", kind=bool), KeyOption("again"), KeyOption("ordered", kind=bool)),
)
_FORMAT = KeyOptions(
    _FILES,
    _READING,
    (
        KeyOption("source_format", metavar="FORMAT"),
        KeyOption("records_path", metavar="PATH"),
        KeyOption("infer_dates", kind=bool),
        KeyOption("sheet", metavar="NAME"),
        KeyOption("sheet_column", metavar="NAME"),
        KeyOption("columns_schema", "--schema", "FILE"),
    ),
)
_CSV = KeyOptions(
    _csv_fields(),
    _READING,
    (
        KeyOption("delimiter"),
        KeyOption("quote"),
        KeyOption("escape"),
        KeyOption("encoding"),
        KeyOption("null_values", "--null-value", kind=list[str]),
        KeyOption(
            "header", "--no-header", help="CSV: the file has no header.", kind=bool, gives=False
        ),
        KeyOption("columns", metavar="A,B"),
        KeyOption("skip_rows", metavar="COUNT", kind=int),
        KeyOption("comment"),
        KeyOption("decimal"),
        KeyOption("thousands"),
        KeyOption("currency"),
        KeyOption("date_format"),
        KeyOption(
            "detect",
            "--no-detect",
            help="CSV: assume commas, quotes and UTF-8; detect nothing.",
            kind=bool,
            gives=False,
        ),
        KeyOption(
            "infer_types", "--no-infer", help="CSV: make all columns text.", kind=bool, gives=False
        ),
    ),
)
_FOLDERS = KeyOptions(_DESTINATION, _READING, (KeyOption("partition_columns"),))
_TAP = KeyOptions(
    TapSource.model_fields,
    "Taps and tables",
    (
        KeyOption(
            "tap",
            "--from-tap",
            "COMMAND",
            "Run a Singer tap with the STATE that the tables keep; the command is one text: "
            "'tap-github --config tap.json'.",
        ),
    ),
)
_TABLES = KeyOptions(
    TablesSource.model_fields,
    "Taps and tables",
    (
        KeyOption(
            "tables",
            "--from-table",
            "PLACE",
            "A Delta table's folder or URI; repeat it for several, with --sql.",
            list[str],
        ),
        KeyOption("incremental", kind=bool),
    ),
)
_DATABASE = KeyOptions(
    DatabaseSource.model_fields,
    "Databases",
    (
        KeyOption(
            "database",
            "--from-database",
            "URI",
            "Read a database: postgresql://me@host/shop, sqlite:///shop.db, duckdb:///shop.db, a "
            "jdbc: URI or one of a driver; passwords come from the environment.",
        ),
        KeyOption("table", "--table-of", "NAME"),
        KeyOption("query", metavar="SQL"),
        KeyOption("cursor", metavar="COLUMN"),
        KeyOption("split_by", metavar="COLUMN"),
        KeyOption("deletes"),
        KeyOption("name", "--source-name", "NAME"),
        KeyOption("driver", metavar="NAME"),
    ),
)
_POLICY = KeyOptions(
    _DESTINATION,
    "What to do with the data",
    (
        KeyOption(
            "delete_when",
            metavar="CONDITION",
            help="Records to delete from the table, such as `Op = 'D'`.",
        ),
        KeyOption("on_bad_record"),
        KeyOption("max_bad_records", metavar="COUNT|SHARE"),
        KeyOption("unknown_fields"),
        KeyOption("schema_evolution"),
        KeyOption(
            "internal_columns",
            _NO_INTERNAL,
            help="Leave out the two columns with the times when a row was added and changed.",
            kind=bool,
            gives=False,
        ),
        KeyOption("internal_columns_prefix", "--internal-columns", "PREFIX"),
        KeyOption("give_up_after", metavar="SECONDS"),
    ),
)
_CONFIG = (_TABLE, _COLUMNS, _ONCE, _FOLDERS, _POLICY)


def _land(
    ctx: typer.Context,
    source: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE", help="Files, folders or globs; `-` reads Singer messages from stdin."
        ),
    ] = None,
    *,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TARGET", help="The lake: a folder, a URI, or a config file."),
    ] = None,
    full_refresh: Annotated[
        bool,
        typer.Option(
            "--full-refresh",
            help="Read the source from the beginning, and replace the table's rows.",
        ),
    ] = False,
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
    metrics_file: MetricsFile = None,
    log_format: LogFormatName = None,
    debug: Debug = False,
    show_values: Annotated[
        bool,
        typer.Option(
            "--show-values",
            help="Show the text that can't be read, as a terminal does, also where stderr is none.",
        ),
    ] = False,
    **arguments: Any,
) -> None:
    """Land files, Singer streams from stdin, or tables of databases, in a data lake."""
    only_plan = plan_only or ctx.info_name == "plan"
    output = _output(json_out, state, source == ["-"])
    output.shows_values = show_values
    with (
        Guard(output, debug, again="" if only_plan else RUN_AGAIN) as guard,
        write_metrics(None if only_plan else metrics_file, output.warn) as reports,
    ):
        output.begin("planning" if only_plan else "landing")
        given = collect_keys(
            {**_config_keys(arguments), "run_id": run_id, "engine": engine}, set_keys, spark
        )
        reading = _reader_arguments(arguments) | transform_options(sql, python, expect)
        if full_refresh:
            reading["full_refresh"] = True
        target = choose_lake(None, to)
        config = load_target(target, given)
        guard.protect(config, target, set_keys)
        refuse_secrets(given, type(config))
        chosen = choose_source(source or [], arguments, os.environ)
        if only_plan:
            from lakeport.loading.plan import plan

            planned = plan(chosen, config, **reading)
            if page is not None:
                from lakeport.pages.file import build_plan_file

                write_output(build_plan_file(planned.to_dict()).html, page)
            output.plan(planned)
        else:
            from lakeport.loading import run

            output.remarks = partial(internal_columns_note, config, _NO_INTERNAL)
            observer = with_page(output, page)
            reports.append(run.land(chosen, config, observer=observer, **reading))


def land() -> Callable[..., None]:
    """Return the function of the command `land`, with a parameter for every option."""

    def command(*, ctx: typer.Context, **arguments: Any) -> None:
        _land(ctx, **arguments)

    ctx = keyword_parameter("ctx", typer.Context)
    source, to, *own = body_parameters(_land)
    before = (_TABLE, _COLUMNS, _ONCE, _NEW_FILES)
    after = (_FORMAT, _CSV, _FOLDERS, _TAP, _TABLES, _DATABASE, _POLICY)
    first, last = (
        [each for group in groups for each in group.parameters()] for groups in (before, after)
    )
    return make_command(command, _land, [ctx, source, to, *first, *own, *last])


def _config_keys(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config keys that options set; ConfigError for wrong or contradictory options."""
    given = {key: value for group in _CONFIG for key, value in group.read_keys(arguments).items()}
    for key, option in (("columns", "--column"), ("rename", "--rename")):
        if key in given:
            given[key] = parse_pairs(given[key], option, split_at_last=True)
    internal_column_keys("internal_columns" in given, given.get("internal_columns_prefix"))
    if given.get("delete_when"):
        given["hard_delete"] = True
    return given


def _reader_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return `lakeport.land`'s arguments for reading: format, schema, CSV options."""
    given = _FORMAT.read_keys(arguments)
    if file := given.pop("columns_schema", ""):
        from lakeport.sources.files.declared_columns import load_declaration

        given["schema"] = load_declaration(Path(file))
    csv = _CSV.read_keys(arguments)
    if csv.get("columns"):
        csv["columns"] = csv["columns"].split(",")
    if csv:
        texts = {key: tuple(value) for key, value in csv.items() if isinstance(value, list)}
        given["csv"] = CsvOptions(**{**csv, **texts})
    return given


def _output(json_out: bool, state: Path | None, reads_stdin: bool) -> Output:
    """Return the command's printer; if Singer STATE goes to stdout, it prints to stderr."""
    if not state and (json_out or not reads_stdin):
        return Json() if json_out else Console()
    from lakeport.sources.singer.state import StateOutput

    if not state:
        return Console(sys.stderr, states=StateOutput(stream=sys.stdout.buffer).emit)
    sink = StateOutput(path=state).emit
    return Json(states=sink) if json_out else Console(states=sink)


_KINDS = {
    "files": (_NEW_FILES, "", "files", "files"),
    "--from-database": (_DATABASE, "database", "a database", "one with `--from-database`"),
    "--from-tap": (_TAP, "tap", "a tap", "one with `--from-tap`"),
    "--from-table": (_TABLES, "tables", "a table", "one with `--from-table`"),
}
"""Kind of source -> its options, the key that names it, and two phrases for error messages."""


def choose_source(
    names: list[str], arguments: Mapping[str, Any], environment: Mapping[str, str]
) -> Any:
    """Build the one source that a command line names, as an argument of `lakeport.land`.

    `names` are files, folders or globs; the environment is for `${NAME}` in a database's URI.

    Raises:
        ConfigError: it names none or several, or an option belongs to another kind of source.
    """
    given = {kind: group.read_keys(arguments) for kind, (group, *_) in _KINDS.items()}
    kind = _source_kind(names, given)
    for other, (group, key, about, how) in _KINDS.items():
        for each in group.keys:
            if other != kind and each.name != key and given[other].get(each.name):
                raise ConfigError(
                    f"`--{each.argument.replace('_', '-')}` is about {about}, and the command line "
                    "names none",
                    f"name {how}, or leave the option out.",
                )
    own = given[kind]
    if kind == "--from-database":
        return _database(own, environment)
    if kind == "--from-tap":
        return _tap(own["tap"])
    if kind == "--from-table":
        return TablesSource(**own)
    if own.get("new_only"):
        return FilesSource(files=tuple(names), **own)
    for option in own:
        raise ConfigError(
            f"`--{option}` is about files that were landed before",
            "give it with `--new-only`, or leave it out.",
        )
    return names[0] if len(names) == 1 else names


def _source_kind(names: list[str], given: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the kind of source on a command line; ConfigError for none or several."""
    named = [
        kind
        for kind, (_, key, *_) in _KINDS.items()
        if (names if kind == "files" else key in given[kind])
    ]
    if not named:
        raise ConfigError(
            "no source is named",
            "name files, folders or globs, `-` for Singer from stdin, `--from-database`, "
            "`--from-tap` or `--from-table`.",
        )
    if len(named) > 1:
        seen = f": {names[0]!r}" if names else ""
        first, second = (name if name == "files" else f"`{name}`" for name in named[:2])
        raise ConfigError(f"both {first} and {second} are named{seen}", "land one after the other.")
    return named[0]


def _database(given: dict[str, Any], environment: Mapping[str, str]) -> DatabaseSource:
    """Build a database source from options; ConfigError if they are wrong or hold a password."""
    if any("${" not in secret for secret in DatabaseSource(**given).secrets()):
        raise ConfigError(
            "the URI holds a password, and other users can read a command line",
            "write ${NAME} in its place, in single quotes, and set that variable; or use "
            "PGPASSWORD or ~/.pgpass for PostgreSQL.",
        )
    uri = expand(given["database"], environment, "--from-database")
    return DatabaseSource(**{**given, "database": uri})


def _tap(command: str) -> TapSource:
    """Build a tap source from a command; ConfigError if that is empty or has an open quote."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise ConfigError(
            "`--from-tap` has a text which is no command: it is empty, or a quote is not closed",
            "write it as in a shell, within quotes: 'tap-github --config tap.json'.",
        )
    return TapSource(tap=tuple(words))
