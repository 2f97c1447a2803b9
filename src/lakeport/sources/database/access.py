"""How to reach a database, and a connection to it: the driver's, or one of a task's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from lakeport.errors import MissingDependency
from lakeport.sources.database.faults import named

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS: Final = 1 << 15
_BYTES: Final = 16 << 20


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
    def connected(self) -> Iterator[Session]:
        """A connection, for as long as the body runs.

        Raises:
            MissingDependency: the driver is not installed.
            SourceError: the database can't be reached, or refuses.
        """
        with named(self.place, self.secrets):
            connection = self._connect()
        try:
            session = Session(self, connection)
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


class Session:
    """One connection: statements and queries, one after another."""

    def __init__(self, access: Access, connection: Any) -> None:
        self.access = access
        self._connection = connection

    def run(self, statement: str) -> None:
        """Run a statement that answers nothing."""
        self.rows(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a small answer.

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
