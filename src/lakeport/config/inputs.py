"""Sources that need more than a name: files that are landed once, databases, taps and tables."""

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
from lakeport.config.explain import Problem, did_you_mean, reason
from lakeport.errors import ConfigError
from lakeport.scrub import find_secret_arguments, is_secret_name, scrub

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


_MOST: Final = 2  # types that are named, of those that are allowed

_EXTRAS = {"duckdb": "duckdb", "postgresql": "postgres", "sqlite": "sqlite"}

_PASSWORD = re.compile(r"(?i)\bpassword=([^;&\s]+)")


class Input(BaseModel):
    """Base of the descriptions: immutable and complete; a wrong value shows at once.

    Raises:
        ConfigError: naming every key that is wrong.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    what: ClassVar[str] = "the source"

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problem = _explained(type(self), error, values)
        else:
            return
        raise problem  # outside the handler: the foreign error holds the values as they came

    def secrets(self) -> tuple[str, ...]:
        """Every secret of the description, to remove from text that others wrote."""
        values = (getattr(self, key) for key in type(self).model_fields)
        each = chain.from_iterable(v if isinstance(v, tuple) else (v,) for v in values)
        return tuple(v.get_secret_value() for v in each if isinstance(v, SecretStr) and v)


def _explained(
    model: type[Input], error: ValidationError, values: Mapping[str, Any]
) -> ConfigError:
    about = {(field.alias or key): field.description for key, field in model.model_fields.items()}
    hint = "the keys are " + "; ".join(f"`{key}`: {text}" for key, text in about.items())
    problems = []
    for path, details in _by_path(error, values).items():
        key = ".".join(map(str, path)) or model.what
        own = f"`{path[0]}`: {about[path[0]]}" if path and path[0] in about else hint
        kinds = {detail["type"] for detail in details}
        if "extra_forbidden" in kinds:
            text = f"there is no key `{key}`{did_you_mean(key, about)}"
        elif "missing" in kinds:
            text = f"the key `{key}` is missing"
        else:
            text = f"{_named(path) or key} {_reasons(details)}"
        problems.append(Problem(path, scrub(text), own))
    explained = ConfigError("; ".join(problem.text for problem in problems), hint)
    explained.problems = tuple(problems)
    return explained


def _by_path(
    error: ValidationError, values: Mapping[str, Any]
) -> dict[tuple[str | int, ...], list[ErrorDetails]]:
    """Group a validation error's details by the keys that the user wrote; the innermost stay."""
    found: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        path = detail["loc"]
        path = path if detail["type"] == "missing" else tuple(_written(path, values))
        found.setdefault(path, []).append(detail)
    return {
        path: details
        for path, details in found.items()
        if not any(other[: len(path)] == path != other for other in found)
    }


def _written(path: tuple[str | int, ...], values: Any) -> Iterator[str | int]:
    """Keys and places in lists: where several types are allowed, their names are in a path, too."""
    for part in path:
        if isinstance(values, Mapping) and part in values:
            values = values[part]
        elif isinstance(values, (list, tuple)) and part in range(len(values)):
            values = values[int(part)]
        else:
            continue
        yield part


def _named(path: tuple[str | int, ...]) -> str:
    """A key, or an item of a list.

    >>> _named(("in", "size", 0))
    'item 1 of `in.size`'
    """
    if path and isinstance(path[-1], int):
        return f"item {path[-1] + 1} of {_named(path[:-1])}"
    return f"`{'.'.join(map(str, path))}`" if path else ""


def _reasons(details: Sequence[ErrorDetails]) -> str:
    words = list(dict.fromkeys(map(reason, details)))
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


class DatabaseSource(Input):
    """A table or a query of a database, whole or from where the table's last load ended."""

    database: SecretStr = Field(
        description="URI, such as postgresql://user@host/name, sqlite:///shop.db, duckdb:///a.db, "
        "jdbc:mysql://host/name."
    )
    table: str = Field(default="", description="The table to read, such as public.orders.")
    query: str = Field(default="", description="SQL to read in place of a table.")
    cursor: str = Field(
        default="",
        description="Column that grows with each change: only rows from its last value on are "
        "read.",
    )
    split_by: str = Field(
        default="", description="Column of numbers or times, by whose ranges tasks share the rows."
    )
    splits: int | None = Field(
        default=None, ge=1, description="How many ranges; default: by the cores."
    )
    deletes: Literal["none", "compare"] = Field(
        default="none",
        description="`compare`: rows whose keys the source does not have any more are marked as "
        "deleted, or removed with `hard_delete: true`.",
    )
    name: str = Field(
        default="",
        description="What the table remembers the source by; default: the table, or `query`.",
    )
    driver: str = Field(
        default="", description="An ADBC driver by name, where the URI does not tell."
    )
    options: Mapping[str, str] = Field(
        default_factory=dict, description="Options of the driver, as it calls them."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> DatabaseSource:
        if bool(self.table) == bool(self.query):
            raise ValueError("needs a `table` or a `query`, and not both")
        return self

    @property
    def stream(self) -> str:
        """What the source's rows are called, where the target does not say."""
        return self.name or self.table.rpartition(".")[2].strip('"') or "query"

    @property
    def extra(self) -> str:
        """The extra that brings its driver; empty where none does."""
        return (
            "" if self.driver else _EXTRAS.get(parse_scheme(self.database.get_secret_value()), "")
        )

    @property
    def is_jdbc(self) -> bool:
        """Whether Spark reads it, by a JDBC driver."""
        return parse_scheme(self.database.get_secret_value()) == "jdbc"

    def secrets(self) -> tuple[str, ...]:
        """Passwords in the URI and, with one, all of it; and what options hold that is secret."""
        uri = self.database.get_secret_value()
        found = [value for key, value in self.options.items() if is_secret_name(key)]
        with suppress(ValueError):
            split = urlsplit(uri)
            found += [split.password, unquote(split.password)] if split.password else []
            found += [value for key, value in parse_qsl(split.query) if is_secret_name(key)]
        found += _PASSWORD.findall(uri)
        return (*dict.fromkeys(found), uri) if found else ()


class FilesSource(Input):
    """Files, folders and globs, on a disk or in a store; only new ones if so wanted."""

    files: str | tuple[str, ...] = Field(
        description="Files, folders or globs, one or a list: paths or URIs."
    )
    new_only: bool = Field(
        default=False, description="Land only files that the table has not had yet."
    )
    again: Literal["fail", "land", "ignore"] = Field(
        default="fail",
        description="What to do, with `new_only`, with files that changed since they were landed.",
    )
    ordered: bool = Field(
        default=False,
        description="With `new_only`: names grow with time, as 2026/11/24/a.json do, so that the "
        "listing begins behind the last one that was seen; what comes later with a smaller name is "
        "not found.",
    )
    source_format: str = Field(
        default="",
        description="csv, tsv, json, jsonl, parquet, arrow, orc, avro, xlsx or singer; default: by "
        "the name.",
    )
    csv: Mapping[str, Any] = Field(
        default_factory=dict, description="How CSV files are written, such as `{delimiter: ';'}`."
    )
    columns_schema: str | Mapping[str, Any] | None = Field(
        default=None,
        alias="schema",
        description="JSON schema of the records, or column: type; or the file that holds one.",
    )
    records_path: str = Field(
        default="", description="JSON: where the records are, such as data or result.items."
    )
    sheet: str = Field(default="", description="Excel: which sheet; default: the first that shows.")

    @field_validator("files")
    @classmethod
    def _some(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not value or not all(value):
            raise ValueError("names no file, folder or glob")
        return value

    @model_validator(mode="after")
    def _only_with_new_only(self) -> FilesSource:
        for key in ("again", "ordered"):
            if key in self.model_fields_set and not self.new_only:
                raise ValueError(f"`{key}` is about files that were landed before: set `new_only`")
        return self

    @property
    def names(self) -> list[str]:
        """What `files` names, as a list."""
        return [self.files] if isinstance(self.files, str) else list(self.files)


class TablesSource(Input):
    """Delta tables: whole, or the rows that came since the target's last load."""

    tables: Mapping[str, str] = Field(
        min_length=1,
        description="Names for `sql`, and where each table is: a path or a URI. In a lake's file, "
        "a list of its loads.",
    )
    incremental: bool = Field(
        default=False, description="Only rows that came since the target's last load."
    )

    @property
    def jars(self) -> frozenset[str]:
        """Names in `spark.jvm.jars` of what Spark needs to read the tables."""
        schemes = {place.partition("://")[0] for place in self.tables.values() if "://" in place}
        others = {delta_destination(destination_for_scheme(scheme)) for scheme in schemes} - {""}
        found = {jar for name in others for jar in config_class(name).delta_jars}
        return frozenset({"delta", *found})

    @field_validator("tables", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """A list of places gets the names that their last parts are."""
        if isinstance(value, str):
            value = [value]
        if isinstance(value, (list, tuple)):
            return {str(place).rstrip("/").rpartition("/")[2]: str(place) for place in value}
        return value


class TapSource(Input):
    """A tap's command; the STATE that it gets is the one that the tables' commits hold."""

    tap: tuple[str, ...] = Field(
        min_length=1, description="The command, such as [tap-github, --config, tap.json]."
    )
    env: Mapping[str, str] = Field(
        default_factory=dict, description="Variables of its environment, beside the process's."
    )
    name: str = Field(
        default="",
        description="What the tables remember the tap by; default: the program's name. In a lake's "
        "file, the load's.",
    )
    folder: str = Field(
        default="",
        description="The folder in which it runs; default: the current one. In a lake's file, "
        "the file's.",
    )

    @property
    def program(self) -> str:
        """The program's name, without its folder."""
        return PurePath(self.tap[0]).name or self.tap[0]

    def secrets(self) -> tuple[str, ...]:
        """Values of the environment and of arguments that look like secrets by their names."""
        of_env = (value for name, value in self.env.items() if is_secret_name(name))
        return (*of_env, *find_secret_arguments(self.tap))
