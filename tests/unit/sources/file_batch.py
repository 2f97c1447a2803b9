"""Batches of files, as a load plans them, their rows, and packed content."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import zstandard

from lakeport.config.destinations.local import LocalConfig
from lakeport.model import Batch, Flush
from lakeport.sources.files.discovery import discover
from lakeport.sources.files.file_set import FileSet, TaskRunner, run_in_process
from lakeport.sources.files.files_source import file_flushes
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.options import ReadOptions
from lakeport.sources.spool import SpoolLocation

_OPTIONS = {field.name for field in fields(ReadOptions)}


def flushes_of(
    files: Sequence[SourceFile],
    stream: str,
    spool: SpoolLocation,
    run: TaskRunner = run_in_process,
    split_bytes: int = 64 << 20,
    **settings: Any,
) -> Iterator[Flush]:
    """The flush of files in a load with these keys of its config and of `ReadOptions`."""
    options = ReadOptions(**{key: settings.pop(key) for key in _OPTIONS & settings.keys()})
    config = LocalConfig(path="lake", **settings)
    return file_flushes(FileSet(files, stream, spool, config, options, run, split_bytes))


def file_batch(tmp_path: Path, *contents: bytes, name: str, **settings: Any) -> Batch:
    """The one batch of files with these contents, whose names end with `name`."""
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    spool = tmp_path / "spool"
    spool.mkdir(exist_ok=True)
    for number, content in enumerate(contents):
        (folder / f"{number}{name}").write_bytes(content)
    return planned(folder, spool, **settings)


def planned(source: Path, spool: Path | None = None, **settings: Any) -> Batch:
    """The one batch of a file or folder; it is spooled beside it if need be."""
    files = discover([str(source)])
    (flush,) = flushes_of(files, "t", SpoolLocation(spool or source.parent), **settings)
    assert flush.last
    (batch,) = flush.batches
    return batch


def read_table(batch: Batch) -> pa.Table:
    """The rows of all splits, read by the batch's reader once it was pickled."""
    reader = pickle.loads(pickle.dumps(batch.reader))
    found = [rows for split in batch.splits for rows in reader.read(split)]
    return pa.Table.from_batches(found, reader.schema)


def rows(batch: Batch, *, skip_bad: bool = False) -> list[dict[str, Any]]:
    """The rows of all splits; with `skip_bad` without the bad records."""
    if skip_bad:
        assert batch.reader is not None
        batch = replace(batch, reader=batch.reader.skip_bad_records())
    return read_table(batch).to_pylist()  # type: ignore[no-any-return]


def zipped(data: bytes) -> bytes:
    """An archive of one CSV file."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", data)
    return target.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
    "zip": zipped,
}
"""Suffix -> what packs a content as a file of that name."""
