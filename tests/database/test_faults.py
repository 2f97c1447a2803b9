"""What goes wrong with a database is named, holds no secret and no value, and leaves nothing."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from contextlib import closing
from typing import Any

import pytest

import lakeport
from lakeport import DatabaseSource
from lakeport.errors import ConfigError, LakeportError
from lakeport.sources.database.access import make_access
from tests.database.kit import Schema

CANARY = "canary-5ecret"


def failure(schema: Schema, source: Any, **keys: Any) -> LakeportError:
    """The error of a load, which left nothing."""
    with pytest.raises(LakeportError) as caught:
        schema.land(source=source, **keys)
    assert not (schema.lake / "t").exists()
    return caught.value


def test_a_port_on_which_nobody_listens(schema: Schema) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        uri = f"postgresql://me:{CANARY}@127.0.0.1:{taken.getsockname()[1]}/shop"
        error = failure(schema, schema.source(database=uri))
    assert "Connection refused" in error.message
    assert "host, port" in error.hint
    assert CANARY not in str(error)


@pytest.mark.parametrize(
    ("user", "database", "words"),
    [("nobody", "postgres", 'role "nobody"'), ("postgres", "shop", 'database "shop"')],
)
def test_a_user_or_database_that_is_not_there(
    schema: Schema, user: str, database: str, words: str
) -> None:
    uri = f"postgresql://{user}:{CANARY}@127.0.0.1:{schema.server.port}/{database}"
    error = failure(schema, schema.source(database=uri))
    assert f"{words} does not exist" in error.message
    assert CANARY not in str(error)


def test_a_table_that_is_not_there_is_answered_with_those_that_are(schema: Schema) -> None:
    schema.sql("CREATE TABLE orders (id int)")
    error = failure(schema, schema.source("order"))
    assert f"no table '{schema.name}.order'" in error.message
    assert f"'{schema.name}.orders'" in error.hint


@pytest.mark.parametrize("key", ["cursor", "split_by"])
def test_a_column_that_is_not_there_is_answered_with_those_that_are(
    schema: Schema, key: str
) -> None:
    schema.sql("CREATE TABLE t (id int, updated_at date)")
    error = failure(schema, schema.source(**{key: "update_at"}))
    assert isinstance(error, ConfigError)
    assert f"`{key}` names the column 'update_at'" in error.message
    assert "'updated_at'" in error.hint


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELEC 1", "syntax error at or near"),
        ("SELECT nope FROM pg_class", 'column "nope" does not exist'),
        ("SELECT * FROM nope", 'relation "nope" does not exist'),
        ("SELECT 1 AS a, 2 AS a", "names clash: 'a' and 'a'"),
        ("SELECT 1) x; DROP TABLE t; --", "syntax error"),
        ("INSERT INTO t VALUES (1) RETURNING id", "syntax error"),
    ],
)
def test_sql_that_is_wrong(schema: Schema, query: str, words: str) -> None:
    schema.sql("CREATE TABLE t (id int)")
    assert words in failure(schema, schema.source(query=query)).message
    assert schema.sql(f"SELECT count(*) FROM {schema.name}.t") == "0"


def test_a_query_may_not_write(schema: Schema) -> None:
    schema.sql(
        "CREATE TABLE t (id int)",
        "CREATE FUNCTION add() RETURNS int LANGUAGE sql AS "
        f"'INSERT INTO {schema.name}.t VALUES (1) RETURNING 1'",
    )
    error = failure(schema, schema.source(query=f"SELECT {schema.name}.add() AS id"))
    assert "read-only transaction" in error.message or "ended the query" in error.message
    assert schema.sql(f"SELECT count(*) FROM {schema.name}.t") == "0"


def test_a_user_without_the_right_to_read(schema: Schema) -> None:
    user = f"u{schema.name}"
    schema.sql(
        "CREATE TABLE t (id int)",
        f"CREATE ROLE {user} LOGIN",
        f"GRANT USAGE ON SCHEMA {schema.name} TO {user}",
    )
    uri = schema.uri.replace("postgres@", f"{user}:{CANARY}@")
    error = failure(schema, schema.source(database=uri))
    assert "permission denied for table t" in error.message
    assert "grant this user SELECT" in error.hint
    assert CANARY not in str(error)


def test_a_value_that_a_query_can_not_convert_is_not_told(schema: Schema) -> None:
    schema.sql(
        "CREATE TABLE t AS SELECT i AS id, CASE WHEN i < 5000 THEN '1' ELSE 'apple' END AS kind "
        "FROM generate_series(1, 5000) i"
    )
    query = f"SELECT id, kind::int FROM {schema.name}.t"
    error = failure(schema, schema.source(query=query))
    assert "invalid input syntax for type integer" in error.message
    assert "apple" not in str(error)


def test_a_statement_that_takes_too_long(schema: Schema) -> None:
    uri = f"{schema.uri}?options=-c%20statement_timeout%3D200"
    query = "SELECT i AS id, pg_sleep(1)::text AS s FROM generate_series(1, 100) i"
    error = failure(schema, schema.source(database=uri, query=query))
    assert "canceling statement due to statement timeout" in error.message
    assert "statement_timeout" in error.hint


def test_a_connection_that_breaks_while_rows_come(schema: Schema) -> None:
    query = "SELECT i AS id, pg_sleep(0.001)::text AS s FROM generate_series(1, 1000000) i"
    with ended_once_it_reads(schema, "COPY (SELECT%pg_sleep%"):
        error = failure(schema, schema.source(query=query))
    assert "terminating connection" in error.message
    assert "nothing of this load has landed" in error.hint


class ended_once_it_reads:  # noqa: N801
    """Has the server end the connection that runs a query, as soon as one does."""

    def __init__(self, schema: Schema, query: str) -> None:
        self._sql = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE state = 'active' "
            f"AND query LIKE '{query}' AND pid <> pg_backend_pid()"
        )
        self._schema = schema
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._done.is_set() and self._schema.server.sql(self._sql) == "0":
            time.sleep(0.05)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()


def test_what_goes_to_tasks_shows_no_password() -> None:
    source = DatabaseSource(database=f"postgresql://me:{CANARY}@db/shop?sslmode=require", table="t")
    access = make_access(source)
    assert CANARY not in repr(access)
    assert CANARY not in repr(source)
    assert pickle.loads(pickle.dumps(access)) == access
    assert access.address == "postgresql://db/shop"
    assert CANARY in source.secrets()


def test_overwriting_by_new_rows_alone_is_refused(schema: Schema) -> None:
    schema.sql("CREATE TABLE t (id int)")
    error = failure(schema, schema.source(cursor="id"), mode="overwrite")
    assert isinstance(error, ConfigError)
    assert "would replace all of the table" in error.message


def test_a_driver_that_is_not_installed(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    error = failure(schema, schema.source())
    assert isinstance(error, lakeport.MissingDependency)
    assert error.hint.startswith("pip install 'lakeport[postgres]'")
