"""Bring back an older version of a table: a given one, or the one before a run.

One commit takes away the files that came since and brings back those that went, as Delta's RESTORE
does, but without a Spark job; a plain table needs no Spark at all. The commit sets the counters of
runs back, too: the same run repeated is not taken for one that is done.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from lakeport.delta_log.actions import DataFile, count_rows, transaction_action
from lakeport.delta_log.reader import ALL, Commit, Contents, DeltaLog, LogFiles
from lakeport.delta_log.transactions import CommitInfo
from lakeport.destinations import delta_session
from lakeport.engine.threads import require_spark
from lakeport.errors import CommitConflict, SourceError
from lakeport.lake.records import RestoreReport, UndoReport
from lakeport.lake.snapshots import classify_data_file
from lakeport.lake.versions import MAINTENANCE, build_history_entry
from lakeport.schema.hints import format_command
from lakeport.units import pluralize
from lakeport.writers.delta.commit import TableTransaction
from lakeport.writers.delta.plain import is_plain
from lakeport.writers.files.journal import list_run_entries
from lakeport.writers.files.manifests import iterate_manifests

if TYPE_CHECKING:
    from lakeport.lake.location import TableLocation

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
            if commit.info.get("operation") not in MAINTENANCE:
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
            (
                "undo those runs first, newest first; or "
                if all(map(_list_run_names, others))
                else ""
            )
            + "`restore` an older version, which takes back all that came after it.",
        )
    undone = tuple(sorted(commit.version for commit in mine))
    if undone[0] == 0:
        raise SourceError(
            f"run {run_id!r} made {uri}: there is no version before it",
            f"{format_command('table', 'drop', uri)} takes the whole table away.",
        )
    return undone


def find_last_run(commits: Iterable[Commit], uri: str) -> str:
    """Return the id or name of the run that changed a table last; raise if another program did.

    The table's commits come newest first. Undone runs, and maintenance, are passed over.

    Raises:
        SourceError: the log has no run, or another program has changed the table since.
    """
    for commit, void_by in _mark_void_commits(commits):
        if void_by >= 0 or commit.info.get("operation") in MAINTENANCE:
            continue
        if name := next(iter(_list_run_names(commit)), ""):
            return name
        restored = format_command("table", "restore", uri, "--version", str(commit.version - 1))
        raise SourceError(
            f"no run of lakeport made the last change of {uri}: {_format_commits([commit])}",
            f"{restored} brings back the version before it."
            if commit.version
            else f"{format_command('table', 'drop', uri)} takes the whole table away.",
        )
    raise SourceError(
        f"the log of {uri} names no run that could be undone",
        f"{format_command('table', 'history', uri)} shows what it has.",
    )


def plan_undo(location: TableLocation, files: LogFiles, run_id: str) -> UndoReport:
    """Return what undoing a run (id or name; empty: the last one) would do; change nothing.

    Raises:
        SourceError: there is no such run, no version before it, or files of that are gone.
        CommitConflict: others have changed the table since.
    """
    log, uri, newest = location.log, location.uri, files.newest
    run_id = run_id or find_last_run(log.commits_back_from(newest), uri)
    undone = find_run_versions(log.commits_back_from(newest), run_id, uri)
    then, now = files.read_contents(undone[0] - 1), files.read_contents(newest)
    _check_files_exist(location, files, then, now)
    last = log.read_commit(undone[-1])
    return UndoReport(
        run_id=run_id,
        committed=None if last is None else build_history_entry(last).timestamp,
        rows_before=count_rows(now.files),
        rows_after=count_rows(then.files),
        version=newest,
        restored=undone[0] - 1,
        undone=undone,
        dry_run=True,
    )


def undo(location: TableLocation, run_id: str) -> UndoReport:
    """Undo a run (id or name): commit the contents of the version before it as a new version.

    Raises:
        SourceError: there is no such run, no version before it, or files of that are gone.
        CommitConflict: others have changed the table since, or do so now.
    """
    with _begin_transaction(location, "`undo`") as txn:
        files = location.log.list_files()
        plan = plan_undo(location, files, run_id)
        version = _commit_old_contents(txn, location, files, plan.undone[0] - 1)
    return replace(plan, version=version, dry_run=False)


def undo_files(location: TableLocation, run_id: str, *, dry_run: bool) -> UndoReport:
    """Delete a run's files from a table of files, by its manifests; with `dry_run` only report it.

    Args:
        run_id: the run's id or name; empty for the last one.

    Raises:
        SourceError: no manifest names the run, or the run made the table.
        CommitConflict: later runs have read on where the run stopped.
    """
    lake, folder = location.find_lake()
    loads = sorted(iterate_manifests(lake, folder), key=lambda load: load[1].at)
    keys = [item.key for item in lake.list(folder)]
    found = {key for key in keys if classify_data_file(key.removeprefix(f"{folder}/"))}
    runs = dict.fromkeys(load.run_id for _, load in reversed(loads) if load.run_id)
    run_id = run_id or next(iter(runs), "")
    if run_id not in runs:
        named = ", ".join([*runs][:_SHOWN]) or "none"
        raise SourceError(
            f"no manifest of {location.uri} names " + (f"run {run_id!r}" if run_id else "a run"),
            "loads leave one with `manifest: true`, and an undo deletes it. The runs in them are, "
            f"newest first: {named}.",
        )
    rows = {key: n for _, load in loads for key, n in load.file_rows(folder).items()}
    mine = [(key, load) for key, load in loads if load.run_id == run_id]
    files = {key for _, load in mine for key in load.file_rows(folder)} & found
    if files == found:
        raise SourceError(
            f"run {run_id!r} made {location.uri}: no other run has landed a file there",
            f"{format_command('table', 'drop', location.uri)} takes the whole table away.",
        )
    entries = list_run_entries(lake, folder, run_id, files)
    if not dry_run:
        # The manifests go last: a command that is interrupted can be repeated.
        for key in [*sorted(files), *entries, *(key for key, _ in mine)]:
            lake.delete(key)
    counts = [rows.get(key) for key in found], [rows.get(key) for key in found - files]
    before, after = (None if None in each else sum(filter(None, each)) for each in counts)
    return UndoReport(run_id, mine[-1][1].at, before, after, deleted=len(files), dry_run=dry_run)


def restore(location: TableLocation, version: int) -> RestoreReport:
    """Commit the contents of an older version as a new one.

    Raises:
        SourceError: files of that version are gone.
        CommitConflict: others change the table at the same time.
    """
    with _begin_transaction(location, "RESTORE") as txn:
        made = _commit_old_contents(txn, location, location.log.list_files(), version)
    return RestoreReport(made, version)


@contextmanager
def _begin_transaction(location: TableLocation, operation: str) -> Iterator[TableTransaction]:
    """Yield a transaction on the newest version; Spark starts for tables that are not plain.

    Raises ConfigError if the table needs Spark and the engine has none; `operation` is its name.
    """
    contents = location.log.read_newest_contents(ALL)
    with location.open_engine() as engine:
        config, storage = location.config, location.storage
        session = delta_session(config, storage, engine, location.folder)
        by_log = engine.commits_by_log and contents is not None and is_plain(contents.state)
        if not by_log:
            require_spark(engine, operation)
        yield TableTransaction(location.log, contents, None if by_log else session)


def _commit_old_contents(
    txn: TableTransaction, location: TableLocation, files: LogFiles, version: int
) -> int:
    """Commit the files, metadata and run counters of an older version; return the new version.

    Raises SourceError if data files of the older version are missing.
    """
    log = location.log
    then, now = (files.read_contents(number) for number in (version, txn.version))
    _check_files_exist(location, files, then, now)
    back, away = _diff_files(then, now), _diff_files(now, then)
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


def _check_files_exist(
    location: TableLocation, files: LogFiles, then: Contents, now: Contents
) -> None:
    """Raise SourceError if a version lacks data files; it names them, and versions that are whole.

    Files that the newest version has, too, are not looked up.
    """
    log, version = location.log, then.state.version
    missing = log.find_missing(_diff_files(then, now))
    if not missing:
        return

    def is_whole(number: int) -> bool:
        return not log.find_missing(_diff_files(files.read_contents(number), now))

    # VACUUM deletes what went first: from the first whole version on, all are.
    later = range(version + 1, now.state.version)
    first = version + 1 + bisect_left(later, True, key=is_whole)
    command = format_command("table", "restore", location.uri, "--version", str(first))
    shown = ", ".join(missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
    raise SourceError(
        f"version {version} of {location.uri} lacks data files that it had: "
        f"{len(missing)} of {pluralize(len(then.files), 'file')}, {shown}",
        "`vacuum`, or somebody else, has deleted them, and they can't be brought back. "
        + (
            f"The oldest version that can is {first}: {command}."
            if first < now.state.version
            else "No older version can."
        ),
    )


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
