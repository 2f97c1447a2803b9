"""Undoing a run: the version before it comes back, in one commit that forgets the run as well.

The commit takes away the files that came since and brings back those that went, as RESTORE does,
and sets the run's own counters back: the same run repeated is not mistaken for one that is done.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeport.errors import CommitConflict, SourceError
from lakeport.tables.views import entry, gone
from lakeport.writers.delta_commit import DeltaLog, Restoration
from lakeport.writers.delta_history import Commit, CommitLog, app_id
from lakeport.writers.delta_log import parse_path, transaction_action
from lakeport.writers.delta_replay import Contents, file_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeport.model import Storage
    from lakeport.tables.place import Place

__all__ = ["RunCommits", "find_run", "undo"]

_HARMLESS = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "COMPUTE STATS", "REORG"})
_SHOWN = 10
_READERS = 8
_ADD_KEYS = (
    "path",
    "partitionValues",
    "size",
    "modificationTime",
    "stats",
    "tags",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
    "clusteringProvider",
)


@dataclass(frozen=True, slots=True)
class RunCommits:
    """A run's commits to one table.

    Attributes:
        versions: the versions that it made, oldest first.
        apps: the names under which Delta counts its batches.
    """

    versions: tuple[int, ...]
    apps: frozenset[str]


def find_run(commits: Iterable[Commit], run_id: str, uri: str) -> RunCommits:
    """Find a run's commits, and that nothing else has changed the table since.

    Args:
        commits: the table's commits, newest first.
        run_id: the run's id or name.
        uri: the table, as users name it.

    Raises:
        SourceError: the log has no such run, or it was undone.
        CommitConflict: others have changed the table since.
    """
    since: list[Commit] = []
    others: list[Commit] = []
    mine: list[Commit] = []
    known: dict[str, None] = {}
    undone_by = -1
    for commit, void_by in _effective(commits):
        name = _names(commit)
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
            "`lakeport table history` shows what came after.",
        )
    if not mine:
        named = ", ".join(list(known)[:_SHOWN]) or "none with a name"
        raise SourceError(
            f"the log of {uri} has no commit of a run {run_id!r}",
            f"the runs in it are, newest first: {named}.",
        )
    if others:
        raise CommitConflict(
            f"run {run_id!r} can't be undone: {uri} was changed since, by {_told(others)}",
            "undo those runs first, newest first; or `restore` an older version, which takes "
            "back all that came after it.",
        )
    start = app_id(run_id, "")
    apps = {name for commit in mine for name in commit.transactions if name.startswith(start)}
    return RunCommits(tuple(sorted(c.version for c in mine)), frozenset(apps))


def undo(
    spark: SparkSession, place: Place, run_id: str, contents: Callable[[int], Contents]
) -> dict[str, Any]:
    """Bring back the version before a run.

    Args:
        spark: a session that may write to the table.
        place: the table's.
        run_id: the run's id or name.
        contents: the table at a version.

    Raises:
        SourceError: there is no such run, no version before it, or files of that are gone.
        CommitConflict: others have changed the table since, or do so now.
    """
    log = CommitLog(place.storage, place.folder)
    txn = DeltaLog(spark, place.hadoop_uri).begin()
    run = find_run(log.back_from(txn.version), run_id, place.uri)
    before = run.versions[0] - 1
    if before < 0:
        raise SourceError(
            f"run {run_id!r} made {place.uri}: there is no version before it",
            "delete the table's folder, if nobody else uses it.",
        )
    then, now = contents(before), contents(txn.version)
    back, away = _beside(then, now), _beside(now, then)
    _check_files(place.storage, place.folder, back, place.uri, before)
    txn.read_all()
    if then.state.metadata != now.state.metadata:
        txn.set_metadata(json.dumps({"metaData": dict(then.state.metadata)}))
    removed = [txn.added(file) for file in away]
    txn.remove(removed)
    actions = [json.dumps({"add": _plain(file)}, ensure_ascii=False) for file in back]
    moment = int(time.time() * 1000)
    for name in sorted(run.apps):
        txn.watch(name)
        actions.append(transaction_action(name, -1, moment))
    metrics = {
        "numRestoredFiles": len(back),
        "restoredFilesSize": sum(int(file["size"]) for file in back),
        "numRemovedFiles": len(away),
        "removedFilesSize": sum(int(file["size"]) for file in away),
        "numOfFilesAfterRestore": len(then.files),
        "tableSizeAfterRestore": sum(int(file["size"]) for file in then.files),
    }
    version = txn.commit(actions, Restoration(before, metrics))
    return {"version": version, "restored": before, "undone": list(run.versions)}


def _effective(commits: Iterable[Commit]) -> Iterator[tuple[Commit, int]]:
    """Commits, each with the version that made it void, -1 for none.

    A commit that brings back an older version stands for that version: it is left out itself.
    """
    until, by = -1, -1
    for commit in commits:
        if by >= 0 and commit.version > until:
            yield commit, by
            continue
        by = -1
        if commit.restored is None:
            yield commit, by
        else:
            until, by = commit.restored, commit.version


def _names(commit: Commit) -> tuple[str, ...]:
    """The id and the name of the run that made a commit."""
    mark = commit.mark
    return () if mark is None else tuple(filter(None, (mark.run_id, mark.batch_id)))


def _told(others: Sequence[Commit]) -> str:
    """Versions, operations and who did them."""
    told = []
    for commit in others[:_SHOWN]:
        known = entry(commit)
        run, engine = known["run_id"], known["engine"]
        who = f"run {run}" if run else engine or "an unknown writer"
        told.append(f"version {commit.version} ({known['operation']} by {who})")
    more = len(others) - _SHOWN
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def _beside(these: Contents, those: Contents) -> list[Mapping[str, Any]]:
    """The files of one version that another does not have."""
    known = {file_id(file) for file in those.files}
    return [file for file in these.files if file_id(file) not in known]


def _plain(file: Mapping[str, Any]) -> dict[str, Any]:
    """An `add` action again, of what a commit or a checkpoint holds of it."""
    kept = {key: file[key] for key in _ADD_KEYS if file.get(key) is not None}
    return {**kept, "dataChange": True}


def _check_files(
    storage: Storage, folder: str, files: Sequence[Mapping[str, Any]], uri: str, version: int
) -> None:
    """Raise if one of the files is no longer there."""

    def there(file: Mapping[str, Any]) -> bool:
        if "://" in file["path"]:
            return True  # elsewhere, as in a clone: not ours to look at
        key = f"{folder}/{parse_path(file['path'])}".lstrip("/")
        return any(item.key == key for item in storage.list(key))

    with ThreadPoolExecutor(_READERS) as pool:
        if not all(pool.map(there, files)):
            raise gone(uri, version)
