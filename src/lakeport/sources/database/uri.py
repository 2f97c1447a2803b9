"""What a database's URI says: the driver, its settings, and which parts are secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from lakeport.config.inputs import DatabaseSource, scheme_of
from lakeport.errors import ConfigError
from lakeport.sources.database.access import Access

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


def access_of(source: DatabaseSource) -> Access:
    """How to reach a source's database.

    Raises:
        ConfigError: the URI does not tell, or names a file that is not there.
    """
    uri = source.database.get_secret_value()
    scheme, options = scheme_of(uri), dict(source.options)
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
            f"write {scheme_of(uri)}:///shop.db for a file in this folder, and "
            f"{scheme_of(uri)}:////data/shop.db for one by its whole path.",
        )
    file = Path(path).absolute()
    if not file.is_file():
        raise ConfigError(f"there is no file {str(file)!r}", "correct the path in the URI.")
    return file
