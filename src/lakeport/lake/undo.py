"""Bring back an older version of a table: a given one, or the one before a run.

One commit takes away the files that came since and brings back those that went, as Delta's RESTORE
does, but without a Spark job. It sets the counters of runs back, too: the same run repeated is not
taken for one that is done.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from lakeport.delta_log.actions import DataFile, transaction_action
from lakeport.delta_log.reader import ALL, Commit, Contents, DeltaLog
from lakeport.delta_log.transactions import CommitInfo
from lakeport.errors import CommitConflict, SourceError
from lakeport.lake.records import RestoreReport, UndoReport
from lakeport.lake.snapshots import missing_files_error
from lakeport.lake.versions import build_history_entry
from lakeport.schema.hints import format_command
from lakeport.writers.delta.commit import TableTransaction

if TYPE_CHECKING:
    from lakeport.engine.spark.delta.session import DeltaSession
    from lakeport.lake.location import TableLocation

_HARMLESS = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "COMPUTE STATS", "REORG"})
_OURS = "lakeport:"
_SHOWN = 10


def find_run_versions(commits: Iterable[Commit], run_id: str, uri: str) -> tuple[int, ...]:
    """Return the versions of a run (id or name), oldest first; raise if it can't be undone.

    The table's commits come newest first.

    Raises:
        SourceError: the log has no such run, it was undone, or no version is before it.
        CommitConflict: others have changed the table since.
    """
    since: list[Commit] = []
    others: list[Commit] = []
    mine: list[Commit] = []
    known: dict[str, None] = {}
    undone_by = -1
    for commit, void_by in _mark_void_commits(commits):
        name = _list_run_names(commit)
        if void_by >= 0:
            undone_by = void_by if run_id in name else undone_by
        elif run_id in name:
            mine.append(commit)
            others += since
            since = []
        else:
            known.update(dict.fromkeys(name))
            if commit.info.get("operation") not in _HARMLESS:
                since.append(commit)
    if not mine and undone_by >= 0:
        raise SourceError(
            f"run {run_id!r} was undone already, by version {undone_by} of {uri}",
            f"{format_command('table', 'history', uri)} shows what came after.",
        )
    if not mine:
        named = ", ".join(list(known)[:_SHOWN]) or "none with a name"
        raise SourceError(
            f"the log of {uri} has no commit of a run {run_id!r}",
            f"the runs in it are, newest first: {named}.",
        )
    if others:
        raise CommitConflict(
            f"run {run_id!r} can't be undone: {uri} was changed since, by "
            f"{_format_commits(others)}",
            "undo those runs first, newest first; or `restore` an older version, which takes "
            "back all that came after it.",
        )
    undone = tuple(sorted(commit.version for commit in mine))
    if undone[0] == 0:
        raise SourceError(
            f"run {run_id!r} made {uri}: there is no version before it",
            "delete the table's folder, if nobody else uses it.",
        )
    return undone


def undo(session: DeltaSession, location: TableLocation, run_id: str) -> UndoReport:
    """Undo a run (id or name): commit the contents of the version before it as a new version.

    Raises:
        SourceError: there is no such run, no version before it, or files of that are gone.
        CommitConflict: others have changed the table since, or do so now.
    """
    log = location.log
    txn = _begin_transaction(session, log)
    undone = find_run_versions(log.commits_back_from(txn.version), run_id, location.uri)
    before = undone[0] - 1
    return UndoReport(_commit_old_contents(txn, location, before), before, undone)


def restore(session: DeltaSession, location: TableLocation, version: int) -> RestoreReport:
    """Commit the contents of an older version as a new one.

    Raises:
        SourceError: files of that version are gone.
        CommitConflict: others change the table at the same time.
    """
    log = location.log
    made = _commit_old_contents(_begin_transaction(session, log), location, version)
    return RestoreReport(made, version)


def _begin_transaction(session: DeltaSession, log: DeltaLog) -> TableTransaction:
    """Read the newest version; return a transaction on it."""
    return TableTransaction(log, log.read_newest_contents(ALL), lambda: session)


def _commit_old_contents(txn: TableTransaction, location: TableLocation, version: int) -> int:
    """Commit the files, metadata and run counters of an older version; return the new version.

    Raises SourceError if data files of the older version are missing.
    """
    log = location.log
    files = log.list_files()
    then, now = (files.read_contents(number) for number in (version, txn.version))
    back, away = _diff_files(then, now), _diff_files(now, then)
    if log.find_missing(back):
        raise missing_files_error(location.uri, version)
    txn.read_all()
    was, is_now = _drop_null_metadata(then), _drop_null_metadata(now)
    if was != is_now:
        txn.set_metadata(json.dumps({"metaData": was}, ensure_ascii=False))
    txn.remove(away)
    actions = [file.add_action() for file in back]
    for name, count in _read_run_counters(log, version, txn.version).items():
        txn.watch(name)
        actions.append(transaction_action(name, count, int(time.time() * 1000)))
    metrics = {
        "numRestoredFiles": len(back),
        "restoredFilesSize": sum(file.bytes for file in back),
        "numRemovedFiles": len(away),
        "removedFilesSize": sum(file.bytes for file in away),
        "numOfFilesAfterRestore": len(then.files),
        "tableSizeAfterRestore": sum(file.bytes for file in then.files),
    }
    return txn.commit(actions, CommitInfo(name="RESTORE", version=version, metrics=metrics))


def _read_run_counters(log: DeltaLog, version: int, newest_version: int) -> dict[str, int]:
    """Return lakeport's `txn` numbers at a version (-1: none), for ids that later commits use."""
    commits = log.commits_back_from(newest_version)
    later = takewhile(lambda commit: commit.version > version, commits)
    names = {name for commit in later for name in commit.transactions if name.startswith(_OURS)}
    return log.last_transactions(version, sorted(names))


def _mark_void_commits(commits: Iterable[Commit]) -> Iterator[tuple[Commit, int]]:
    """Yield each commit, newest first, with the version whose RESTORE undid it; -1 if none did.

    A restoring commit stands for the version that it brings back.
    """
    until, by = -1, -1
    for commit in commits:
        if by >= 0 and commit.version > until:
            yield commit, by
            continue
        by = -1
        if commit.restored_version is None:
            yield commit, by
        else:
            until, by = commit.restored_version, commit.version


def _list_run_names(commit: Commit) -> tuple[str, ...]:
    """Return id and name of the run that made a commit; empty for other programs."""
    mark = commit.mark
    return () if mark is None else tuple(filter(None, (mark.run_id, mark.batch_id)))


def _format_commits(commits: Sequence[Commit]) -> str:
    """List version, operation and writer of the first ten commits as text, and count the others."""
    texts = []
    for commit in commits[:_SHOWN]:
        entry = build_history_entry(commit)
        writer = f"run {entry.run_id}" if entry.run_id else entry.engine or "an unknown writer"
        texts.append(f"version {commit.version} ({entry.operation} by {writer})")
    more = len(commits) - _SHOWN
    return ", ".join(texts) + (f" and {more} more" if more > 0 else "")


def _diff_files(these: Contents, those: Contents) -> list[DataFile]:
    """Return the files of one version that another version lacks."""
    known = {file.identity for file in those.files}
    return [file for file in these.files if file.identity not in known]


def _drop_null_metadata(contents: Contents) -> dict[str, Any]:
    """Return the `metaData` action without null values, which only checkpoints have."""
    return {key: value for key, value in contents.state.metadata.items() if value is not None}
