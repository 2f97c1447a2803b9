"""Content that a table has had before: told by what appends leave in the table's log.

An append of files leaves a `txn` action of its own name for what was read, and an overwrite one for
itself: content from before it is not in the table any more. Bringing an older version back sets
them back, as it does with runs. Source: Delta's protocol, transaction identifiers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lakeport.writers.delta.log.actions import transaction_action

if TYPE_CHECKING:
    from lakeport.writers.delta.commit.log_transaction import TableTransaction

__all__ = ["NOT_TOLD", "KnownContent", "overwritten"]

_OVERWRITTEN: Final = "lakeport::overwritten"  # no run has an empty id


@dataclass(frozen=True, slots=True)
class KnownContent:
    """What an append brings.

    Attributes:
        digest: its name; empty where it is not to be known again.
        once: whether it is left out where the table has it.
    """

    digest: str = ""
    once: bool = False

    @property
    def _app(self) -> str:
        return f"lakeport::content:{self.digest}"

    def landed(self, txn: TableTransaction) -> bool:
        """Whether the table has had it since it was last overwritten, by an append like this."""
        if not self.digest:
            return False
        if self.once:
            txn.watch(self._app)  # of two at a time, the second is to find the first one's
        at = txn.last_transaction(self._app)
        # An overwrite that comes second is made anew on what came first: its number is higher.
        return at >= 0 and at >= txn.last_transaction(_OVERWRITTEN)

    def actions(self, version: int, moment: int) -> list[str]:
        """What the commit leaves in the log.

        Args:
            version: that it makes, if no other comes first.
            moment: milliseconds since 1970.
        """
        return [transaction_action(self._app, version, moment)] if self.digest else []


NOT_TOLD: Final = KnownContent()


def overwritten(version: int, moment: int) -> str:
    """What an overwrite leaves in the log; for the arguments see `KnownContent.actions`."""
    return transaction_action(_OVERWRITTEN, version, moment)
