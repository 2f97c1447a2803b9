"""pandas, hidden from pyarrow where nobody has a frame of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder


@contextmanager
def pandas_hidden() -> Iterator[None]:
    """Have imports of pandas fail for as long as the body runs, unless it is loaded already.

    pyarrow imports it before it converts its first value, to know its types, which takes 0.3 s of
    a small load. It looks once; whoever calls pyarrow's `to_pandas` makes it look again.
    """
    nothing = _NoPandas()
    sys.meta_path.insert(0, nothing)
    try:
        yield
    finally:
        sys.meta_path.remove(nothing)


class _NoPandas(MetaPathFinder):
    """Says that there is no pandas."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
