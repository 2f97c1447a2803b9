"""Files as a source: CSV, JSON, JSON lines and Parquet, as one batch of splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lakeport.errors import ConfigError
from lakeport.model import Batch, Flush, Reader, Split, UnknownPolicy
from lakeport.schema.types import Field
from lakeport.sources.csv.options import CsvOptions
from lakeport.sources.files.declared import declared_fields, is_json_schema
from lakeport.sources.files.folders import FolderReader, folder_fields, with_folders
from lakeport.sources.input.plain import SourceFile, digest_of, is_packed, is_utf8, spool_plain
from lakeport.sources.input.unpacking import DEFAULT, UnpackLimits
from lakeport.sources.spool.location import SpoolLocation

__all__ = ["FileSource", "Run", "run_here"]

_THREADS = 8

Run = Callable[[Callable[[Any], list[Any]], Sequence[Any]], list[Any]]
"""Runs a picklable function on every item and joins the lists that it returns, in any order."""


def run_here(function: Callable[[Any], list[Any]], items: Sequence[Any]) -> list[Any]:
    """Run in this process, one after another.

    >>> run_here(lambda n: [n, n], [1, 2])
    [1, 1, 2, 2]
    """
    return [result for item in items for result in function(item)]


@dataclass(frozen=True, slots=True)
class Planned:
    """What a format's planning found: how to read the files, and in which pieces.

    Attributes:
        reader: the source kernel.
        splits: what the tasks read.
        bytes: input size, decompressed.
        output_ratio: guess of Parquet bytes per input byte.
        records: number of records, -1 when unknown.
        warnings: see `Batch.warnings`.
    """

    reader: Reader
    splits: tuple[Split, ...]
    bytes: int
    output_ratio: float
    records: int = -1
    warnings: tuple[str, ...] = ()


class FileSource:
    """Iterates exactly one flush with one batch: all rows of all files.

    Compressed and transcoded files, and those that tasks can't reach where they are, are first
    written to the spool as plain ones, so that tasks can share one big file and line numbers are
    right.

    Args:
        files: what `discover` found, all of one format.
        stream: the stream's name.
        spool_dir: an existing folder; or the spool, where tasks run on other machines.
        csv: how CSV files are written.
        declared: a JSON schema, which declares all columns; or column -> type name, which
            declares those columns and leaves the others to inference.
        unknown: what to do with columns and fields that are not declared; without a JSON schema,
            for CSV, those that the first file does not have.
        split_bytes: about how much one task reads.
        key_properties: columns that identify a record.
        partition_keys: columns to partition by.
        folders: whether folders `name=value` of the files' paths are columns.
        max_record_mb: longest JSON record, in MB (2**20 bytes).
        limits: what a compressed file may become.
        digest: whether to compute `Batch.digest`.
        run: runs preparation (decompression, type inference) in parallel.

    Raises:
        InputError: (while iterating) the files can't be landed as they are.
        ConfigError: a declared type is unknown.
    """

    def __init__(
        self,
        files: Sequence[SourceFile],
        *,
        stream: str,
        spool_dir: Path | str | SpoolLocation,
        csv: CsvOptions | None = None,
        declared: Mapping[str, Any] | None = None,
        unknown: UnknownPolicy = UnknownPolicy.EVOLVE,
        split_bytes: int = 64 << 20,
        key_properties: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        folders: bool = True,
        max_record_mb: int = 100,
        limits: UnpackLimits = DEFAULT,
        digest: bool = False,
        run: Run = run_here,
    ) -> None:
        self.files = with_folders(files) if folders else tuple(files)
        self.stream = stream
        self.spool = (
            spool_dir if isinstance(spool_dir, SpoolLocation) else SpoolLocation(Path(spool_dir))
        )
        self.csv = csv or CsvOptions()
        self.unknown = unknown
        self.split_bytes = split_bytes
        self.max_record_mb = max_record_mb
        self.limits = limits
        self.run = run
        self.look: Run = run_here if self.spool.local else run  # for what is quick on a disk
        self.keys = tuple(key_properties)
        fields = declared_fields(stream, declared, self.keys)
        self.declares_all = bool(declared) and is_json_schema(declared or {})
        self._folders = folder_fields(
            stream,
            self.files,
            fields,
            infer=self.csv.infer_types,
            unknown=unknown if self.declares_all else None,
        )
        self.given = {field.name for field in self._folders}
        self.fields = self._expected(fields)
        self._partitions = tuple(partition_keys)
        self._digest = digest

    def __iter__(self) -> Iterator[Flush]:
        """Prepare the files and hand them out."""
        digest = digest_of(self.files) if self._digest else ""
        planned = self._plan()
        reader = planned.reader
        if self._folders:
            reader = FolderReader(reader, self._folders)
            reader.check(self.stream, planned.splits)
        batch = Batch(
            self.stream,
            0,
            reader=reader,
            splits=planned.splits,
            records=planned.records,
            bytes=planned.bytes,
            digest=digest,
            key_properties=self.keys,
            partition_keys=self._partitions,
            output_ratio=planned.output_ratio,
            warnings=planned.warnings,
        )
        yield Flush((batch,), last=True)

    def _expected(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        """The declared columns as files have to have them: not those that their folders give."""
        expected = [replace(f, required=f.required and f.name not in self.given) for f in fields]
        if self.declares_all:
            known = {field.name for field in fields}
            expected += [field for field in self._folders if field.name not in known]
        return tuple(expected)

    def _plan(self) -> Planned:
        kind = self.files[0].format
        if kind in {"csv", "tsv"}:
            from lakeport.sources.csv.plan import plan_csv

            if self.csv.delimiter is None:
                self.csv = replace(self.csv, delimiter="\t" if kind == "tsv" else ",")
            return plan_csv(self)
        if kind in {"json", "jsonl"}:
            from lakeport.sources.json.plan import plan_json

            return plan_json(self)
        if kind == "parquet":
            return self._plan_parquet()
        raise ConfigError(
            f"file format {kind!r} does not hold the rows of one table",
            "Singer files are landed as Singer messages: name them as such.",
        )

    def _plan_parquet(self) -> Planned:
        from lakeport.schema.types import check_names
        from lakeport.sources.parquet.reader import ParquetReader, read_footer, split_groups, union

        footers = sorted(
            self.run(partial(read_footer, limits=self.limits), self.plain_files()),
            key=lambda f: f.file.uri,
        )
        schema = union(footers)
        check_names(self.stream, schema.names)
        return Planned(
            reader=ParquetReader(self.stream, schema, limits=self.limits),
            splits=split_groups(footers, self.split_bytes),
            bytes=sum(file.bytes for file in self.files),
            output_ratio=1.0,
            records=sum(footer.rows for footer in footers),
        )

    def plain_files(self, encoding: str = "utf-8") -> list[SourceFile]:
        """The files as plain UTF-8 ones that tasks can read by range, in order.

        Tasks spool what they can reach; what only this machine has is spooled from here.
        """
        recode = not is_utf8(encoding)
        spool = partial(_spooled, self.files, self.spool, encoding, self.limits)
        with ThreadPoolExecutor(_THREADS, "lakeport-spool") as executor:
            fits = list(executor.map(self._fits, self.files))
            waiting = [n for n, fit in enumerate(fits) if recode or not fit]
            here = [n for n in waiting if not self._seen_by_tasks(self.files[n])]
            there = [n for n in waiting if n not in set(here)]
            spooled = {n: file for found in executor.map(spool, here) for n, file in found}
        spooled |= dict(self.run(spool, there)) if there else {}
        return [spooled.get(n, file) for n, file in enumerate(self.files)]

    def _fits(self, file: SourceFile) -> bool:
        return self.spool.reaches(file.uri, file.storage) and not is_packed(file)

    def _seen_by_tasks(self, file: SourceFile) -> bool:
        return file.storage is not None or self.spool.reaches(file.uri, None)


def _spooled(
    files: Sequence[SourceFile],
    spool: SpoolLocation,
    encoding: str,
    limits: UnpackLimits,
    number: int,
) -> list[tuple[int, SourceFile]]:
    return [(number, spool_plain(files[number], spool, number, encoding, limits))]
