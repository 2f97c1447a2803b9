"""Sources with options: files that are landed once, databases, Singer taps and Delta tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from lakeport.config.base import config_class, delta_destination, destination_for_scheme
from lakeport.config.explain import Problem, describe_value_error, did_you_mean
from lakeport.errors import ConfigError
from lakeport.scrub import find_secret_arguments, is_secret_name, scrub

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


_MOST: Final = 2  # types that an error names, of those that are allowed

_EXTRAS = {"duckdb": "duckdb", "postgresql": "postgres", "sqlite": "sqlite"}

_PASSWORD = re.compile(r"(?i)\bpassword=([^;&\s]+)")


class ConfigPart(BaseModel):
    """Base class of sources, expectations and the like: immutable, validated on creation.

    Raises:
        ConfigError: it names every wrong key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    label: ClassVar[str] = "the source"
    """Name of the config part in errors that concern no single key."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problem = _part_error(type(self), error, values)
        else:
            return
        raise problem  # outside the handler: the foreign error holds the values as they came

    def secrets(self) -> tuple[str, ...]:
        """Return all secret values, for masking them in logs and errors."""
        values = (getattr(self, key) for key in type(self).model_fields)
        each = chain.from_iterable(v if isinstance(v, tuple) else (v,) for v in values)
        return tuple(v.get_secret_value() for v in each if isinstance(v, SecretStr) and v)


def _part_error(
    model: type[ConfigPart], error: ValidationError, values: Mapping[str, Any]
) -> ConfigError:
    """Convert pydantic's error to one `ConfigError` with every problem, secrets masked."""
    about = {(field.alias or key): field.description for key, field in model.model_fields.items()}
    hint = "the keys are " + "; ".join(f"`{key}`: {text}" for key, text in about.items())
    problems = []
    for path, details in _details_by_path(error, values).items():
        key = ".".join(map(str, path)) or model.label
        own = f"`{path[0]}`: {about[path[0]]}" if path and path[0] in about else hint
        kinds = {detail["type"] for detail in details}
        if "extra_forbidden" in kinds:
            text = f"there is no key `{key}`{did_you_mean(key, about)}"
        elif "missing" in kinds:
            text = f"the key `{key}` is missing"
        else:
            text = f"{_path_text(path) or key} {_join_reasons(details)}"
        problems.append(Problem(path, scrub(text), own))
    explained = ConfigError("; ".join(problem.text for problem in problems), hint)
    explained.problems = tuple(problems)
    return explained


def _details_by_path(
    error: ValidationError, values: Mapping[str, Any]
) -> dict[tuple[str | int, ...], list[ErrorDetails]]:
    """Group pydantic's errors by path in the user's values; drop paths above another one."""
    found: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        path = detail["loc"]
        path = path if detail["type"] == "missing" else tuple(_existing_parts(path, values))
        found.setdefault(path, []).append(detail)
    return {
        path: details
        for path, details in found.items()
        if not any(other[: len(path)] == path != other for other in found)
    }


def _existing_parts(path: tuple[str | int, ...], values: Any) -> Iterator[str | int]:
    """Yield the parts of pydantic's path that exist in `values`; skip its type names."""
    for part in path:
        if isinstance(values, Mapping) and part in values:
            values = values[part]
        elif isinstance(values, (list, tuple)) and part in range(len(values)):
            values = values[int(part)]
        else:
            continue
        yield part


def _path_text(path: tuple[str | int, ...]) -> str:
    """Describe a path as a key or a list's item; empty for an empty path.

    >>> _path_text(("in", "size", 0))
    'item 1 of `in.size`'
    """
    if path and isinstance(path[-1], int):
        return f"item {path[-1] + 1} of {_path_text(path[:-1])}"
    return f"`{'.'.join(map(str, path))}`" if path else ""


def _join_reasons(details: Sequence[ErrorDetails]) -> str:
    """Join a value's errors with "or"; use one general phrase for more than two."""
    words = list(dict.fromkeys(map(describe_value_error, details)))
    if len(words) > _MOST:
        return "has to be one value: text, a number, true or false, a date or a time"
    return " or ".join([words[0], *(word.removeprefix("has to be ") for word in words[1:])])


def parse_scheme(uri: str) -> str:
    """Return a URI's scheme in lower case; `postgres` becomes `postgresql`.

    >>> parse_scheme("postgres://host/db"), parse_scheme("jdbc:mysql://host/db")
    ('postgresql', 'jdbc')
    """
    scheme = re.split(r"[:+]", uri, maxsplit=1)[0].lower()
    return "postgresql" if scheme == "postgres" else scheme


class DatabaseSource(ConfigPart):
    """A database's table or query to load: all rows, or those after the last load's cursor."""

    database: SecretStr = Field(
        description="URI, such as postgresql://user@host/name, sqlite:///shop.db, duckdb:///a.db, "
        "jdbc:mysql://host/name."
    )
    table: str = Field(default="", description="The table to read, such as public.orders.")
    query: str = Field(default="", description="SQL to read in place of a table.")
    cursor: str = Field(
        default="",
        description="Column whose value grows with each change: only rows from the last load's "
        "value on are read.",
    )
    split_by: str = Field(
        default="", description="Column of numbers or times to split the rows by, among tasks."
    )
    splits: int | None = Field(
        default=None, ge=1, description="Number of ranges of `split_by`; default: by the cores."
    )
    deletes: Literal["none", "compare"] = Field(
        default="none",
        description="`compare`: mark rows as deleted, or remove them with `hard_delete: true`, "
        "when their keys are gone from the source.",
    )
    name: str = Field(
        default="",
        description="Name under which the table keeps the source's cursor; default: the source's "
        "table, or `query`.",
    )
    driver: str = Field(
        default="", description="Name of an ADBC driver, if the URI's scheme does not tell it."
    )
    options: Mapping[str, str] = Field(
        default_factory=dict, description="Options of the driver, by its names."
    )

    @model_validator(mode="after")
    def _check_table_or_query(self) -> DatabaseSource:
        """Raise ValueError unless exactly one of `table` and `query` is set."""
        if bool(self.table) == bool(self.query):
            raise ValueError("needs a `table` or a `query`, and not both")
        return self

    @property
    def stream(self) -> str:
        """Name of the source's stream: `name`, the table's name without schema, or "query"."""
        return self.name or self.table.rpartition(".")[2].strip('"') or "query"

    @property
    def extra(self) -> str:
        """Lakeport's pip extra for the database; empty if none has its driver."""
        return (
            "" if self.driver else _EXTRAS.get(parse_scheme(self.database.get_secret_value()), "")
        )

    @property
    def is_jdbc(self) -> bool:
        """Whether Spark reads the database with a JDBC driver."""
        return parse_scheme(self.database.get_secret_value()) == "jdbc"

    def secrets(self) -> tuple[str, ...]:
        """Return passwords in the URI and options; if there are any, the whole URI, too."""
        uri = self.database.get_secret_value()
        found = [value for key, value in self.options.items() if is_secret_name(key)]
        with suppress(ValueError):
            split = urlsplit(uri)
            found += [split.password, unquote(split.password)] if split.password else []
            found += [value for key, value in parse_qsl(split.query) if is_secret_name(key)]
        found += _PASSWORD.findall(uri)
        return (*dict.fromkeys(found), uri) if found else ()


class FilesSource(ConfigPart):
    """Files, folders and globs to load, on a disk or in a store; all of them, or only new ones."""

    files: str | tuple[str, ...] = Field(
        description="Files, folders or globs, one or a list: paths or URIs."
    )
    new_only: bool = Field(
        default=False, description="Load only files that the table has not loaded yet."
    )
    again: Literal["fail", "land", "ignore"] = Field(
        default="fail",
        description="With `new_only`: what to do with files that changed since they were loaded.",
    )
    ordered: bool = Field(
        default=False,
        description="With `new_only`: list only names behind the last one loaded, for names that "
        "grow with time, such as 2026/11/24/a.json; later files with smaller names are missed.",
    )
    source_format: str = Field(
        default="",
        description="Format of the files: csv, tsv, json, jsonl, parquet, arrow, orc, avro, xlsx "
        "or singer; default: by the files' names.",
    )
    csv: Mapping[str, Any] = Field(
        default_factory=dict, description="CSV options, such as `{delimiter: ';'}`."
    )
    columns_schema: str | Mapping[str, Any] | None = Field(
        default=None,
        alias="schema",
        description="Types of the columns: a JSON schema, column: type, or a file with either.",
    )
    records_path: str = Field(
        default="", description="JSON: path of the records, such as data or result.items."
    )
    sheet: str = Field(
        default="",
        description="Excel: name of the sheet, or `*` for all visible ones, each in a table of its "
        "own; default: the first visible one.",
    )
    sheet_column: str = Field(
        default="",
        description="Excel: column that gets the sheet's name; `*` lands in one table then.",
    )
    infer_dates: bool = Field(
        default=False,
        description="JSON: make texts that are all ISO dates or times date and timestamp, nested "
        "ones, too.",
    )

    @field_validator("files")
    @classmethod
    def _check_files(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        """Return `files` unchanged; raise ValueError for an empty list or empty name."""
        if not value or not all(value):
            raise ValueError("names no file, folder or glob")
        return value

    @model_validator(mode="after")
    def _check_new_only(self) -> FilesSource:
        """Raise ValueError if `again` or `ordered` is set without `new_only`."""
        for key in ("again", "ordered"):
            if key in self.model_fields_set and not self.new_only:
                raise ValueError(f"`{key}` is about files that were landed before: set `new_only`")
        return self

    @property
    def names(self) -> list[str]:
        """`files` as a list."""
        return [self.files] if isinstance(self.files, str) else list(self.files)


class TablesSource(ConfigPart):
    """Delta tables to load: all rows, or those added since the target's last load."""

    tables: Mapping[str, str] = Field(
        min_length=1,
        description="A table's name in `sql` -> its path or URI. In a lake's file, also a list of "
        "its loads.",
    )
    incremental: bool = Field(
        default=False, description="Load only rows that were added since the target's last load."
    )

    @property
    def jars(self) -> frozenset[str]:
        """Jars that Spark needs to read the tables, by their names in `spark.jvm.jars`."""
        schemes = {place.partition("://")[0] for place in self.tables.values() if "://" in place}
        others = {delta_destination(destination_for_scheme(scheme)) for scheme in schemes} - {""}
        found = {jar for name in others for jar in config_class(name).delta_jars}
        return frozenset({"delta", *found})

    @field_validator("tables", mode="before")
    @classmethod
    def _name_tables(cls, value: Any) -> Any:
        """Convert a path or a list to a mapping, by each path's last part; others unchanged."""
        if isinstance(value, str):
            value = [value]
        if isinstance(value, (list, tuple)):
            return {str(place).rstrip("/").rpartition("/")[2]: str(place) for place in value}
        return value


class TapSource(ConfigPart):
    """The command of a Singer tap, which gets the STATE that the target's commits hold."""

    tap: tuple[str, ...] = Field(
        min_length=1, description="The command, such as [tap-github, --config, tap.json]."
    )
    env: Mapping[str, str] = Field(
        default_factory=dict,
        description="Environment variables of the tap, beside those of this process.",
    )
    name: str = Field(
        default="",
        description="Name under which the tables keep the tap's STATE; default: the program's "
        "name. In a lake's file, the load's.",
    )
    folder: str = Field(
        default="",
        description="Working folder of the tap; default: the current one. In a lake's file, "
        "the file's.",
    )

    @property
    def program(self) -> str:
        """Name of the tap's program, without its folder."""
        return PurePath(self.tap[0]).name or self.tap[0]

    def secrets(self) -> tuple[str, ...]:
        """Return values of variables and arguments whose names sound secret."""
        in_env = (value for name, value in self.env.items() if is_secret_name(name))
        return (*in_env, *find_secret_arguments(self.tap))
