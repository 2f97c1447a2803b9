"""Whether texts match patterns, told by Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa

from lakeport.loading.expressions.binding import Binder
from lakeport.loading.expressions.bound import Bound, Call, Constant
from lakeport.loading.expressions.coercion import need
from lakeport.loading.expressions.kernels import logic, texts
from lakeport.loading.expressions.patterns import is_portable
from lakeport.loading.expressions.select import Condition
from lakeport.loading.expressions.tokens import Beyond

__all__ = ["matching"]


def matching(patterns: Mapping[str, str], schema: pa.Schema) -> Condition | None:
    """Whether texts match as a whole, each column its pattern; None where Spark is to tell."""
    binder = Binder(schema)
    try:
        found = [_matched(binder, *one) for one in patterns.items()]
    except Beyond:
        return None
    return Condition(reduce(lambda a, b: Call(logic.both, (a, b), pa.bool_()), found))


def _matched(binder: Binder, column: str, pattern: str) -> Bound:
    if not is_portable(pattern):
        raise Beyond
    text = need(binder.column(column), pa.string())
    return Call(texts.matches, (text, Constant(pattern, pa.string())), pa.bool_())
