"""Content that a table has had before: told by what appends leave in the table's log.

An append of files leaves a `txn` action of its own name for each file that was read, and an
overwrite one for itself: content from before it is not in the table any more. Bringing an older
version back sets them back, as it does with runs. Source: Delta's protocol, transaction
identifiers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lakeport.writers.base import LandedBefore
from lakeport.writers.delta.log.actions import transaction_action
from lakeport.writers.delta.log.transactions import CONTENT

if TYPE_CHECKING:
    from lakeport.writers.delta.commit.log_transaction import TableTransaction

LEFT_OUT: Final = "nothing was added: the table has had this content before"
_OVERWRITTEN: Final = "lakeport::overwritten"  # no run has an empty id
_ONCE: Final = "`once: true` (`--once`) leaves out what was landed before"


@dataclass(frozen=True, slots=True)
class KnownContent:
    """What an append brings.

    Attributes:
        files: file -> the name of its content; none where it is not to be known again.
        once: whether what the table has is left out.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    once: bool = False

    def landed(self, txn: TableTransaction) -> frozenset[str]:
        """The files that the table has had since it was last overwritten, by appends like this."""
        if not self.files:
            return frozenset()
        # An overwrite that comes second is made anew on what came first: its number is higher.
        apps = {file: CONTENT + name for file, name in self.files.items()}
        if self.once:
            for app in apps.values():
                txn.watch(app)  # of two at a time, the second is to find the first one's
        known = txn.last_transactions({*apps.values(), _OVERWRITTEN})
        since = max(0, known[_OVERWRITTEN])
        return frozenset(file for file, app in apps.items() if known[app] >= since)

    def without(self, again: Collection[str]) -> LandedBefore:
        """What has the other files landed without those that the table has had."""
        some = f"{len(again):,} of {len(self.files):,} files"
        return LandedBefore(again, f"left out {some}: the table has had their content before")

    def twice(self, again: Collection[str]) -> str:
        """A line about files that the table has twice now."""
        if len(again) == len(self.files):
            return f"the table had this content before, and has its rows twice now; {_ONCE}"
        some = f"{len(again):,} of these {len(self.files):,} files"
        return f"the table had {some} before, whose rows are there twice now; {_ONCE}"

    def actions(self, version: int, moment: int) -> list[str]:
        """What the commit leaves in the log.

        Args:
            version: that it makes, if no other comes first.
            moment: milliseconds since 1970.
        """
        names = dict.fromkeys(self.files.values())
        return [transaction_action(CONTENT + name, version, moment) for name in names]


NOT_TOLD: Final = KnownContent()


def overwritten(version: int, moment: int) -> str:
    """What an overwrite leaves in the log; for the arguments see `KnownContent.actions`."""
    return transaction_action(_OVERWRITTEN, version, moment)
