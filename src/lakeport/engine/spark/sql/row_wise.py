"""Whether a query makes of each row what it makes of it alone, as its analysed plan tells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["is_row_wise"]

_ROW_BY_ROW: Final = frozenset(
    {
        "CTERelationDef",
        "CTERelationRef",
        "Filter",
        "Generate",
        "Project",
        "SubqueryAlias",
        "WithCTE",
    }
)


def is_row_wise(frame: DataFrame, source: str) -> bool:
    """Whether a frame gives the same rows when its source comes piece by piece.

    So do projections, filters and what unfolds lists; whatever else there is, such as an
    aggregate, a window, a join, a limit, a subquery or a random number, may need all rows.

    Args:
        frame: not run; Spark has analysed it.
        source: the view that the pieces are of.
    """
    reads = 0
    for node in _nodes(frame._jdf.queryExecution().analyzed()):
        if _is_view(node, source):
            reads += 1
        elif node.getClass().getSimpleName() not in _ROW_BY_ROW or not _is_plain(node):
            return False
    return reads == 1


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    if plan.getClass().getSimpleName() != "View":
        for child in _each(plan.children()):
            yield from _nodes(child)


def _is_view(node: Any, name: str) -> bool:
    if node.getClass().getSimpleName() != "View":
        return False
    return str(node.desc().identifier().table()).lower() == name.lower()


def _is_plain(node: Any) -> bool:
    """Whether its expressions tell the same of the same row, whatever the others are."""
    return bool(node.subqueries().isEmpty()) and all(
        expression.deterministic() for expression in _each(node.expressions())
    )


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(i) for i in range(sequence.size()))
