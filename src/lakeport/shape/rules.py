"""What a user says of a source's columns: their types, other names, and which are left out.

```
source        id  name  price(text)  note
rules         rename name=title   price is decimal(10,2)   drop note
table         id  title  price(decimal)
```
Every rule calls a column by the name that the source gives it. What comes behind (partition
columns, keys of a merge) goes by the names of the table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakeport.errors import ConfigError, SourceError
from lakeport.schema.named import like, listed, no_column


@dataclass(frozen=True)
class ColumnRules:
    """Rules for the columns of one stream.

    Attributes:
        types: column -> the type that its values get.
        rename: column -> its name in the table.
        drop: columns that are left out.
    """

    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.types or self.rename or self.drop)

    def applied(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """The columns that stay, each with its new name.

        Args:
            names: the source's columns.

        Raises:
            SourceError: a rule is for another column, a new name is taken, or no column is left.

        >>> ColumnRules(rename={"a": "b"}, drop=frozenset({"b"})).applied(["a", "b", "c"])
        [('a', 'b'), ('c', 'c')]
        """
        for what, column in self._named():
            if column not in names:
                raise absent(column, what, names)
        kept = [(name, self.rename.get(name, name)) for name in names if name not in self.drop]
        if names and not kept:
            raise SourceError(
                f"every column of the source is dropped: {listed(names)}", "keep one at least."
            )
        owners: dict[str, str] = {}
        for old, new in kept:
            other = owners.setdefault(new.lower(), old)
            if other != old and {old, other} & self.rename.keys():
                renamed, there = (old, other) if old in self.rename else (other, old)
                raise SourceError(
                    f"column {renamed!r} is renamed to {self.rename[renamed]!r}, which is the name "
                    f"of {there!r}",
                    "choose another name, or rename or drop the other column, too.",
                )
        return kept

    def left(self, names: Collection[str], source: Collection[str]) -> ColumnRules:
        """The rules without types of columns of the source that a query has left out.

        >>> rules = ColumnRules({"zip": pa.string(), "day": pa.date32()})
        >>> sorted(rules.left(["day"], ["zip", "day"]).types)
        ['day']
        """
        types = {n: t for n, t in self.types.items() if n in names or n not in source}
        return replace(self, types=types)

    def keys(self, names: Iterable[str], purpose: str) -> tuple[str, ...]:
        """Columns that the source itself takes for keys, by their names in the table.

        Args:
            names: what the source calls them.
            purpose: what they are for, such as `to merge by`.

        Raises:
            ConfigError: one of them is dropped.
        """
        wanted = tuple(names)
        lost = [name for name in wanted if name in self.drop]
        if lost:
            raise ConfigError(
                f"column {lost[0]!r} is dropped, and the source has it as a key {purpose}",
                "keep it, or name other columns as keys.",
            )
        return tuple(self.rename.get(name, name) for name in wanted)

    def _named(self) -> list[tuple[str, str]]:
        rules = {"declared": self.types, "renamed": self.rename, "dropped": sorted(self.drop)}
        return [(what, column) for what, columns in rules.items() for column in columns]


def absent(column: str, what: str, names: Iterable[str]) -> SourceError:
    """The error for a rule about a column that the source lacks.

    >>> print(absent("prise", "dropped", ["id", "price"]))
    column 'prise' is dropped, but the source has none of that name
    <BLANKLINE>
    Hint: it has 'price', 'id'.
    """
    return SourceError(
        f"column {column!r} is {what}, but the source has none of that name",
        no_column(column, names, "it has")
        if what == "declared"
        else f"it has {listed(like(column, names))}.",
    )
