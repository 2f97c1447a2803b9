"""Rows that share a cursor's last value: a digest of 16 bytes for each, in a file beside the data.

The bookmark names the file, which is written before the commit and never changed. One that is not
named any more stays for thirty days at least, unless it was older when another took its place.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import DestinationError

if TYPE_CHECKING:
    from lakeport.model import Memory

MOST_ROWS: Final = 100_000
"""Rows that are told apart; so many texts a database takes in one condition."""

_WIDTH: Final = 16
_TYPE: Final = pa.binary(_WIDTH)
_KEPT: Final = 30 * 24 * 3600.0  # seconds, as long as Delta keeps its log
_NONE: Final = pa.array([], _TYPE)


def digests(texts: Iterable[str]) -> pa.Array:
    """The digests of texts that tell rows apart."""
    data = (str(text).encode("utf-8", "surrogatepass") for text in texts)
    return pa.array([hashlib.blake2b(one, digest_size=_WIDTH).digest() for one in data], _TYPE)


def told(
    batches: Iterable[pa.RecordBatch], known: pa.Array = _NONE
) -> tuple[Sequence[str] | None, Sequence[str]]:
    """The texts that tell rows apart, each once: of those that are not known, and of the others.

    Args:
        batches: with one column, of such texts.
        known: digests, `MOST_ROWS` of them at most.

    Returns:
        In place of the first ones None, where there are more than `MOST_ROWS`.
    """
    old, new = dict[str, None](), dict[str, None]()
    for batch in batches:
        texts = batch.column(0)
        is_old = pc.is_in(digests(texts.to_pylist()), known)
        old.update(dict.fromkeys(texts.filter(is_old).to_pylist()))
        if len(new) <= MOST_ROWS:
            new.update(dict.fromkeys(texts.filter(pc.invert(is_old)).to_pylist()))
    return None if len(new) > MOST_ROWS else tuple(new), tuple(old)


def count_changed(batch: pa.RecordBatch, known: pa.Array) -> int:
    """How many rows have known keys, but are not known as they are.

    Args:
        batch: with two columns of texts: what tells the keys, and what tells the whole rows.
        known: digests of such texts.
    """
    keys, rows = (pc.is_in(digests(texts.to_pylist()), known) for texts in batch.columns)
    return int(pc.sum(pc.and_not(keys, rows)).as_py() or 0)


@dataclass(frozen=True)
class LandedRows:
    """The files of one bookmark.

    Attributes:
        memory: the table's.
        bookmark: the bookmark's name.
    """

    memory: Memory
    bookmark: str

    def read(self, kept: Mapping[str, Any]) -> pa.Array | None:
        """The digests that a bookmark names; None if their file is gone.

        Raises:
            DestinationError: the store refused, or the file is damaged.
        """
        key = self._key(kept["file"])
        data = self.memory.storage.get(key)
        if data is not None and len(data) != kept["rows"] * _WIDTH:
            raise DestinationError(
                f"{self.memory.storage.uri(key)} is damaged, and tells which rows have landed",
                "bring it back from a copy, or land all anew with a full refresh.",
            )
        return data and pa.Array.from_buffers(_TYPE, kept["rows"], [None, pa.py_buffer(data)])

    def kept(
        self, texts: Sequence[str], before: Mapping[str, Any] | Sequence[str] | None
    ) -> tuple[dict[str, Any], Callable[[], None]]:
        """What a bookmark says of rows, and what writes their digests; call it before the commit.

        Args:
            texts: what tells the rows apart.
            before: what the bookmark says so far; a file that it names stays.
        """
        name = f"{secrets.token_hex(16)}.digests"
        named = {name, *([before["file"]] if isinstance(before, Mapping) else ())}

        def write() -> None:
            data = b"".join(digests(texts).to_pylist())
            self.memory.storage.put(self._key(name), data)
            self._sweep(named)

        return {"file": name, "rows": len(texts)}, write

    def _sweep(self, named: set[str]) -> None:
        """Remove old files, but for those that are named now or were so far."""
        storage, old = self.memory.storage, time.time() - _KEPT
        with suppress(DestinationError):  # it may not be allowed, and can wait
            for found in storage.list(self._key("").rstrip("/")):
                if found.modified < old and found.key.rpartition("/")[2] not in named:
                    storage.delete(found.key)

    def _key(self, name: str) -> str:
        return f"{self.memory.folder}/cursors/{quote(self.bookmark, safe='')}/{name}"
