"""What a database's URI says: the driver, its settings, and which parts are secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from lakeport.config.inputs.database import DatabaseSource, scheme_of
from lakeport.errors import ConfigError
from lakeport.sources.database.access import Access

__all__ = ["access_of"]

_WAITS: Final = "connect_timeout=30"
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
        return Access(
            _place(uri),
            "adbc_driver_postgresql",
            source.extra,
            settings={"uri": _patient(uri), **options},
            secrets=source.secrets(),
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


def _patient(uri: str) -> str:
    """The URI, with an end to how long a host that does not answer is waited for."""
    if "connect_timeout" in uri:
        return uri
    if not urlsplit(uri).query:
        return f"{uri}{'' if uri.endswith('?') else '?'}{_WAITS}"
    return f"{uri}&{_WAITS}"


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
