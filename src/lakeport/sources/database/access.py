"""How to reach a database, and a connection to it: the driver's, or one of a task's own.

A database's message may quote a value of a row. Of those about values only the fixed words of
known ones get through; all others are about names, permissions and connections.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from lakeport.config.sources import DatabaseSource, parse_scheme
from lakeport.errors import ConfigError, LakeportError, MissingDependency, SourceError
from lakeport.scrub import scrub

if TYPE_CHECKING:
    import pyarrow as pa


TOO_LONG: Final = "holds whole numbers of more than 38 digits"
"""What the query for a column says of values that no table can hold."""

_PLACE: Final = "see that the URI's host, port and database are right, and that this machine may "
_HINTS: Final = (
    (r"password authentication failed|no password supplied|28P01", "give the right user and "
     "password: in the URI, as ${NAME} from the environment, in PGPASSWORD or in ~/.pgpass."),
    (r'role ".*" does not exist|28000|pg_hba', "name another user, or have the database let this "
     "one in."),
    (r'database ".*" does not exist|3D000', "correct the database's name in the URI."),
    (r"could not translate host name|could not connect|connection refused|failed to connect|"
     r"timeout expired|no route to host|08\w\w\w", _PLACE + "reach them."),
    (r"terminating connection|server closed the connection|no connection to the server|"
     r"could not receive data|connection reset|57P0\d", "nothing of this load has landed; repeat "
     "it when the database is there again."),
    (r"canceling statement|57014", "raise the user's `statement_timeout`, or read less at once by "
     "`split_by` with more `splits`."),
    (r"permission denied|42501|28\w\w\w", "grant this user SELECT on the table, and USAGE on its "
     "schema."),
    (r"snapshot|25001", "the load's first connection broke off, and its snapshot with it: repeat "
     "the load."),
    (r"too many|53300|remaining connection slots", "let the database take more connections, or "
     "set fewer `splits`."),
    (r"could not set lock|conflicting lock|database is locked", "end what writes the file, or "
     "copy it first."),
    (TOO_LONG, "have a `query` that makes the column text: CAST(... AS VARCHAR)."),
    (r"does not exist|unable to open database|cannot open file|no such", "see that the file, the "
     "tables and the columns are there and are spelt so."),
)  # fmt: skip
_ABOUT_VALUES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"invalid input syntax for type [\w ]+",
        r"out of range for type [\w ]+|(integer|bigint|smallint|numeric) out of range",
        r"division by zero",
        r"numeric field overflow",
        r"array value with lower bound not in \{0, 1\} is not supported",
        r"cannot convert \w+ to \w+",
        r"invalid byte sequence for encoding",
        r"conversion error",
    )
)
_HARMLESS: Final = re.compile(
    r"terminating connection[\w ]*|canceling statement due to [\w ]*|no connection to the server"
    r"|server closed the connection unexpectedly|could not receive data from server[\w :]*"
    r"|permission denied for [\w \"]*|invalid snapshot identifier"
    r"|snapshot [\w\"-]* does not exist|SSL [\w ]*error[\w :]*|database is locked"
    r"|out of (shared )?memory"
    rf"|column ['\"].{{1,200}}['\"] {TOO_LONG}",
    re.IGNORECASE,
)
_NAMES: Final = re.compile(r"Failed to prepare|(Binder|Catalog|Parser|IO|Permission) Error:")
_STATE: Final = re.compile(r"SQLSTATE: (\w{5})")
_NAMING: Final = ("08", "0A", "0B", "25", "28", "3D", "3F", "42", "53", "54", "55", "57", "58")
_LONGEST: Final = 300

_ROWS: Final = 1 << 15
_BYTES: Final = 16 << 20

_WAITS: Final = {
    "connect_timeout": "30",
    "keepalives_idle": "60",
    "keepalives_interval": "10",
    "keepalives_count": "6",
}
"""Seconds until a silent host is given up: one that does not answer, and one that has gone since.

The system's own limit for the second is hours. Source: libpq's connection parameters, tcp(7).
"""
_VARIABLES: Final = {
    "USER": "user",
    "PASSWORD": "password",
    "PASSFILE": "passfile",
    "HOST": "host",
    "PORT": "port",
    "DATABASE": "dbname",
    "OPTIONS": "options",
    "SERVICE": "service",
    "SSLMODE": "sslmode",
    "SSLROOTCERT": "sslrootcert",
    "SSLCERT": "sslcert",
    "SSLKEY": "sslkey",
    "CONNECT_TIMEOUT": "connect_timeout",
}
"""libpq's variables, without the `PG` before them -> what a URI calls them."""
_SCHEMES: Final = "postgresql://user@host/name, sqlite:///path, duckdb:///path or jdbc:..."


@contextmanager
def named(place: str, secrets: Sequence[str]) -> Iterator[None]:
    """Raise what a driver raises as an error of ours.

    Args:
        place: what to call the database.
        secrets: what must not be in the message.

    Raises:
        SourceError: the driver raised.
    """
    try:
        yield
    except LakeportError:
        raise
    except Exception as error:
        if not _from_driver(error):
            raise
        found = _error(error, place, secrets)
    else:
        return
    raise found  # outside the handler: the foreign error's text may hold values


def _from_driver(error: Exception) -> bool:
    module = type(error).__module__
    return isinstance(error, OSError) or module.startswith(("adbc_driver_manager", "pyarrow"))


def _error(error: Exception, place: str, secrets: Sequence[str]) -> SourceError:
    text = str(error)
    state = getattr(error, "sqlstate", None) or next(iter(_STATE.findall(text)), "")
    words = scrub(_words(text, state or ""), secrets)
    hint = next((hint for pattern, hint in _HINTS if _about(pattern, words, state)), "")
    return SourceError(f"{place}: {words}", hint or "correct the `query`, the table or the URI.")


def _about(pattern: str, words: str, state: str | None) -> bool:
    return bool(re.search(pattern, f"{words} {state or ''}", re.IGNORECASE))


def _words(text: str, state: str) -> str:
    """What may be told of a message."""
    for pattern in _ABOUT_VALUES:
        if found := pattern.search(text):
            return f"a value of the query can't be read: {found[0].lower()}"
    if found := _HARMLESS.search(text):
        return found[0].strip()
    from_start = "Failed to connect" in text or "Failed to open" in text
    naming = _NAMES.search(text)
    if state[:2] in _NAMING or from_start or naming:
        return _first(text)
    return f"the database ended the query with an error{f' ({state})' if state else ''}"


def _first(text: str) -> str:
    """The message itself: not the query, and not the driver's own words before it."""
    for end in ("\nQuery was:", "\nquery:", "\nLINE ", "\nCandidate bindings:"):
        text = text.partition(end)[0]
    for mark in ("Failed to prepare query:", "Failed to connect:", "FATAL:", "ERROR:", "Error:"):
        before, found, after = text.partition(mark)
        text = after if found else before
    return " ".join(text.split())[:_LONGEST]


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a database. Pickled into tasks; as text it shows no secret.

    Attributes:
        place: what to call the database, without a secret.
        module: the Python package that brings the driver; empty for one by its name alone.
        extra: the extra of lakeport that brings that package.
        driver: what an ADBC driver is called where no package brings it.
        settings: what the driver takes to open the database.
        secrets: what must not be in any message.
    """

    place: str
    module: str = ""
    extra: str = ""
    driver: str = ""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @contextmanager
    def connected(self) -> Iterator[DatabaseSession]:
        """A connection, for as long as the body runs.

        Raises:
            MissingDependency: the driver is not installed.
            SourceError: the database can't be reached, or refuses.
        """
        with named(self.place, self.secrets):
            connection = self._connect()
        try:
            session = DatabaseSession(self, connection)
            yield session
        finally:
            session.close()

    def _connect(self) -> Any:
        try:
            manager = import_module("adbc_driver_manager.dbapi")
            module: Any = import_module(self.module) if self.module else None
        except ImportError as error:
            raise MissingDependency(
                f"reading {self.place} needs the package {error.name!r}, which is not installed",
                f"pip install 'lakeport[{self.extra or 'postgres'}]'"
                + ("" if self.extra else ", or whatever brings the driver and its manager."),
            ) from None
        settings = dict(self.settings)
        if self.module == "adbc_driver_duckdb":
            return manager.connect(
                driver=module.driver_path(),
                entrypoint="duckdb_adbc_init",
                db_kwargs=settings,
                autocommit=True,
            )
        driver = module._driver_path() if module is not None else self.driver
        return manager.connect(driver=driver, db_kwargs=settings, autocommit=True)


class DatabaseSession:
    """One connection: statements and queries, one after another."""

    def __init__(self, access: Access, connection: Any) -> None:
        self.access = access
        self._connection = connection

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a small answer; none of a statement that answers nothing.

        Raises:
            SourceError: the database refuses.
        """
        with self._cursor() as cursor:
            if self.access.module == "adbc_driver_postgresql":  # COPY takes no EXPLAIN
                cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute(query)
            table = cursor.fetch_arrow_table()
        columns = (column.to_pylist() for column in table.columns)  # names may come twice
        return list(zip(*columns, strict=True))

    def value(self, query: str) -> Any:
        """The one value of an answer."""
        return self.rows(query)[0][0]

    def schema(self, query: str) -> pa.Schema:
        """The columns of a query, which is not run where the driver can tell without.

        Raises:
            SourceError: the database refuses.
        """
        from adbc_driver_manager import NotSupportedError

        with self._cursor() as cursor:
            try:
                return cursor.adbc_execute_schema(query)
            except NotSupportedError:
                cursor.execute(query)
                with cursor.fetch_record_batch() as reader:
                    return reader.schema

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """A query's rows, as they come.

        Raises:
            SourceError: the database refuses, or the connection breaks.
        """
        with self._cursor() as cursor:
            cursor.execute(query)
            yield from _gathered(cursor.fetch_record_batch())

    def close(self) -> None:
        """End the connection, and with it whatever it holds."""
        self._connection.close()

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        with named(self.access.place, self.access.secrets), self._connection.cursor() as cursor:
            yield cursor


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of a size that is worth its overhead; some drivers' are small."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.concat_batches(waiting) if len(waiting) > 1 else batch
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def access_of(source: DatabaseSource) -> Access:
    """How to reach a source's database.

    Raises:
        ConfigError: the URI does not tell, or names a file that is not there.
    """
    uri = source.database.get_secret_value()
    scheme, options = parse_scheme(uri), dict(source.options)
    if source.driver:
        settings = {"uri": uri, **options} if uri else options
        place = f"the database of {source.driver!r}"
        return Access(place, driver=source.driver, settings=settings, secrets=source.secrets())
    if scheme == "postgresql":
        try:
            given, place = _surrounded(uri, os.environ), _place(uri)
        except ValueError:
            raise ConfigError(
                "the URI of the database is malformed", f"write {_SCHEMES}."
            ) from None
        return Access(
            place,
            "adbc_driver_postgresql",
            source.extra,
            settings={"uri": given, **options},
            secrets=(*source.secrets(), os.environ.get("PGPASSWORD", "")),
        )
    if scheme == "sqlite":
        file = _file(uri)
        settings = {"uri": f"{file.as_uri()}?mode=ro", **options}
        return Access(str(file), "adbc_driver_sqlite", source.extra, settings=settings)
    if scheme == "duckdb":
        file = _file(uri)
        settings = {"path": str(file), "access_mode": "READ_ONLY", **options}
        return Access(str(file), "adbc_driver_duckdb", source.extra, settings=settings)
    raise ConfigError(
        f"no driver is known for a database that begins with {scheme!r}",
        f"write {_SCHEMES}; or name an ADBC driver as `driver`.",
    )


def _place(uri: str) -> str:
    """Host, port and name: all of a server's URI that is neither a user nor a secret."""
    split = urlsplit(uri)
    host = split.netloc.rpartition("@")[2] or dict(parse_qsl(split.query)).get("host", "")
    return f"postgresql://{host}/{unquote(split.path.lstrip('/'))}".rstrip("/")


def _surrounded(uri: str, environment: Mapping[str, str]) -> str:
    """The URI with what libpq would take from this process's environment.

    Tasks may have another one. There is also an end to how long a silent host is waited for.

    >>> found = _surrounded("postgresql://me@db/shop", {"PGPASSWORD": "a b", "PGUSER": "you"})
    >>> found.partition("&keepalives")[0]
    'postgresql://me@db/shop?password=a%20b&connect_timeout=30'
    """
    split = urlsplit(uri)
    said = dict(parse_qsl(split.query))
    there = {
        "user": split.username,
        "password": split.password,
        "host": split.hostname,
        "dbname": split.path.lstrip("/"),
    }
    found = {
        key: environment[f"PG{name}"]
        for name, key in _VARIABLES.items()
        if environment.get(f"PG{name}") and not said.get(key) and not there.get(key)
    }
    if ":" in split.netloc.rpartition("@")[2]:
        found.pop("port", None)
    waits = {key: value for key, value in _WAITS.items() if key not in {**said, **found}}
    more = urlencode(found | waits, quote_via=quote)
    plain, _, query = uri.partition("?")
    return f"{plain}?{query}{'&' * bool(query)}{more}"


def _file(uri: str) -> Path:
    """The file of `sqlite:///relative`, `sqlite:////absolute` or `sqlite:path`."""
    path = uri.partition(":")[2]
    path = path[3:] if path.startswith("///") else path
    if not path or path.startswith("//") or path == ":memory:":
        raise ConfigError(
            "the URI names no file",
            f"write {parse_scheme(uri)}:///shop.db for a file in this folder, and "
            f"{parse_scheme(uri)}:////data/shop.db for one by its whole path.",
        )
    file = Path(path).absolute()
    if not file.is_file():
        raise ConfigError(f"there is no file {str(file)!r}", "correct the path in the URI.")
    return file
