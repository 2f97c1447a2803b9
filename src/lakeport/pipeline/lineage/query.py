"""What each column of a query in Spark SQL comes from, as its text and its tables' columns tell.

Names are resolved by Spark's rules. What is not understood for certain is not told: a column of it
alone where only that one is concerned, else nothing of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final

import sqlglot
from sqlglot import exp

from lakeport.pipeline.lineage.expressions import (
    Column,
    Expressions,
    Kind,
    Origins,
    Relation,
    Scope,
    Untold,
    made,
)

__all__ = ["QueryLineage", "lineage_of"]

_CLAUSES: Final = frozenset(
    {"with_", "expressions", "from_", "joins", "laterals", "where", "group", "having", "windows"}
    | {"order", "sort", "cluster", "distribute", "distinct", "limit", "offset", "hint"}
)
_TABLE: Final = frozenset({"this", "alias", "sample"})
_DERIVED: Final = frozenset(
    {"this", "alias", "sample", "with_", "order", "sort", "limit", "offset"}
)
_JOINS: Final = frozenset({"", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"})
_SEVERAL: Final = (exp.UDTF, exp.Explode, exp.Posexplode, exp.Inline, exp.Stack, exp.Anonymous)
"""What may give several columns, where it has no name."""


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
    reader = _Reader(tables)
    try:
        columns = reader.query(sqlglot.parse_one(sql, read="spark"), Scope())
    except (Untold, sqlglot.errors.SqlglotError):
        return None
    return QueryLineage(tuple(columns), reader.rows)


class _Reader:
    """Reads one text."""

    def __init__(self, tables: Mapping[str, Iterable[str]]) -> None:
        self.rows: Origins = {}
        self._tables = {
            name.lower(): [
                (column.lower(), {(name, column): frozenset({Kind.IDENTITY})}) for column in columns
            ]
            for name, columns in tables.items()
        }
        self._read = Expressions(self.query, self._decides)

    def query(self, node: exp.Expr, outer: Scope) -> Sequence[Column]:
        """The columns of a query, in the scope of the one around it."""
        scope = Scope(queries=self._named(node, outer), outer=outer)
        if isinstance(node, exp.Select):
            return self._select(node, scope)
        if isinstance(node, exp.SetOperation):
            columns = self._combined(node, scope)
        elif isinstance(node, exp.Subquery):
            _only_with(node, _DERIVED)
            columns = self.query(node.this, scope)
        else:
            raise Untold
        self._sorted(node, columns, scope)
        return columns

    def _decides(self, kind: Kind, origins: Origins) -> None:
        self.rows = made(Kind.IDENTITY, [self.rows, made(kind, [origins])])

    def _all(self, kind: Kind, nodes: Iterable[exp.Expr], scope: Scope) -> None:
        for node in nodes:
            self._decides(kind, self._read.origins(node, scope))

    def _named(self, node: exp.Expr, outer: Scope) -> Mapping[str, Any]:
        """The queries of `WITH`, of which each knows those before it."""
        found, with_ = dict(outer.queries), node.args.get("with_")
        if with_ is not None and with_.args.get("recursive"):
            raise Untold
        for each in with_.expressions if with_ is not None else ():
            scope = replace(outer, queries=dict(found))
            found[each.alias.lower()] = cache(partial(self._derived, each, scope))
        return found

    def _derived(self, node: exp.Expr, scope: Scope) -> Sequence[Column]:
        """The columns of a query with an alias, which may name them anew."""
        alias = node.args.get("alias")
        inner = node.this if isinstance(node, exp.CTE) else _without_alias(node)
        return _called(self.query(inner, scope), alias.columns if alias else ())

    def _combined(self, node: exp.SetOperation, scope: Scope) -> Sequence[Column]:
        """`UNION`, of both sides; `EXCEPT` and `INTERSECT`, of the first."""
        if node.args.get("by_name") or node.args.get("on") or node.args.get("side"):
            raise Untold
        left, right = self.query(node.this, scope), self.query(node.expression, scope)
        if len(left) != len(right):
            raise Untold
        if isinstance(node, exp.Union):
            return [
                (name, None if a is None or b is None else made(Kind.IDENTITY, [a, b]))
                for (name, a), (_, b) in zip(left, right, strict=True)
            ]
        for _, origins in right:
            self._decides(Kind.FILTER, _known(origins))
        return left

    def _select(self, node: exp.Select, scope: Scope) -> Sequence[Column]:
        _only_with(node, _CLAUSES)
        if (from_ := node.args.get("from_")) is not None:
            scope.relations.append(self._relation(from_.this, scope))
        for join in node.args.get("joins") or ():
            self._join(join, scope)
        for lateral in node.args.get("laterals") or ():
            scope.relations.append(self._lateral(lateral, scope))
        if (where := node.args.get("where")) is not None:
            self._all(Kind.FILTER, [where.this], scope)
        columns = [column for each in node.expressions for column in self._projected(each, scope)]
        if (group := node.args.get("group")) is not None:
            self._grouped(group, node, columns, scope)
        if (distinct := node.args.get("distinct")) is not None:
            if distinct.args.get("on"):
                raise Untold
            for _, origins in columns:
                self._decides(Kind.GROUP_BY, _known(origins))
        for window in node.args.get("windows") or ():
            self._decides(Kind.WINDOW, self._read.of_window(window, scope))
        if (having := node.args.get("having")) is not None:
            _check_same(having, columns, scope)
            self._all(Kind.FILTER, [having.this], _of_result(columns, scope))
        self._sorted(node, columns, scope)
        return columns

    def _projected(self, node: exp.Expr, scope: Scope) -> Iterator[Column]:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and node.is_star):
            yield from _starred(node, scope)
            return
        if isinstance(node, _SEVERAL):
            raise Untold
        try:
            origins: Origins | None = self._read.origins(node, scope)
        except Untold:
            origins = None
        if isinstance(node, exp.Aliases):
            yield from ((each.name.lower(), origins) for each in node.expressions)
            return
        name = (
            node.output_name.lower() if isinstance(node, (exp.Alias, exp.Column, exp.Dot)) else ""
        )
        if isinstance(node, exp.Alias):
            scope.aliases[name] = origins
        yield name or None, origins

    def _grouped(
        self, group: exp.Group, node: exp.Select, columns: Sequence[Column], scope: Scope
    ) -> None:
        if group.args.get("all"):
            if any(isinstance(each, (exp.Anonymous, exp.Any)) for each in node.walk()):
                raise Untold
            whole = [each.find(exp.AggFunc) is None for each in node.expressions]
            if len(whole) != len(columns):
                raise Untold
            keys = [one for one, is_key in zip(columns, whole, strict=True) if is_key]
            for _, origins in keys:
                self._decides(Kind.GROUP_BY, _known(origins))
        for each in group.iter_expressions():
            self._by(Kind.GROUP_BY, each, columns, scope)

    def _by(self, kind: Kind, node: exp.Expr, columns: Sequence[Column], scope: Scope) -> None:
        """Grouped or sorted by an expression, or by the number of a column."""
        if isinstance(node, exp.Literal) and node.is_int:
            self._decides(kind, _known(columns[int(node.this) - 1][1]))
        else:
            self._all(kind, [node], scope)

    def _sorted(self, node: exp.Expr, columns: Sequence[Column], scope: Scope) -> None:
        for clause in ("order", "sort", "cluster"):
            if (found := node.args.get(clause)) is not None:
                for each in found.expressions:
                    by = each.this if isinstance(each, exp.Ordered) else each
                    self._by(Kind.SORT, by, columns, _of_result(columns, scope))

    def _relation(self, node: exp.Expr, scope: Scope) -> Relation:
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            _only_with(node, _TABLE)
            inner = self._relation(node.this, scope)
            return replace(inner, name=node.alias.lower()) if node.alias else inner
        if isinstance(node, exp.Subquery):
            inside = Scope(queries=scope.queries)
            return Relation(node.alias.lower(), self._derived(node, inside))
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise Untold
        _only_with(node, _TABLE)
        name, alias = node.name.lower(), node.args.get("alias")
        query: Callable[[], Sequence[Column]] | None = scope.queries.get(name)
        columns = self._tables.get(name) if query is None else query()
        if columns is None:
            raise Untold
        return Relation(
            node.alias_or_name.lower(), _called(columns, alias.columns if alias else ())
        )

    def _join(self, join: exp.Join, scope: Scope) -> None:
        kind, method = join.kind.upper(), (join.method or "").upper()
        if kind not in _JOINS or method not in ("", "NATURAL"):
            raise Untold
        left = list(scope.relations)
        right = self._relation(join.this, scope)
        names = [each.name.lower() for each in join.args.get("using") or ()]
        if method == "NATURAL":
            known = {name for each in left for name, _ in each.columns if name}
            names = [name for name, _ in right.columns if name in known]
        merged = {name: self._using(name, right, join.side.upper(), scope) for name in names}
        scope.relations.append(right)
        if (on := join.args.get("on")) is not None:
            self._all(Kind.JOIN, [on], scope)
        if kind in ("SEMI", "ANTI"):
            scope.relations[:] = left
        scope.merged.update(merged)

    def _using(self, name: str, right: Relation, side: str, scope: Scope) -> Origins:
        """The column that `USING` makes of one on each side."""
        one, other = scope.resolve([name]), Scope([right]).resolve([name])
        self._decides(Kind.JOIN, one)
        self._decides(Kind.JOIN, other)
        if side == "FULL":
            return made(Kind.TRANSFORMATION, [one, other])
        return other if side == "RIGHT" else one

    def _lateral(self, node: exp.Lateral, scope: Scope) -> Relation:
        """`LATERAL VIEW`, whose columns are all made of what it unfolds."""
        alias = node.args.get("alias")
        if not node.args.get("view") or alias is None or not alias.columns:
            raise Untold
        origins = self._read.origins(node.this, scope)
        return Relation(
            node.alias.lower(), [(each.name.lower(), origins) for each in alias.columns]
        )


def _starred(node: exp.Star | exp.Column, scope: Scope) -> Iterator[Column]:
    if isinstance(node, exp.Star):
        return scope.star(node)
    if node.args.get("db"):
        raise Untold
    return scope.star(node.this, node.table.lower())


def _only_with(node: exp.Expr, clauses: frozenset[str]) -> None:
    """See that a node has nothing that is not known here."""
    if {name for name, value in node.args.items() if value} - clauses:
        raise Untold


def _without_alias(node: exp.Expr) -> exp.Expr:
    inner = node.copy()
    inner.set("alias", None)
    return inner


def _called(columns: Sequence[Column], names: Sequence[Any]) -> Sequence[Column]:
    """Columns with the names that an alias has for them, if it has any."""
    if not names:
        return columns
    if len(names) != len(columns):
        raise Untold
    return [(name.name.lower(), origins) for name, (_, origins) in zip(names, columns, strict=True)]


def _known(origins: Origins | None) -> Origins:
    if origins is None:
        raise Untold
    return origins


def _of_result(columns: Sequence[Column], scope: Scope) -> Scope:
    """What names mean behind the columns: these first."""
    return Scope([Relation("", [one for one in columns if one[0]])], outer=scope)


def _check_same(node: exp.Expr, columns: Sequence[Column], scope: Scope) -> None:
    """See that no name of `HAVING` is one thing among the columns, and another in the tables."""
    named = {name: origins for name, origins in columns if name}
    for column in node.find_all(exp.Column):
        name = column.name.lower()
        if len(column.parts) > 1 or named.get(name) is None:
            continue
        try:
            before = replace(scope, aliases={}, outer=None).resolve([name])
        except Untold:
            continue
        if before.keys() != _known(named[name]).keys():
            raise Untold
