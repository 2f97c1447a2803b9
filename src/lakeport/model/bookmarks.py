"""What a table remembers of its sources: it changes in the very commit that lands their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from lakeport.model.storage import Storage


@dataclass(frozen=True, slots=True)
class Remembered:
    """A bookmark as the table has it.

    Attributes:
        value: what the source wrote; empty when there is none.
        number: which of the bookmarks of that name it is; -1 when there is none.
    """

    value: Mapping[str, Any] = field(default_factory=dict)
    number: int = -1


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far a source has been read, once the batch that carries it is durable.

    Attributes:
        name: which of the table's bookmarks, such as `files` or `database public.orders`; stays
            the same from load to load.
        value: JSON; kilobytes at most.
        after: the number of the bookmark that the source went on from. Where another load has
            moved it since, the batch is refused whole.
        number: its own, by `Memory.next_number`, for sources whose next flush goes on from it;
            None: the writer gives it one.
    """

    name: str
    value: Mapping[str, Any]
    after: int = -1
    number: int | None = None


class Memory(Protocol):
    """What one table remembers. Reading it takes no Spark."""

    @property
    def storage(self) -> Storage:
        """Where the table is."""
        ...

    @property
    def folder(self) -> str:
        """The key of a folder beside the table's data, for files that bookmarks name.

        What no bookmark names is garbage: a load that failed may have left it.
        """
        ...

    def next_number(self, after: int) -> int:
        """A number for the bookmark that goes on from another one."""
        ...

    def bookmark(self, name: str) -> Remembered:
        """The bookmark of that name, as the table's newest version has it.

        Raises:
            DestinationError: the store refused, or the bookmark can't be read.
        """
        ...
