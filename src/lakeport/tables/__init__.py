"""Tables after a load: looking at them, asking them, keeping them in order.

The package can be called, as `lakeport.tables` is the name of a function, too:
`lakeport.tables("./lake")` lists a lake's tables, see `lake.tables`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Unpack

from lakeport.tables.table import Table

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import StoreKeys, Target
    from lakeport.tables.lake import LakeTable

__all__ = ["Table"]


class _Package(ModuleType):
    """A package that is a function."""

    def __call__(
        self, to: Target | DestinationConfig, **keys: Unpack[StoreKeys]
    ) -> list[LakeTable]:
        """List the tables of a lake; see `lake.tables`."""
        from lakeport.tables.lake import tables

        return tables(to, **keys)


sys.modules[__name__].__class__ = _Package
