"""`lakeport land` and `lakeport plan`: their options come from the classes of what they set."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from inspect import Parameter
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lakeport.cli.options import (
    Debug,
    EngineName,
    JsonOut,
    RunId,
    SetKeys,
    SparkKeys,
    StatePath,
    about_internal,
    declare,
    internal_keys,
    keys,
    own_parameters,
    pairs,
    parameter,
    refuse_secrets,
)
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.help import RUN_AGAIN, Guard
from lakeport.cli.pages import PagePath, observed
from lakeport.cli.rows import Expect, PythonFunction, Sql, transform_options
from lakeport.config.base import DestinationConfig
from lakeport.config.files import expand
from lakeport.config.load import load_target
from lakeport.config.sources import DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.errors import ConfigError
from lakeport.host.scratch import write_output
from lakeport.sources.csv.dialect import CsvOptions

_NO_INTERNAL = "--no-internal-columns"

_READING = "How to read a source"


class Key(NamedTuple):
    """An option that gives one key of a class.

    Attributes:
        name: the key.
        option: the option; default: the key with hyphens.
        metavar: what stands for its value; default: by the key's type.
        help: default: the key's description, with its default.
        kind: the type of its value on the command line; of a switch `bool`.
        gives: the key's value where a switch is given.
    """

    name: str
    option: str = ""
    metavar: str = ""
    help: str = ""
    kind: object = str
    gives: bool = True

    @property
    def argument(self) -> str:
        """The option as a name in Python."""
        return (self.option or self.name).lstrip("-").replace("-", "_")


class KeyOptions(NamedTuple):
    """Options of a command for keys of one class, under one heading of its help; empty for none."""

    model: type[BaseModel] | None
    heading: str
    keys: tuple[Key, ...]

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters by which typer makes the options."""
        for key in self.keys:
            found = self.model.model_fields[key.name] if self.model else FieldInfo()
            option = typer.Option(
                f"--{key.argument.replace('_', '-')}",
                metavar=None if key.kind is bool else key.metavar or _metavar(found.annotation),
                help=key.help or _help(found, repeated=key.kind == list[str]),
                rich_help_panel=self.heading or None,
            )
            switch = key.kind is bool
            kind: Any = bool if switch else key.kind | None  # type: ignore[operator]
            yield parameter(key.argument, Annotated[kind, option], False if switch else None)

    def given(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys that a command line gives, with their values."""
        told = {key: arguments[key.argument] for key in self.keys}
        return {
            key.name: key.gives if value is True else value
            for key, value in told.items()
            if not (value is None or value is False or value == [])
        }


def _metavar(annotation: Any) -> str | None:
    """Name an option's value by its key's type: choices, names with commas; None for others."""
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    if isinstance(annotation, UnionType):
        return _metavar(get_args(annotation)[0])
    if get_origin(annotation) is tuple:
        return "A,B"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return "|".join(annotation)
    return None


def _help(field: FieldInfo, *, repeated: bool) -> str:
    """Return a key's description, with its default if it has one that says something."""
    about, default = field.description or "", field.default
    if repeated:
        return f"{about} Repeat it for more."
    if "default" in about or not isinstance(default, (str, float)) or not default:
        return about
    shown = default if isinstance(default, str) else f"{default:g}"
    return f"{about.removesuffix('.')}; default: {shown}."


_TABLE = KeyOptions(
    DestinationConfig,
    "",
    (
        Key("table"),
        Key("file_type", "--format", help="Format of the table."),
        Key("mode"),
        Key("partition_keys", "--partition-by"),
        Key("merge_keys"),
    ),
)
_COLUMNS = KeyOptions(
    DestinationConfig,
    "Columns, by the source's names",
    (
        Key("columns", "--column", "NAME=TYPE", kind=list[str]),
        Key("rename", metavar="OLD=NEW", kind=list[str]),
        Key("drop", metavar="NAME", kind=list[str]),
    ),
)
_ONCE = KeyOptions(DestinationConfig, "", (Key("once", kind=bool),))
_NEW_FILES = KeyOptions(
    FilesSource,
    "Only new files",
    (Key("new_only", kind=bool), Key("again"), Key("ordered", kind=bool)),
)
_FORMAT = KeyOptions(
    FilesSource,
    _READING,
    (
        Key("source_format", metavar="FORMAT"),
        Key("records_path", metavar="PATH"),
        Key("sheet", metavar="NAME"),
        Key("columns_schema", "--schema", "FILE"),
    ),
)
_CSV = KeyOptions(
    None,
    _READING,
    (
        Key("delimiter", help="CSV: between fields."),
        Key("quote", help="CSV: around fields."),
        Key("escape", help="CSV: before a literal quote."),
        Key("encoding", help="CSV: such as latin-1."),
        Key(
            "null_values",
            "--null-value",
            help="CSV: a text that means null; repeat it.",
            kind=list[str],
        ),
        Key("header", "--no-header", help="CSV: no names.", kind=bool, gives=False),
        Key("columns", metavar="A,B", help="CSV: names where there is no header."),
        Key("skip_rows", metavar="COUNT", help="CSV: lines before the header.", kind=int),
        Key("comment", help="CSV: begins lines to leave out."),
        Key("decimal", help="CSV: decimal mark, . or ,"),
        Key("thousands", help="CSV: between groups of digits; '' is none."),
        Key("date_format", help="CSV: such as %d/%m/%Y."),
        Key(
            "detect",
            "--no-detect",
            help="CSV: plain unless said otherwise.",
            kind=bool,
            gives=False,
        ),
        Key("infer_types", "--no-infer", help="CSV: all columns are text.", kind=bool, gives=False),
    ),
)
_FOLDERS = KeyOptions(DestinationConfig, _READING, (Key("partition_columns"),))
_TAP = KeyOptions(
    TapSource,
    "Taps and tables",
    (
        Key(
            "tap",
            "--from-tap",
            "COMMAND",
            "Start a Singer tap with the STATE that the tables hold, as one text: "
            "'tap-github --config tap.json'.",
        ),
    ),
)
_TABLES = KeyOptions(
    TablesSource,
    "Taps and tables",
    (
        Key(
            "tables",
            "--from-table",
            "PLACE",
            "A Delta table, by its folder or URI; repeat it for several, with --sql.",
            list[str],
        ),
        Key("incremental", kind=bool),
    ),
)
_DATABASE = KeyOptions(
    DatabaseSource,
    "Databases",
    (
        Key(
            "database",
            "--from-database",
            "URI",
            "Read a database: postgresql://me@host/shop, sqlite:///shop.db, duckdb:///shop.db or "
            "what begins with jdbc: or a driver takes; passwords come from the environment.",
        ),
        Key("table", "--table-of", "NAME"),
        Key("query", metavar="SQL"),
        Key("cursor", metavar="COLUMN"),
        Key("split_by", metavar="COLUMN"),
        Key("deletes"),
        Key("name", "--source-name", "NAME"),
        Key("driver", metavar="NAME"),
    ),
)
_POLICY = KeyOptions(
    DestinationConfig,
    "What to do with the data",
    (
        Key(
            "delete_when",
            metavar="CONDITION",
            help="Records that remove their row from the table: `Op = 'D'`.",
        ),
        Key("on_bad_record"),
        Key("max_bad_records", metavar="COUNT|SHARE"),
        Key("unknown_fields"),
        Key("schema_evolution"),
        Key(
            "internal_columns",
            _NO_INTERNAL,
            help="Leave out the two columns that tell when a row was landed.",
            kind=bool,
            gives=False,
        ),
        Key("internal_columns_prefix", "--internal-columns", "PREFIX"),
        Key("give_up_after", metavar="SECONDS"),
    ),
)
_CONFIG = (_TABLE, _COLUMNS, _ONCE, _FOLDERS, _POLICY)


def _land(
    ctx: typer.Context,
    source: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE", help="Files, folders or globs; `-` reads Singer from stdin."
        ),
    ] = None,
    *,
    to: Annotated[
        str, typer.Option("--to", metavar="TARGET", help="A folder, a URI, or a config file.")
    ],
    full_refresh: Annotated[
        bool,
        typer.Option(
            "--full-refresh",
            help="Replace the table by what the source has, whatever was landed of it before.",
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
    debug: Debug = False,
    **arguments: Any,
) -> None:
    """Land files, Singer streams from stdin, or tables of databases, in a data lake."""
    only_plan = plan_only or ctx.info_name == "plan"
    output = _output(json_out, state, source == ["-"])
    with Guard(output, debug, again="" if only_plan else RUN_AGAIN) as guard:
        output.begin("planning" if only_plan else "landing")
        given = keys(
            {**_config_keys(arguments), "run_id": run_id, "engine": engine}, set_keys, spark
        )
        reading = _reading(arguments) | transform_options(sql, python, expect)
        if full_refresh:
            reading["full_refresh"] = True
        config = load_target(to, given)
        guard.protect(config, to, set_keys)
        refuse_secrets(given, type(config))
        what = source_of(source or [], arguments, os.environ)
        if only_plan:
            from lakeport.loading.plan import plan

            found = plan(what, config, **reading)
            if page is not None:
                from lakeport.pages.file import build_plan_file

                write_output(build_plan_file(found.to_dict()).html, page)
            output.plan(found)
        else:
            from lakeport.loading import run

            output.remarks = partial(about_internal, config, _NO_INTERNAL)
            run.land(what, config, observer=observed(output, page), **reading)


def _parameters() -> list[Parameter]:
    """Return what `land` takes, in the order of its help."""
    ctx = parameter("ctx", typer.Context)
    source, to, *own = own_parameters(_land)
    before = (_TABLE, _COLUMNS, _ONCE, _NEW_FILES)
    after = (_FORMAT, _CSV, _FOLDERS, _TAP, _TABLES, _DATABASE, _POLICY)
    first, last = (
        [each for group in groups for each in group.parameters()] for groups in (before, after)
    )
    return [ctx, source, to, *first, *own, *last]


def land() -> Callable[..., None]:
    """Return the command, with all its options in its signature."""

    def command(*, ctx: typer.Context, **arguments: Any) -> None:
        _land(ctx, **arguments)

    return declare(command, _land, _parameters())


def _config_keys(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config keys of a command line.

    Raises:
        ConfigError: a text without `=`, a column given twice, or options that exclude each other.
    """
    given = {key: value for group in _CONFIG for key, value in group.given(arguments).items()}
    for key, option in (("columns", "--column"), ("rename", "--rename")):
        if key in given:
            given[key] = pairs(given[key], option, last=True)
    internal_keys("internal_columns" in given, given.get("internal_columns_prefix"))
    if given.get("delete_when"):
        given["hard_delete"] = True
    return given


def _reading(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `lakeport.land` that say how a source is read."""
    given = _FORMAT.given(arguments)
    if file := given.pop("columns_schema", ""):
        from lakeport.sources.files.declared_columns import load_declaration

        given["schema"] = load_declaration(Path(file))
    csv = _CSV.given(arguments)
    if csv.get("columns"):
        csv["columns"] = csv["columns"].split(",")
    if csv:
        texts = {key: tuple(value) for key, value in csv.items() if isinstance(value, list)}
        given["csv"] = CsvOptions(**{**csv, **texts})
    return given


def _output(json_out: bool, state: Path | None, streams_states: bool) -> Output:
    """Standard output carries one thing: JSON, else the STATE of a tap on stdin, else words."""
    if not state and (json_out or not streams_states):
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
"""Kind of source -> its options, the key that names it, and two phrases for errors about it."""


def source_of(
    names: list[str], arguments: Mapping[str, Any], environment: Mapping[str, str]
) -> Any:
    """Return the one source of a command line, as `lakeport.land` takes it.

    Args:
        names: files.
        arguments: the other options.
        environment: what `${NAME}` in a database's URI is taken from.

    Raises:
        ConfigError: it names none or several, or an option is about a kind that it does not.
    """
    given = {kind: group.given(arguments) for kind, (group, *_) in _KINDS.items()}
    kind = _kind(names, given)
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


def _kind(names: list[str], given: Mapping[str, Mapping[str, Any]]) -> str:
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
    """Return the database that a command line names.

    Raises:
        ConfigError: an option is wrong, or the URI holds a password.
    """
    if any("${" not in secret for secret in DatabaseSource(**given).secrets()):
        raise ConfigError(
            "the URI holds a password, and other users can read a command line",
            "write ${NAME} in its place, in single quotes, and set that variable; or use "
            "PGPASSWORD or ~/.pgpass for PostgreSQL.",
        )
    uri = expand(given["database"], environment, "--from-database")
    return DatabaseSource(**{**given, "database": uri})


def _tap(command: str) -> TapSource:
    """Return the tap that a command line names.

    Raises:
        ConfigError: quotes in it are not closed, or it is empty.
    """
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
