"""Connect to databases by ADBC, and turn drivers' errors into errors without values of rows.

A database's message may quote a value of a row. Messages about values are replaced by the fixed
words of known ones. Messages about names, permissions and connections are kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
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
"""The message of the query for a DuckDB column with values that no table can hold."""

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
"""libpq's timeouts, in seconds: for connecting, and for noticing that the server has gone.

Without keepalives the system takes hours. Source: libpq's connection parameters, tcp(7).
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
"""libpq's environment variables, without the prefix `PG` -> the URI's parameters."""
_SCHEMES: Final = "postgresql://user@host/name, sqlite:///path, duckdb:///path or jdbc:..."


@contextmanager
def translate_driver_errors(address: str, secrets: Sequence[str]) -> Iterator[None]:
    """Context manager: re-raise a database driver's errors as SourceError; other errors pass.

    Args:
        secrets: texts that must not be in the message.
    """
    try:
        yield
    except LakeportError:
        raise
    except Exception as error:
        module = type(error).__module__
        from_driver = module.startswith(("adbc_driver_manager", "pyarrow"))
        if not from_driver and not isinstance(error, OSError):
            raise
        found = _make_source_error(error, address, secrets)
    else:
        return
    raise found  # outside the handler: the foreign error's text may hold values


def _make_source_error(error: Exception, address: str, secrets: Sequence[str]) -> SourceError:
    """Build a SourceError with a hint from a driver's error; it quotes no row value or secret."""
    text = str(error)
    state = getattr(error, "sqlstate", None) or next(iter(_STATE.findall(text)), "")
    words = scrub(_get_safe_message(text, state), secrets)
    known = f"{words} {state}"
    hints = (hint for pattern, hint in _HINTS if re.search(pattern, known, re.IGNORECASE))
    hint = next(hints, "")
    return SourceError(f"{address}: {words}", hint or "correct the `query`, the table or the URI.")


def _get_safe_message(message: str, sqlstate: str) -> str:
    """Return the part of a driver's message that can't quote row values, else a generic message."""
    for pattern in _ABOUT_VALUES:
        if found := pattern.search(message):
            return f"a value of the query can't be read: {found[0].lower()}"
    if found := _HARMLESS.search(message):
        return found[0].strip()
    from_start = "Failed to connect" in message or "Failed to open" in message
    naming = _NAMES.search(message)
    if sqlstate[:2] in _NAMING or from_start or naming:
        return _strip_query(message)
    return f"the database ended the query with an error{f' ({sqlstate})' if sqlstate else ''}"


def _strip_query(message: str) -> str:
    """Strip the query and the driver's prefix from an error message; cut it to 300 characters."""
    for end in ("\nQuery was:", "\nquery:", "\nLINE ", "\nCandidate bindings:"):
        message = message.partition(end)[0]
    for mark in ("Failed to prepare query:", "Failed to connect:", "FATAL:", "ERROR:", "Error:"):
        before, found, after = message.partition(mark)
        message = after if found else before
    return " ".join(message.split())[:_LONGEST]


@dataclass(frozen=True, slots=True)
class DatabaseAccess:
    """A database's address, driver and settings. Picklable for tasks; its repr hides secrets.

    Attributes:
        address: the database's name in messages and bookmarks, without secrets.
        module: the Python package with the driver; empty if the driver is loaded by its name.
        extra: the extra of lakeport that installs that package.
        driver: the driver's name, if no package has it.
        secrets: texts that must not be in any message.
    """

    address: str
    module: str = ""
    extra: str = ""
    driver: str = ""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @contextmanager
    def connect(self) -> Iterator[DatabaseSession]:
        """Context manager: open a connection, yield its session, and close it at the end.

        Raises:
            MissingDependency: the driver is not installed.
            SourceError: the database refuses the connection.
        """
        with translate_driver_errors(self.address, self.secrets):
            connection = self._connect()
        with closing(connection):  # this ends its transaction and snapshot, too
            yield DatabaseSession(self, connection)

    def _connect(self) -> Any:
        """Open an ADBC connection; MissingDependency if the driver's package is not installed."""
        try:
            manager = import_module("adbc_driver_manager.dbapi")
            module: Any = import_module(self.module) if self.module else None
        except ImportError as error:
            raise MissingDependency(
                f"reading {self.address} needs the package {error.name!r}, which is not installed",
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
    """A connection to a database, which runs one query or statement at a time."""

    def __init__(self, access: DatabaseAccess, connection: Any) -> None:
        self.access = access
        self._connection = connection

    def fetch_rows(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query or statement and return all rows as tuples; raise SourceError if it fails."""
        with self._cursor() as cursor:
            if self.access.module == "adbc_driver_postgresql":  # COPY takes no EXPLAIN
                cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute(query)
            table = cursor.fetch_arrow_table()
        columns = (column.to_pylist() for column in table.columns)  # names may come twice
        return list(zip(*columns, strict=True))

    def fetch_value(self, query: str) -> Any:
        """Return the first value of a query's first row; raise IndexError without a row."""
        return self.fetch_rows(query)[0][0]

    def fetch_schema(self, query: str) -> pa.Schema:
        """Return the schema of a query's result, without running it where the driver can."""
        from adbc_driver_manager import NotSupportedError

        with self._cursor() as cursor:
            try:
                return cursor.adbc_execute_schema(query)
            except NotSupportedError:
                cursor.execute(query)
                with cursor.fetch_record_batch() as reader:
                    return reader.schema

    def fetch_batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Run a query and stream its rows, with small batches merged; SourceError if it fails."""
        with self._cursor() as cursor:
            cursor.execute(query)
            yield from _rebatch(cursor.fetch_record_batch())

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """Context manager that opens a cursor and turns its driver's errors into SourceError."""
        with (
            translate_driver_errors(self.access.address, self.access.secrets),
            self._connection.cursor() as cursor,
        ):
            yield cursor


def _rebatch(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge small batches: each has at least 32,768 rows or 16 MiB; the last may have less."""
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


def make_access(source: DatabaseSource) -> DatabaseAccess:
    """Make the settings to connect to a source; ConfigError for a bad URI or a missing file."""
    uri = source.database.get_secret_value()
    scheme, options = parse_scheme(uri), dict(source.options)
    if source.driver:
        settings = {"uri": uri, **options} if uri else options
        address = f"the database of {source.driver!r}"
        return DatabaseAccess(
            address, driver=source.driver, settings=settings, secrets=source.secrets()
        )
    if scheme == "postgresql":
        try:
            given, address = _add_environment(uri, os.environ), _name_server(uri)
        except ValueError:
            raise ConfigError(
                "the URI of the database is malformed", f"write {_SCHEMES}."
            ) from None
        return DatabaseAccess(
            address,
            "adbc_driver_postgresql",
            source.extra,
            settings={"uri": given, **options},
            secrets=(*source.secrets(), os.environ.get("PGPASSWORD", "")),
        )
    if scheme == "sqlite":
        file = _find_file(uri)
        settings = {"uri": f"{file.as_uri()}?mode=ro", **options}
        return DatabaseAccess(str(file), "adbc_driver_sqlite", source.extra, settings=settings)
    if scheme == "duckdb":
        file = _find_file(uri)
        settings = {"path": str(file), "access_mode": "READ_ONLY", **options}
        return DatabaseAccess(str(file), "adbc_driver_duckdb", source.extra, settings=settings)
    raise ConfigError(
        f"no driver is known for a database that begins with {scheme!r}",
        f"write {_SCHEMES}; or name an ADBC driver as `driver`.",
    )


def _name_server(uri: str) -> str:
    """Return a PostgreSQL URI reduced to host, port and database, without user and password."""
    split = urlsplit(uri)
    host = split.netloc.rpartition("@")[2] or dict(parse_qsl(split.query)).get("host", "")
    return f"postgresql://{host}/{unquote(split.path.lstrip('/'))}".rstrip("/")


def _add_environment(uri: str, environment: Mapping[str, str]) -> str:
    """Add libpq's `PG*` variables and default timeouts to a URI; values in the URI win.

    Tasks may have another environment. Timeouts are added, too, if none are set.

    >>> uri = _add_environment("postgresql://me@db/shop", {"PGPASSWORD": "a b", "PGUSER": "you"})
    >>> uri.partition("&keepalives")[0]
    'postgresql://me@db/shop?password=a%20b&connect_timeout=30'
    """
    split = urlsplit(uri)
    parameters = dict(parse_qsl(split.query))
    uri_parts = {
        "user": split.username,
        "password": split.password,
        "host": split.hostname,
        "dbname": split.path.lstrip("/"),
    }
    variables = {
        key: environment[f"PG{name}"]
        for name, key in _VARIABLES.items()
        if environment.get(f"PG{name}") and not parameters.get(key) and not uri_parts.get(key)
    }
    if ":" in split.netloc.rpartition("@")[2]:
        variables.pop("port", None)
    timeouts = {
        key: value for key, value in _WAITS.items() if key not in {**parameters, **variables}
    }
    more = urlencode(variables | timeouts, quote_via=quote)
    plain, _, query = uri.partition("?")
    return f"{plain}?{query}{'&' * bool(query)}{more}"


def _find_file(uri: str) -> Path:
    """Return the absolute path in an SQLite or DuckDB URI; ConfigError if no such file exists."""
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
