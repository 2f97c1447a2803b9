"""What each load read and wrote, as OpenLineage's events tell it.

sqlglot resolves names, stars and aliases. What is not understood for certain is not told: a column
of it alone where only that one is concerned, else nothing of the query. The kinds are those of
OpenLineage's facet `columnLineage`.

```
source's columns ─▶ sql ─▶ drop, rename, columns, column_header_format ─▶ the table's columns
```
What does not fit together is left out: a facet tells what is certain.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import sqlglot
from openlineage.client.facet_v2 import column_lineage_dataset as facets
from openlineage.client.facet_v2 import schema_dataset
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify

from lakeport.config.inputs import DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.errors import LakeportError
from lakeport.host.extras import missing
from lakeport.loading.transform.transform import SOURCE
from lakeport.shape import header_name, internal_names
from lakeport.sources.database.source import mark_of
from lakeport.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakeport.config.base import DestinationConfig
    from lakeport.config.inputs import Input
    from lakeport.config.lake import LakeFile, Lineage, Load
    from lakeport.loading.report import StreamReport
    from lakeport.model import Landed
    from lakeport.pipeline.report import LoadReport, PipelineReport


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


class Kind(StrEnum):
    """How a field of an input makes a value; the names are OpenLineage's."""

    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    COMPUTED = ""  # by a function that is not known here: whether it aggregates is not told
    AGGREGATION = "AGGREGATION"
    CONDITIONAL = "CONDITIONAL"
    FILTER = "FILTER"
    GROUP_BY = "GROUP_BY"
    JOIN = "JOIN"
    SORT = "SORT"
    WINDOW = "WINDOW"

    @property
    def is_direct(self) -> bool:
        """Whether the field's values are in the value, and do not only decide on it."""
        return self in _DIRECT

    def after(self, earlier: Kind) -> Kind:
        """What a field is of a value that was made of another one, of which it was a part."""
        if not self.is_direct:
            return self
        if not earlier.is_direct:
            return earlier
        return max(earlier, self, key=_DIRECT.index)


_DIRECT: Final = (Kind.IDENTITY, Kind.TRANSFORMATION, Kind.COMPUTED, Kind.AGGREGATION)
"""From the least to the most that is done."""

Origins = Mapping[tuple[str, str], frozenset[Kind]]
"""Table and column -> how it makes a value."""

Column = tuple[str | None, Origins | None]
"""Name in lower case, None for one that Spark gives; and its origins, None where not told."""

_Relation = Mapping[str, Origins | None]
_Scope = ChainMap[str, _Relation]
"""What stands in a query's `FROM`, then in those of the queries around it, by their names."""

_Queries = Mapping[str, Callable[[], Sequence[Column]]]
"""What `WITH` names -> gives its columns."""

_KNOWN: Final[dict[type[exp.Expr], frozenset[str]]] = {
    exp.Select: frozenset(
        {"with_", "expressions", "from_", "joins", "laterals", "where", "group", "having"}
        | {"windows", "order", "sort", "cluster", "distribute", "distinct", "limit", "offset"}
        | {"hint"}
    ),
    exp.Table: frozenset({"this", "alias", "sample"}),
    exp.Subquery: frozenset(
        {"this", "alias", "sample", "with_", "order", "sort", "limit", "offset"}
    ),
    exp.With: frozenset({"expressions"}),
    exp.Distinct: frozenset({"expressions"}),
    exp.Star: frozenset({"except_"}),
}
"""Clauses of a node; with any other one nothing is told of the query."""

_JOINS: Final = frozenset({"", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"})
_SEVERAL: Final = (exp.UDTF, exp.Explode, exp.Posexplode, exp.Inline, exp.Stack, exp.Anonymous)
"""What may give several columns, where it has no name."""

_UNKNOWN: Final = (exp.Anonymous, exp.Any)
_OF_ANOTHER_ROW: Final = (exp.Lag, exp.Lead, exp.NthValue)
_UNNAMED: Final = re.compile(r"_col_\d+")
_OWN: Final = "own"  # in a node's `meta`: it was in the text


class _Untold(Exception):
    """It can't be told for certain."""


@dataclass(frozen=True)
class QueryLineage:
    """What a query's result comes from.

    Attributes:
        columns: in order.
        rows: what decides which rows there are, and in which order.
    """

    columns: tuple[Column, ...]
    rows: Origins


def lineage_of(sql: str, tables: Mapping[str, Iterable[str]]) -> QueryLineage | None:
    """Tell what a query makes its columns of.

    Args:
        sql: one query.
        tables: the tables that it may name -> their columns.

    Returns:
        None where that can't be told.

    Example:
        >>> found = lineage_of("SELECT a + b AS c FROM source", {"source": ["a", "b"]})
        >>> [(name, sorted(origins)) for name, origins in found.columns]
        [('c', [('source', 'a'), ('source', 'b')])]
    """
    known: dict[str, _Relation] = {
        name.lower(): {
            column.lower(): {(name, column): frozenset({Kind.IDENTITY})} for column in columns
        }
        for name, columns in tables.items()
    }
    reader = _Reader(known)
    try:
        query = sqlglot.parse_one(sql, read="spark")
        _check(query)
        query = qualify(
            query,
            schema={name: dict.fromkeys(columns, "unknown") for name, columns in known.items()},
            dialect="spark",
            validate_qualify_columns=False,
        )
        columns = reader.query(query, ChainMap(), {})
    except Exception:  # whatever it stumbles over: whoever asks goes on without
        return None
    return QueryLineage(tuple(columns), reader.rows)


def made(kind: Kind, parts: Iterable[Origins]) -> Origins:
    """The origins of what is made so of several values."""
    found: dict[tuple[str, str], frozenset[Kind]] = {}
    for part in parts:
        for origin, kinds in part.items():
            after = frozenset(kind.after(earlier) for earlier in kinds)
            found[origin] = found.get(origin, frozenset()) | after
    return found


def _check(query: exp.Expr) -> None:
    """See that a text has nothing that is not known here, and note what is gone once resolved."""
    for node in query.walk():
        if {name for name, value in node.args.items() if value} - _KNOWN.get(
            type(node), node.args.keys()
        ):
            raise _Untold
        if isinstance(node, exp.SetOperation) and any(
            node.args.get(each) for each in ("by_name", "on", "side")
        ):
            raise _Untold
        if isinstance(node, exp.Join) and (
            node.kind.upper() not in _JOINS or (node.method or "").upper() not in ("", "NATURAL")
        ):
            raise _Untold
        if isinstance(node, exp.Coalesce):
            node.meta[_OWN] = True
        if isinstance(node, exp.Having):
            columns = node.find_all(exp.Column)
            node.meta[_OWN] = [each.name.lower() for each in columns if len(each.parts) == 1]


class _Reader:
    """Reads one query whose names are resolved.

    Attributes:
        rows: what decides on rows.
    """

    def __init__(self, tables: Mapping[str, _Relation]) -> None:
        self.rows: Origins = {}
        self._tables = tables

    def query(self, node: exp.Expr, outer: _Scope, queries: _Queries) -> Sequence[Column]:
        """The columns of a query, within the scope of the one around it."""
        queries = dict(queries)
        with_ = node.args.get("with_")
        for each in with_.expressions if with_ is not None else ():
            inner = partial(self.query, each.this, ChainMap(), dict(queries))
            queries[each.alias] = cache(inner)
        scope: _Scope = outer.new_child()
        if isinstance(node, exp.Select):
            return self._select(node, scope, queries)
        if isinstance(node, exp.SetOperation):
            columns = self._combined(node, scope, queries)
        elif isinstance(node, exp.Subquery):
            columns = self.query(node.this, outer, queries)
        else:
            raise _Untold
        self._sorted(node, columns, scope, queries)
        return columns

    def _decides(self, kind: Kind, *origins: Origins | None) -> None:
        self.rows = made(Kind.IDENTITY, [self.rows, made(kind, map(_known, origins))])

    def _combined(
        self, node: exp.SetOperation, scope: _Scope, queries: _Queries
    ) -> Sequence[Column]:
        """`UNION`, of both sides; `EXCEPT` and `INTERSECT`, of the first."""
        left = self.query(node.this, scope, queries)
        right = self.query(node.expression, scope, queries)
        if len(left) != len(right):
            raise _Untold
        if isinstance(node, exp.Union):
            return [
                (name, None if a is None or b is None else made(Kind.IDENTITY, [a, b]))
                for (name, a), (_, b) in zip(left, right, strict=True)
            ]
        self._decides(Kind.FILTER, *(origins for _, origins in right))
        return left

    def _select(self, node: exp.Select, scope: _Scope, queries: _Queries) -> Sequence[Column]:
        read = partial(self._origins, scope=scope, queries=queries)
        if (from_ := node.args.get("from_")) is not None:
            self._add(from_.this, scope, queries)
        for join in node.args.get("joins") or ():
            before = dict(scope.maps[0])
            self._add(join.this, scope, queries)
            if join.method:  # NATURAL
                for name, one in scope[join.alias_or_name].items():
                    others = [each[name] for each in before.values() if name in each]
                    self._decides(Kind.JOIN, *others, *([one] if others else ()))
            if (on := join.args.get("on")) is not None:
                self._decides(Kind.JOIN, read(on))
        for lateral in node.args.get("laterals") or ():
            if not lateral.args.get("view"):
                raise _Untold
            alias, origins = lateral.args["alias"], read(lateral.this)
            scope[lateral.alias] = {each.name: origins for each in alias.columns}
        if (where := node.args.get("where")) is not None:
            self._decides(Kind.FILTER, read(where.this))
        columns = [column for each in node.expressions for column in _projected(each, read)]
        if (group := node.args.get("group")) is not None:
            self._grouped(group, node, columns, read)
        if node.args.get("distinct") is not None:
            self._decides(Kind.GROUP_BY, *(origins for _, origins in columns))
        for window in node.args.get("windows") or ():
            self._decides(Kind.WINDOW, *map(read, _window(window)))
        if (having := node.args.get("having")) is not None:
            _check_same(having.meta[_OWN], columns, scope)
            self._decides(Kind.FILTER, read(having.this))
        self._sorted(node, columns, scope, queries)
        return columns

    def _add(self, node: exp.Expr, scope: _Scope, queries: _Queries) -> None:
        """Add what stands in a `FROM` or `JOIN` to a scope."""
        if isinstance(node, exp.Subquery):
            columns = self.query(node.this, ChainMap(), queries)
        elif not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise _Untold
        elif node.name in queries:
            columns = queries[node.name]()
        elif node.name in self._tables:
            columns = list(self._tables[node.name].items())
        else:
            raise _Untold
        alias = node.args.get("alias")
        if isinstance(node, exp.Table) and alias is not None and alias.columns:
            called = [each.name for each in alias.columns]
            columns = list(zip(called, (one for _, one in columns), strict=True))
        names = [name for name, _ in columns]
        scope[node.alias_or_name] = {
            name: origins if names.count(name) == 1 else None for name, origins in columns if name
        }

    def _grouped(
        self,
        group: exp.Group,
        node: exp.Select,
        columns: Sequence[Column],
        read: Callable[[exp.Expr], Origins],
    ) -> None:
        if group.args.get("all"):
            if node.find(*_UNKNOWN) or len(columns) != len(node.expressions):
                raise _Untold
            keys = zip(node.expressions, columns, strict=True)
            keyed = [each[1] for one, each in keys if one.find(exp.AggFunc) is None]
            self._decides(Kind.GROUP_BY, *keyed)
        self._decides(Kind.GROUP_BY, *map(read, group.iter_expressions()))

    def _sorted(
        self, node: exp.Expr, columns: Sequence[Column], scope: _Scope, queries: _Queries
    ) -> None:
        """What a result is sorted by: its own columns first, or their numbers."""
        result = scope.new_child({"": {name: origins for name, origins in columns if name}})
        for clause in ("order", "sort", "cluster"):
            for each in found.expressions if (found := node.args.get(clause)) else ():
                by = each.this if isinstance(each, exp.Ordered) else each
                if isinstance(by, exp.Literal) and by.is_int:
                    self._decides(Kind.SORT, columns[int(by.this) - 1][1])
                else:
                    self._decides(Kind.SORT, self._origins(by, result, queries))

    def _origins(self, node: exp.Expr, scope: _Scope, queries: _Queries) -> Origins:
        """What the values of an expression come from.

        Raises:
            _Untold: a name of it can't be told.
        """
        read = partial(self._origins, scope=scope, queries=queries)
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            if node.args.get("db") or node.name not in scope.get(node.table, ()):
                raise _Untold
            return _known(scope[node.table][node.name])
        if isinstance(node, (exp.Star, exp.Column)):
            if isinstance(node, exp.Star) and isinstance(node.parent, exp.Count):
                return {}
            if node.args.get("except_"):
                raise _Untold
            of = scope.maps[0].values() if isinstance(node, exp.Star) else [scope[node.table]]
            whole = [_known(origins) for relation in of for origins in relation.values()]
            return made(Kind.TRANSFORMATION, whole)
        if isinstance(node, (exp.Alias, exp.Paren)):
            return read(node.this)
        if isinstance(node, exp.Window):
            self._decides(Kind.WINDOW, *map(read, _window(node)))
            return read(node.this)
        if isinstance(node, exp.Coalesce) and not node.meta.get(_OWN):
            parts = _of_using(node)
            return made(Kind.TRANSFORMATION if parts[1:] else Kind.IDENTITY, map(read, parts))
        if isinstance(node, (exp.Case, exp.If, exp.Nvl2, exp.Filter)):
            conditions, values = _branches(node)
            kind = Kind.IDENTITY if isinstance(node, exp.Filter) else Kind.TRANSFORMATION
            decided = made(Kind.CONDITIONAL, map(read, conditions))
            return made(Kind.IDENTITY, [decided, made(kind, map(read, values))])
        if isinstance(node, exp.Exists) and isinstance(node.this, exp.Query):
            self.query(node.this, scope, queries)
            return {}
        if isinstance(node, exp.Query):
            columns = self.query(node, scope, queries)
            return made(Kind.TRANSFORMATION, [_known(origins) for _, origins in columns])
        aggregates = isinstance(node, exp.AggFunc) and not isinstance(node, _OF_ANOTHER_ROW)
        kind = Kind.AGGREGATION if aggregates else Kind.TRANSFORMATION
        kind = Kind.COMPUTED if isinstance(node, _UNKNOWN) else kind
        return made(kind, map(read, node.iter_expressions()))


def _projected(node: exp.Expr, read: Callable[[exp.Expr], Origins]) -> Iterator[Column]:
    inner = node.unalias()
    if node.is_star or isinstance(inner, exp.Star):
        raise _Untold  # of a struct
    unnamed = _UNNAMED.fullmatch(node.alias) is not None
    if unnamed and isinstance(inner, _SEVERAL):
        raise _Untold
    try:
        origins: Origins | None = read(inner)
    except _Untold:
        origins = None
    if isinstance(node, exp.Aliases):
        yield from ((each.name, origins) for each in node.expressions)
    else:
        name = node.alias or (node.name if isinstance(node, exp.Column) else "")
        yield None if unnamed else name or None, origins


def _window(node: exp.Expr) -> Iterator[exp.Expr]:
    """What a window is cut by and sorted by; a name for one is told where it is defined."""
    parts = [*(node.args.get("partition_by") or ()), node.args.get("order")]
    return (part for part in parts if part)


def _branches(node: exp.Expr) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """What decides, and what it decides between."""
    if isinstance(node, exp.Filter):
        return [node.expression.this], [node.this]
    if isinstance(node, exp.Case):
        ifs = node.args["ifs"]
        conditions = [node.this, *(each.this for each in ifs)]
        values = [*(each.args["true"] for each in ifs), node.args.get("default")]
    else:
        conditions, values = [node.this], [node.args.get("true"), node.args.get("false")]
    return [each for each in conditions if each], [each for each in values if each]


def _of_using(node: exp.Coalesce) -> list[exp.Expr]:
    """The columns that Spark takes for one of `USING`, of those that sqlglot does."""
    select = node.find_ancestor(exp.Select)
    joins = select.args.get("joins") or () if select is not None else ()
    sides = {join.alias_or_name: join.side.upper() for join in joins}
    kept: list[exp.Expr] = []
    for each in (node.this, *node.expressions):
        side = sides.get(each.table, "")
        kept = [each] if side == "RIGHT" or not kept else kept + [each] * (side == "FULL")
    return kept


def _known(origins: Origins | None) -> Origins:
    if origins is None:
        raise _Untold
    return origins


def _check_same(names: Iterable[str], columns: Sequence[Column], scope: _Scope) -> None:
    """See that no name of `HAVING` is one thing among the columns, and another in the tables."""
    named = {name: origins for name, origins in columns if name}
    for name in named.keys() & set(names):
        before = [each[name] for each in scope.maps[0].values() if name in each]
        if len(before) == 1 and _known(named[name]).keys() != _known(before[0]).keys():
            raise _Untold


@dataclass(frozen=True)
class Dataset:
    """What a load reads.

    Attributes:
        name: what OpenLineage calls it.
        columns: column -> type in words.
    """

    name: Name
    columns: Mapping[str, str]


def read_by(load: Load, streams: Sequence[StreamReport]) -> dict[str, Dataset]:
    """What a load has read, by its names in `sql`: as far as its columns are known.

    Of several streams in one dataset, as a tap has them, nothing tells whose column one is.

    Args:
        load: the load.
        streams: what was landed of it.
    """
    source, found = load.source, dict[str, Dataset]()
    own = source.tables if isinstance(source, TablesSource) else {}
    for name, place in {**load.tables, **own}.items():
        with suppress(LakeportError):
            told = Table(place, load.target).describe()
            columns = {column.name: column.type for column in told.columns}
            found[name] = Dataset(name_of(place), columns)
    first = found.get(next(iter(own))) if own else _alone(load, streams)
    return found if first is None else {**found, SOURCE: first}


def _alone(load: Load, streams: Sequence[StreamReport]) -> Dataset | None:
    names = set(inputs_of(load.source))
    if len(names) > 1 or len(streams) != 1 or load.target.add_record_metadata:
        return None
    columns = dict(streams[0].source_columns)
    if isinstance(load.source, DatabaseSource) and load.source.deletes == "compare":
        columns.pop(mark_of(load.target), None)  # which lakeport may have added
    return Dataset(names.pop(), columns) if names and columns else None


def column_lineage(
    load: Load, stream: StreamReport, datasets: Mapping[str, Dataset]
) -> facets.ColumnLineageDatasetFacet | None:
    """The facet of the table in which a stream has landed; None where nothing is certain.

    Args:
        load: the load.
        stream: what was landed.
        datasets: what `read_by` gives.
    """
    made_of = _result(load, datasets)
    if made_of is None:
        return None
    columns = _in_table(load.target, made_of.columns, stream.columns)
    if columns is None:
        return None
    fields = {name: facets.Fields(_fields(origins, datasets)) for name, origins in columns.items()}
    rows = _fields(made_of.rows, datasets)
    return facets.ColumnLineageDatasetFacet(fields, rows) if fields or rows else None


def _result(load: Load, datasets: Mapping[str, Dataset]) -> QueryLineage | None:
    """What `sql` makes, or the source as it is; a Python function can't be looked into."""
    if load.python:
        return None
    if load.sql:
        return lineage_of(load.sql, {name: each.columns for name, each in datasets.items()})
    if SOURCE not in datasets:
        return None
    columns = [
        (name.lower(), {(SOURCE, name): frozenset({Kind.IDENTITY})})
        for name in datasets[SOURCE].columns
    ]
    return QueryLineage(tuple(columns), {})


def _in_table(
    config: DestinationConfig, made_of: Iterable[Column], landed: Mapping[str, str]
) -> dict[str, Origins] | None:
    """Column of the table -> its origins; None if others have landed than were to."""
    case = config.column_header_format
    internal = internal_names(config.internal_columns_prefix if config.internal_columns else None)
    own = {header_name(name, case).lower() for name in (*internal, *config.constant_columns)}
    rename = {old.lower(): new for old, new in config.rename.items()}
    typed = {name.lower() for name in config.columns}
    dropped = {name.lower() for name in config.drop}
    spelt = {name.lower(): name for name in landed}
    found: dict[str, Origins] = {}
    for name, origins in made_of:
        if name is None or name in dropped:
            continue
        target = header_name(rename.get(name, name), case).lower()
        if target not in spelt or spelt[target] in found:
            return None
        if origins and target not in own:
            kind = Kind.TRANSFORMATION if name in typed else Kind.IDENTITY
            found[spelt[target]] = made(kind, [origins])
    return found


def _fields(origins: Origins, datasets: Mapping[str, Dataset]) -> list[facets.InputField]:
    return [
        facets.InputField(*datasets[table].name, column, [_told(kind) for kind in sorted(kinds)])
        for (table, column), kinds in sorted(origins.items())
    ]


def _told(kind: Kind) -> facets.Transformation:
    return facets.Transformation("DIRECT" if kind.is_direct else "INDIRECT", kind.value or None)


def schema_of(columns: Mapping[str, str]) -> schema_dataset.SchemaDatasetFacet:
    """The facet of a dataset's columns."""
    fields = [schema_dataset.SchemaDatasetFacetFields(*column) for column in columns.items()]
    return schema_dataset.SchemaDatasetFacet(fields)


_SECONDS: Final = 5.0
_STATES: Final = {"landed": "COMPLETE", "failed": "FAIL", "interrupted": "ABORT"}
_PRODUCER: Final = "https://github.com/lakeport/lakeport"


class Events:
    """An observer of a run that sends its lineage; where that fails, it says so once and stops.

    Args:
        lake: the file.
        lineage: where events go.
        warn: takes a sentence for the user.

    Raises:
        MissingDependency: OpenLineage's client is not installed.
    """

    def __init__(self, lake: LakeFile, lineage: Lineage, warn: Callable[[str], None]) -> None:
        try:
            from openlineage.client.uuid import generate_new_uuid
        except ImportError:
            problem = "lineage is sent by the package `openlineage-python`, which is not installed"
            raise missing(problem, "lineage") from None
        self._lake = lake
        self._warn = warn
        self._namespace = lineage.namespace
        self._parent = str(generate_new_uuid())
        self._ids = {name: str(generate_new_uuid()) for name in lake.loads}
        self._client: Any = _client(lineage)

    def on_begun(self, load: str) -> None:
        """Send START."""
        self._send(load, "START", None)

    def on_progress(self, load: str, stream: str, records: int, size: int) -> None:
        """Do nothing."""

    def on_landed(self, load: str, landed: Landed) -> None:
        """Do nothing."""

    def on_warning(self, load: str, text: str) -> None:
        """Do nothing."""

    def on_ended(self, report: LoadReport) -> None:
        """Send how a load that had begun has ended."""
        if report.outcome in _STATES:
            self._send(report.load, _STATES[report.outcome], report)

    def on_finished(self, report: PipelineReport) -> None:
        """Do nothing: each load has told."""

    def _send(self, load: str, state: str, report: LoadReport | None) -> None:
        if self._client is None:
            return
        try:
            self._client.emit(self._event(load, state, report))
        except Exception as error:  # whatever the endpoint does, the load goes on
            self._client = None
            self._warn(f"lineage could not be sent, and no more is: {type(error).__name__}")

    def _event(self, load: str, state: str, report: LoadReport | None) -> Any:
        from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
        from openlineage.client.facet_v2 import error_message_run, parent_run

        file = Path(self._lake.path).stem
        facets: dict[str, Any] = {
            "parent": parent_run.ParentRunFacet(
                run=parent_run.Run(self._parent), job=parent_run.Job(self._namespace, file)
            )
        }
        if report is not None and report.error is not None:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                report.error.message, "PYTHON"
            )
        return RunEvent(
            eventType=RunState[state],
            eventTime=datetime.now(UTC).isoformat(timespec="milliseconds"),
            run=Run(self._ids[load], facets),
            job=Job(self._namespace, f"{file}.{load}"),
            producer=_PRODUCER,
            **_datasets(self._lake.loads[load], report),
        )


def _datasets(load: Load, report: LoadReport | None) -> dict[str, list[Any]]:
    """What a load reads, and the tables that it has landed in: with their columns, once it has."""
    from openlineage.client.event_v2 import InputDataset, OutputDataset

    streams = report.landing.streams if report is not None and report.landing else ()
    read = read_by(load, streams) if report is not None else {}
    known: dict[Name, dict[str, Any]] = {
        each.name: {"schema": schema_of(each.columns)} for each in read.values()
    }
    names = dict.fromkeys([*inputs_of(load.source), *map(name_of, load.tables.values())])
    return {
        "inputs": [InputDataset(*name, facets=known.get(name, {})) for name in names],
        "outputs": [
            OutputDataset(
                *name_of(stream.table),
                facets=_facets(load, stream, read),
                outputFacets={"outputStatistics": _statistics(stream)},
            )
            for stream in streams
            if stream.table
        ],
    }


def _facets(load: Load, stream: StreamReport, read: Mapping[str, Dataset]) -> dict[str, Any]:
    """A table's columns, and what they come from; nothing where none were landed."""

    if not stream.columns:
        return {}
    told = column_lineage(load, stream, read)
    return {"schema": schema_of(stream.columns), **({"columnLineage": told} if told else {})}


def _statistics(stream: StreamReport) -> Any:
    from openlineage.client.facet_v2 import output_statistics_output_dataset

    return output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=stream.rows, size=stream.bytes, fileCount=stream.files
    )


def _client(lineage: Lineage) -> Any:
    """OpenLineage's client; without file and URL, as its own variables and file say."""
    from openlineage.client import OpenLineageClient
    from openlineage.client.transport.file import FileConfig, FileTransport
    from openlineage.client.transport.http import (
        ApiKeyTokenProvider,
        HttpConfig,
        HttpTransport,
        TokenProvider,
    )

    if lineage.file:
        return OpenLineageClient(transport=FileTransport(FileConfig(lineage.file, append=True)))
    if lineage.url is None:
        return OpenLineageClient()
    key = lineage.api_key
    auth = ApiKeyTokenProvider({"api_key": key.get_secret_value()}) if key else TokenProvider({})
    url = lineage.url.get_secret_value()
    config = HttpConfig(url, timeout=_SECONDS, auth=auth, retry={"total": 0})
    return OpenLineageClient(transport=HttpTransport(config))
