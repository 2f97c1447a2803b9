"""What OpenLineage calls a table or a file: a namespace and a name, by its naming rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from lakeport.config.inputs.database import DatabaseSource
from lakeport.config.inputs.files import FilesSource
from lakeport.config.inputs.tables import TablesSource
from lakeport.config.inputs.tap import TapSource

if TYPE_CHECKING:
    from lakeport.config.inputs.base import Input

_WILD: Final = re.compile(r"[*?\[]")
_PORTS: Final = {"postgres": 5432, "mysql": 3306, "mssql": 1433, "oracle": 1521}
_SCHEMES: Final = {"postgresql": "postgres", "sqlserver": "mssql", "mariadb": "mysql"}
_SCHEMA: Final = {"postgres": "public", "mssql": "dbo"}


class Name(NamedTuple):
    """A dataset's name, which no other one has."""

    namespace: str
    name: str


def inputs_of(source: Input) -> list[Name]:
    """What a source reads, without any secret."""
    if isinstance(source, FilesSource):
        names = [source.files] if isinstance(source.files, str) else source.files
        return [name_of(_plain(name)) for name in names]
    if isinstance(source, TablesSource):
        return [name_of(place) for place in source.tables.values()]
    if isinstance(source, DatabaseSource):
        return [_of_database(source.database.get_secret_value(), source.table or "query")]
    return [Name("singer", source.tap[0])] if isinstance(source, TapSource) else []


def name_of(place: str) -> Name:
    """The name of what lies at a path or a URI.

    >>> name_of("s3://lake/bronze/flights"), name_of("/data/lake/flights")
    (Name(namespace='s3://lake', name='bronze/flights'), \
Name(namespace='file', name='/data/lake/flights'))
    """
    if "://" not in place or place.startswith("file://"):
        from pathlib import Path

        return Name("file", str(Path(place.removeprefix("file://")).expanduser().absolute()))
    parts = urlsplit(place)
    host = parts.netloc.rpartition("@")[2] if parts.password else parts.netloc
    scheme = {"s3a": "s3", "abfs": "abfss", "az": "abfss"}.get(parts.scheme, parts.scheme)
    return Name(f"{scheme}://{host}", unquote(parts.path).strip("/") or "/")


def _plain(name: str) -> str:
    """The folder that a glob is below.

    >>> _plain("s3://inbox/flights/*.csv"), _plain("in/a.csv")
    ('s3://inbox/flights', 'in/a.csv')
    """
    found = _WILD.search(name)
    return name if found is None else name[: found.start()].rpartition("/")[0] or "."


def _of_database(uri: str, table: str) -> Name:
    """The name of a table of a database.

    >>> _of_database("postgresql://me:secret@db/shop", "orders")
    Name(namespace='postgres://db:5432', name='shop.public.orders')
    >>> _of_database("sqlite:///data/shop.db", "orders")
    Name(namespace='file', name='/data/shop.db/orders')
    """
    parts = urlsplit(uri.removeprefix("jdbc:"))
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    if not parts.hostname:
        return Name("file", f"/{parts.path.strip('/')}/{table}")
    port = parts.port or _PORTS.get(scheme)
    place = f"{scheme}://{parts.hostname}" + (f":{port}" if port else "")
    schema = _SCHEMA.get(scheme, "")
    full = table if "." in table or not schema else f"{schema}.{table}"
    database = unquote(parts.path).strip("/")
    return Name(place, f"{database}.{full}" if database else full)
