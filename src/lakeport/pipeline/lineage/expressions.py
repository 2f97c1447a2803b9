"""What the values of an expression in Spark SQL come from, where its names are known.

The kinds are those of OpenLineage's facet `columnLineage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from sqlglot import exp

__all__ = ["Column", "Expressions", "Kind", "Origins", "Relation", "Scope", "Untold"]


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


class Untold(Exception):  # no failure: whoever asks goes on without
    """It can't be told for certain."""


def made(kind: Kind, parts: Iterable[Origins]) -> Origins:
    """The origins of what is made so of several values."""
    found: dict[tuple[str, str], frozenset[Kind]] = {}
    for part in parts:
        for origin, kinds in part.items():
            after = frozenset(kind.after(earlier) for earlier in kinds)
            found[origin] = found.get(origin, frozenset()) | after
    return found


@dataclass(frozen=True)
class Relation:
    """Named columns of a `FROM`."""

    name: str
    columns: Sequence[Column]

    def get(self, column: str) -> Sequence[Column]:
        """The columns of a name, of which there may be none or several."""
        return [one for one in self.columns if one[0] == column]


@dataclass
class Scope:
    """What names mean in one query, by Spark's rules: no case, its own tables first.

    Attributes:
        relations: what stands in its `FROM`.
        merged: columns that `USING` has made one of.
        aliases: what its own columns before are called.
        queries: what `WITH` names -> gives its columns.
        outer: the scope of the query around it.
    """

    relations: list[Relation] = field(default_factory=list)
    merged: dict[str, Origins] = field(default_factory=dict)
    aliases: dict[str, Origins | None] = field(default_factory=dict)
    queries: Mapping[str, Callable[[], Sequence[Column]]] = field(default_factory=dict)
    outer: Scope | None = None

    def resolve(self, parts: Sequence[str]) -> Origins:
        """The origins of a name with its qualifiers, and of a field of a struct.

        Raises:
            Untold: there is none, or it may mean several things.
        """
        found = self._own(parts)
        if found is not None:
            return found
        if parts[0] in self.aliases:
            return _told(self.aliases[parts[0]], nested=len(parts) > 1)
        if self.outer is None:
            raise Untold
        return self.outer.resolve(parts)

    def _own(self, parts: Sequence[str]) -> Origins | None:
        of_name = [relation for relation in self.relations if relation.name == parts[0]]
        found = [one for each in of_name for one in each.get(parts[1])] if len(parts) > 1 else []
        if found:
            return _told(_only(found)[1], nested=len(parts) > 2)  # x.column.field
        if parts[0] in self.merged:
            return _told(self.merged[parts[0]], nested=len(parts) > 1)
        found = [one for each in self.relations for one in each.get(parts[0])]
        return _told(_only(found)[1], nested=len(parts) > 1) if found else None

    def star(self, node: exp.Star, of: str = "") -> Iterator[Column]:
        """The columns of `*`, or of `of.*`.

        Raises:
            Untold: it says more than which columns are left out.
        """
        if {name for name, value in node.args.items() if value} - {"except_"}:
            raise Untold
        left_out = {_plain(each) for each in node.args.get("except_") or ()}
        relations = [each for each in self.relations if not of or each.name == of]
        if not relations:
            raise Untold  # of a struct
        once = {} if of else self.merged
        yield from (each for each in once.items() if each[0] not in left_out)
        for each in (column for relation in relations for column in relation.columns):
            if each[0] not in left_out and each[0] not in once:
                yield each


def _plain(node: Any) -> str:
    if len(getattr(node, "parts", ())) > 1:
        raise Untold  # a field of a struct
    return str(node.name).lower()


def _only(found: Sequence[Column]) -> Column:
    if len(found) > 1:
        raise Untold
    return found[0]


def _told(origins: Origins | None, *, nested: bool) -> Origins:
    if origins is None:
        raise Untold
    return made(Kind.TRANSFORMATION, [origins]) if nested else origins


_UNKNOWN: Final = (exp.Anonymous, exp.Any)
_OF_ANOTHER_ROW: Final = (exp.Lag, exp.Lead, exp.NthValue)


@dataclass(frozen=True)
class Expressions:
    """Reads expressions.

    Args:
        query: the columns of a query within one, in that one's scope.
        decides: takes what decides on rows, and how.
    """

    query: Callable[[exp.Expr, Scope], Sequence[Column]]
    decides: Callable[[Kind, Origins], None]

    def origins(self, node: exp.Expr, scope: Scope) -> Origins:
        """What the values of an expression come from.

        Raises:
            Untold: a name of it can't be told.
        """
        if isinstance(node, exp.Column):
            return self._column(node, scope)
        if isinstance(node, exp.Star):
            counted = isinstance(node.parent, exp.Count)
            return {} if counted else self._all(scope.star(node))
        if isinstance(node, (exp.Alias, exp.Paren)):
            return self.origins(node.this, scope)
        if isinstance(node, exp.Window):
            self.decides(Kind.WINDOW, self.of_window(node, scope))
            return self.origins(node.this, scope)
        if isinstance(node, (exp.Case, exp.If, exp.Nvl2, exp.Filter)):
            return self._conditional(node, scope)
        if isinstance(node, exp.Exists) and isinstance(node.this, exp.Query):
            self.query(node.this, scope)
            return {}
        if isinstance(node, exp.Query):
            return self._all(self.query(node, scope))
        children = (self.origins(child, scope) for child in node.iter_expressions())
        return made(_kind(node), children)

    def of_window(self, node: exp.Expr, scope: Scope) -> Origins:
        """What a window is cut by and sorted by; a name for one is told where it is defined."""
        parts = [*(node.args.get("partition_by") or ()), node.args.get("order")]
        return made(Kind.WINDOW, (self.origins(part, scope) for part in parts if part))

    def _column(self, node: exp.Column, scope: Scope) -> Origins:
        if isinstance(node.this, exp.Star):
            if node.args.get("db"):
                raise Untold
            return self._all(scope.star(node.this, node.table.lower()))
        return scope.resolve([part.name.lower() for part in node.parts])

    def _all(self, columns: Iterable[Column]) -> Origins:
        return made(Kind.TRANSFORMATION, [_told(each, nested=False) for _, each in columns])

    def _conditional(self, node: exp.Expr, scope: Scope) -> Origins:
        conditions, values = _branches(node)
        kind = Kind.IDENTITY if isinstance(node, exp.Filter) else Kind.TRANSFORMATION
        decided = made(Kind.CONDITIONAL, (self.origins(each, scope) for each in conditions))
        return made(
            Kind.IDENTITY,
            [decided, made(kind, (self.origins(each, scope) for each in values))],
        )


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


def _kind(node: exp.Expr) -> Kind:
    if isinstance(node, _UNKNOWN):
        return Kind.COMPUTED
    aggregates = isinstance(node, exp.AggFunc) and not isinstance(node, _OF_ANOTHER_ROW)
    return Kind.AGGREGATION if aggregates else Kind.TRANSFORMATION
