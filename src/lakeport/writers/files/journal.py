"""The journal of runs with an id: what makes a repeated run add nothing twice to file tables.

One batch of a run has one place, `_lakeport/journal/<table>/<run id>/<sequence>`, and leaves two
kinds of objects there, all created and never overwritten, so that create permission is enough:

```
<sequence>.intent-0.json   before anything is published: every object's key and staging token
<sequence>.intent-1.json   an object had to take another name, or staging began anew
<sequence>.json            everything is published: files, rows, bytes, digest
```

The protocol, and what a repeated run finds after a crash at each step:

1. Objects are staged: not visible. *Crash*: nothing is on record; the batch is staged again, and
   the old staged objects are swept later.
2. The intent is written. *Crash*: no object is visible; the old staged ones are published.
3. Objects are published one by one, each under the key that the newest intent has; a name that is
   taken costs a new intent before the next name is tried. *Crash*: `Storage.owned` tells for each
   key whether it is ours; the others are published from their staging tokens. If a token is no
   longer good, what is visible of ours is deleted and the batch is staged again.
4. The done entry is written. *Crash before*: every object is owned, only the entry is added.
   *After*: the batch is skipped.
5. Staging names are dropped. *Crash*: they are swept later.

A done entry with another digest is a `RunMismatch`. Entries of a token whose name starts with `_`
(capabilities, bytes held back) are never written; everything else in it has to be JSON.

A load on this machine can be looked up. One on another machine is taken to be at work for as long
as publishing may take.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeport.errors import CommitConflict, DestinationError, ObjectExists, RunMismatch
from lakeport.host.process import is_there
from lakeport.model import Batch, Staged, Storage
from lakeport.writers.naming import HOME, as_utc, safe_segment

if TYPE_CHECKING:
    from lakeport.writers.base import TablePlan


_VERSION = 1

_LONGEST_SECONDS: Final = 600.0


@dataclass(frozen=True)
class PlannedObject:
    """One staged object and the key that it is published under."""

    staged: Staged
    key: str


@dataclass(frozen=True)
class Intent:
    """What a run is about to make visible for one batch.

    Attributes:
        digest: digest of the batch's input, by which a repeated run knows it again.
        objects: in the order in which they are published.
        next_ordinal: the lowest ordinal that no object of the batch has tried.
        names: what the keys are made of, for the writer.
        attempt: how many intents came before.
        bookmark: what the table remembers of a source, once the objects are visible.
        by: who publishes, see `publishing`; None where nobody asks.
    """

    digest: str
    objects: tuple[PlannedObject, ...]
    next_ordinal: int
    names: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 0
    bookmark: Mapping[str, Any] | None = None
    by: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class DoneEntry:
    """What a run made visible for one batch."""

    digest: str
    keys: tuple[str, ...]
    rows: int
    bytes: int
    bookmark: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Journal:
    """One run's entries for one table.

    Attributes:
        storage: where the lake is.
        run_id: names the run; any text.
        table: the table's folder below the root, date folders not included.
        home: folder of everything that is not data.
    """

    storage: Storage
    run_id: str
    table: str
    home: str = HOME

    def done(self, sequence: int, digest: str) -> DoneEntry | None:
        """Return what the run made visible of this batch; None if it has not finished it.

        Raises:
            RunMismatch: it was another content.
            DestinationError: the entry can't be read.
        """
        entry = self._read(self._key(sequence))
        if entry is None:
            return None
        found = _decode_done(entry)
        if found.digest != digest:
            raise self.mismatch(sequence)
        return found

    def intent(self, sequence: int) -> Intent | None:
        """Return the newest intent for this batch; None if there is none.

        Raises:
            DestinationError: the entry can't be read.
        """
        newest, attempt = None, 0
        while (entry := self._read(self._key(sequence, attempt))) is not None:
            newest, attempt = entry, attempt + 1
        if newest is None:
            return None
        objects = tuple(_decode_object(item) for item in newest["objects"])
        ordinal, names = newest["next_ordinal"], newest["names"]
        marked, by = newest.get("bookmark"), newest.get("by")
        return Intent(newest["digest"], objects, ordinal, names, attempt - 1, marked, by)

    def intend(self, sequence: int, intent: Intent) -> None:
        """Put an intent on record before its objects are published.

        Raises:
            CommitConflict: another process does the same run's batch at this moment.
            DestinationError: the store refuses.
        """
        entry = {
            "version": _VERSION,
            "digest": intent.digest,
            "next_ordinal": intent.next_ordinal,
            "names": dict(intent.names),
            "objects": [_describe_object(item) for item in intent.objects],
            **_bookmark_entry(intent.bookmark),
            **({} if intent.by is None else {"by": dict(intent.by)}),
        }
        self._create(self._key(sequence, intent.attempt), entry)

    def finish(self, sequence: int, done: DoneEntry) -> None:
        """Put on record that everything of a batch is visible.

        Raises:
            CommitConflict: another process did the same run's batch at this moment.
            DestinationError: the store refuses.
        """
        entry = {
            "version": _VERSION,
            "digest": done.digest,
            "keys": list(done.keys),
            "rows": done.rows,
            "bytes": done.bytes,
            **_bookmark_entry(done.bookmark),
        }
        self._create(self._key(sequence), entry)

    def newest(self) -> tuple[int, DoneEntry | None]:
        """The highest number of which everything is visible, and what that is; -1 for none.

        Raises:
            DestinationError: the store refuses.
        """
        names = (item.key.rpartition("/")[2] for item in self.storage.list(self._folder))
        numbers = (name.partition(".")[0] for name in names if name.count(".") == 1)
        newest = max((int(number) for number in numbers if number.isdecimal()), default=-1)
        entry = self._read(self._key(newest)) if newest >= 0 else None
        return (newest, _decode_done(entry)) if entry is not None else (-1, None)

    def prune(self, before: int) -> None:
        """Delete the entries of all batches below a number, which no repeated run asks for.

        Raises:
            DestinationError: the store refuses.
        """
        for entry in list(self.storage.list(self._folder)):
            number = entry.key.rpartition("/")[2].partition(".")[0]
            if number.isdecimal() and int(number) < before:
                self.storage.delete(entry.key)

    def mismatch(self, sequence: int) -> RunMismatch:
        """Return the error for a batch whose content is not the first run's."""
        return RunMismatch(
            f"run {self.run_id!r} landed another content as batch {sequence} of {self.table!r}",
            "repeat a run with the same input and batch sizes, or give it another `run_id`.",
        )

    @property
    def _folder(self) -> str:
        return f"{self.home}/journal/{safe_segment(self.table)}/{safe_segment(self.run_id)}"

    def _key(self, sequence: int, attempt: int | None = None) -> str:
        suffix = "" if attempt is None else f".intent-{attempt}"
        return f"{self._folder}/{sequence}{suffix}.json"

    def _read(self, key: str) -> dict[str, Any] | None:
        data = self.storage.get(key)
        if data is None:
            return None
        try:
            entry = json.loads(data)
            if entry["version"] == _VERSION:
                return dict(entry)
        except (ValueError, KeyError, TypeError):
            pass
        raise DestinationError(
            f"the journal entry {self.storage.uri(key)} can't be read",
            "it was not written by this version of lakeport: use another `run_id`.",
        )

    def _create(self, key: str, entry: Mapping[str, Any]) -> None:
        data = json.dumps(entry, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
        try:
            self.storage.put(key, data, create_only=True)
        except ObjectExists as error:
            if self.storage.get(key) != data:
                raise CommitConflict(
                    f"another process is landing run {self.run_id!r} into {self.table!r}",
                    "let it end, then repeat the run: what is landed already is skipped.",
                ) from error


def _decode_done(entry: Mapping[str, Any]) -> DoneEntry:
    keys, marked = tuple(entry["keys"]), entry.get("bookmark")
    return DoneEntry(entry["digest"], keys, entry["rows"], entry["bytes"], marked)


def _bookmark_entry(bookmark: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if bookmark is None else {"bookmark": dict(bookmark)}


def _describe_object(item: PlannedObject) -> dict[str, Any]:
    staged = item.staged
    return {
        "key": item.key,
        "staged_key": staged.key,
        "token": {k: v for k, v in staged.token.items() if not k.startswith("_")},
        "rows": staged.rows,
        "bytes": staged.bytes,
        "checksum": staged.checksum,
        "split": staged.split,
    }


def _decode_object(item: Mapping[str, Any]) -> PlannedObject:
    staged = Staged(
        key=item["staged_key"],
        token=item["token"],
        rows=item["rows"],
        bytes=item["bytes"],
        checksum=item["checksum"],
        split=item["split"],
    )
    return PlannedObject(staged, item["key"])


_publishing: Final[set[str]] = set()


@contextmanager
def publishing() -> Iterator[Callable[[], Mapping[str, Any]]]:
    """Register this load as an owner who publishes, while the body runs.

    Yields:
        Gives the owner's record for the journal, as JSON.
    """
    token = secrets.token_hex(8)
    _publishing.add(token)
    process = os.getpid()
    about = {"host": platform.node(), "process": process, "began": _began(process), "token": token}
    try:
        yield lambda: {**about, "at": time.time()}
    finally:
        _publishing.discard(token)


def may_publish(owner: Mapping[str, Any] | None) -> bool:
    """Whether the recorded owner may still be publishing.

    Args:
        owner: a record that `publishing` has given; None for none.

    >>> with publishing() as owner:
    ...     may_publish(owner())
    True
    >>> may_publish(owner())
    False
    """
    if owner is None:
        return False
    if owner["host"] != platform.node():
        return bool(time.time() - owner["at"] < _LONGEST_SECONDS)
    process, began = int(owner["process"]), owner["began"]
    if process == os.getpid() and began == _began(process):
        return owner["token"] in _publishing
    return _began(process) == began if began else is_there(process)


def _began(process: int) -> str:
    """When a process began, in the kernel's ticks, as its number may be another one's by now.

    Empty where the system does not tell, or there is none. Source: proc(5).
    """
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def write_manifest(
    storage: Storage,
    table: str,
    batch: Batch,
    plan: TablePlan,
    objects: Sequence[PlannedObject],
    singer_state: bytes | None = None,
) -> None:
    """Write `_lakeport/manifests/<table>/<YYYYMMDD-HHMMSS>-<id>.json`.

    Args:
        storage: where the lake is.
        table: the table's folder below the root.
        batch: what was landed.
        plan: how; it has the batch's columns and its one clock reading.
        objects: every object with its key.
        singer_state: the STATE that the load allows, as the raw JSON that came.

    Raises:
        DestinationError: the store refuses.
    """
    moment = as_utc(plan.detail.names.clock)
    untyped = [name for name in plan.schema.names if name in plan.untyped]
    content = {
        "stream": batch.stream,
        "table": storage.uri(table),
        "at": moment.isoformat(timespec="microseconds"),
        "rows": sum(planned.staged.rows for planned in objects),
        "bytes": sum(planned.staged.bytes for planned in objects),
        "files": [
            {
                "uri": storage.uri(planned.key),
                "rows": planned.staged.rows,
                "bytes": planned.staged.bytes,
                "checksum": planned.staged.checksum,
            }
            for planned in objects
        ],
        "schema": [{"name": column.name, "type": str(column.type)} for column in plan.schema],
        **({"untyped": untyped} if untyped else {}),
        "state": None if singer_state is None else singer_state.decode("utf-8", "replace"),
    }
    name = f"{moment:%Y%m%d-%H%M%S}-{secrets.token_hex(8)}.json"
    key = f"{HOME}/manifests/{safe_segment(table)}/{name}"
    data = json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
    storage.put(key, data, create_only=True)
