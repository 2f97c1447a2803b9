"""What became of a commit that failed: the table's log tells, before anything is done about it.

Every way to commit ends here when it fails, on every store. An answer may be lost, or say that
the version exists because the first of two requests has made it. So nothing is skipped, planned
again or deleted before the log was read:
```
failure ─▶ read the log ─┬─ names our commit ──▶ it landed
                         ├─ does not ──────────▶ the failure, as it was raised
                         └─ nobody can tell ───▶ OutcomeUnknown
```
"""

from __future__ import annotations

from collections.abc import Callable

from lakeport.engine.spark.failures import lost_call
from lakeport.errors import LakeportError, OutcomeUnknown, Unreachable, causes
from lakeport.schema.named import command
from lakeport.writers.delta.log.commits import Commit, CommitLog

_HINT = (
    "nothing was deleted. Repeat the load with the same `run_id`: what has landed is not landed "
    "again. A load without one is in {history} by its run's name, if it landed."
)


def settle(
    log: CommitLog, ours: Callable[[Commit], bool], read: int, failure: LakeportError
) -> Commit:
    """The commit that was made, although its maker was told otherwise.

    Args:
        log: the table's log, which names each commit that was made.
        ours: tells our own commit.
        read: the version that it was to follow, or an earlier one.
        failure: what its maker was told.

    Raises:
        OutcomeUnknown: the log can't be read, or it does not name the commit, but nobody has
            refused it either, so that it may be made yet.
        LakeportError: `failure`: the commit was not made.
    """
    told = f"whether the commit to {log.uri} was made is unknown: {failure.message}"
    hint = _HINT.format(history=command("table", "history", log.uri))
    if failure.hint and not isinstance(failure, OutcomeUnknown):
        hint = f"{hint} Before that: {failure.hint}"
    if _unanswered(failure):
        log.shorten_deadline()  # the store has had the time that it gets
    try:
        found = next(filter(ours, log.since(read)), None)
    except LakeportError as unread:
        text = f"{told}; and the table's log can't be read: {unread.message}"
        raise OutcomeUnknown(text, hint) from failure
    if found is not None:
        return found
    if _unanswered(failure):
        raise OutcomeUnknown(f"{told}; the table's log does not name it so far", hint) from failure
    raise failure


def _unanswered(error: BaseException) -> bool:
    """Whether the JVM or the store did not answer, so that the commit may be under way yet."""
    silent = (OutcomeUnknown, Unreachable)
    return any(isinstance(cause, silent) or lost_call(cause) for cause in causes(error))
