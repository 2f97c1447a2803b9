"""What each column of a query in Spark SQL comes from, as its text and its tables' columns tell.

sqlglot resolves names, stars and aliases. What is not understood for certain is not told: a column
of it alone where only that one is concerned, else nothing of the query. The kinds are those of
OpenLineage's facet `columnLineage`.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify


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
