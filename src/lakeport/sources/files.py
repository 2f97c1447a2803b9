"""Files as a source: CSV, JSON, JSON lines and Parquet, as one batch of splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lakeport.errors import ConfigError
from lakeport.model import Batch, Flush, Reader, Split, UnknownPolicy
from lakeport.sources.csv_text import CsvOptions
from lakeport.sources.declared import declared_fields, is_json_schema
from lakeport.sources.plain import SourceFile, digest_of, is_plain, is_utf8, spool_plain

__all__ = ["FileSource", "Run", "run_here"]

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
    """

    reader: Reader
    splits: tuple[Split, ...]
    bytes: int
    output_ratio: float
    records: int = -1


class FileSource:
    """Iterates exactly one flush with one batch: all rows of all files.

    Compressed, remote and transcoded files are first written to `spool_dir` as plain ones, so
    that tasks can share one big file and line numbers are right.

    Args:
        files: what `discover` found, all of one format.
        stream: the stream's name.
        spool_dir: an existing folder that every task sees.
        csv: how CSV files are written.
        declared: a JSON schema, which declares all columns; or column -> type name, which
            declares those columns and leaves the others to inference.
        unknown: what to do with columns and fields that are not declared; without a JSON schema,
            for CSV, those that the first file does not have.
        split_bytes: about how much one task reads.
        key_properties: columns that identify a record.
        partition_keys: columns to partition by.
        max_record_mb: longest JSON record, in MB (2**20 bytes).
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
        spool_dir: Path | str,
        csv: CsvOptions | None = None,
        declared: Mapping[str, Any] | None = None,
        unknown: UnknownPolicy = UnknownPolicy.EVOLVE,
        split_bytes: int = 64 << 20,
        key_properties: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        max_record_mb: int = 100,
        digest: bool = False,
        run: Run = run_here,
    ) -> None:
        self.files = tuple(files)
        self.stream = stream
        self.spool_dir = Path(spool_dir)
        self.csv = csv or CsvOptions()
        self.unknown = unknown
        self.split_bytes = split_bytes
        self.max_record_mb = max_record_mb
        self.run = run
        self.keys = tuple(key_properties)
        self.fields = declared_fields(stream, declared, self.keys)
        self.declares_all = bool(declared) and is_json_schema(declared or {})
        self._partitions = tuple(partition_keys)
        self._digest = digest

    def __iter__(self) -> Iterator[Flush]:
        """Prepare the files and hand them out."""
        digest = digest_of(self.files) if self._digest else ""
        planned = self._plan()
        batch = Batch(
            self.stream,
            0,
            reader=planned.reader,
            splits=planned.splits,
            records=planned.records,
            bytes=planned.bytes,
            digest=digest,
            key_properties=self.keys,
            partition_keys=self._partitions,
            output_ratio=planned.output_ratio,
        )
        yield Flush((batch,), last=True)

    def _plan(self) -> Planned:
        kind = self.files[0].format
        if kind in {"csv", "tsv"}:
            from lakeport.sources.plan_csv import plan_csv

            if self.csv.delimiter is None:
                self.csv = replace(self.csv, delimiter="\t" if kind == "tsv" else ",")
            return plan_csv(self)
        if kind in {"json", "jsonl"}:
            from lakeport.sources.plan_json import plan_json

            return plan_json(self)
        if kind == "parquet":
            return self._plan_parquet()
        raise ConfigError(
            f"file format {kind!r} does not hold the rows of one table",
            "Singer files are landed as Singer messages: name them as such.",
        )

    def _plan_parquet(self) -> Planned:
        from lakeport.schema.types import check_names
        from lakeport.sources.parquet import ParquetReader, read_footer, split_groups, union

        footers = sorted(self.run(read_footer, self.plain_files()), key=lambda f: f.uri)
        schema = union(footers)
        check_names(self.stream, schema.names)
        return Planned(
            reader=ParquetReader(self.stream, schema),
            splits=split_groups(footers, self.split_bytes),
            bytes=sum(file.bytes for file in self.files),
            output_ratio=1.0,
            records=sum(footer.rows for footer in footers),
        )

    def plain_files(self, encoding: str = "utf-8") -> list[SourceFile]:
        """The files as plain local UTF-8 ones, in order; those that are not are spooled."""
        recode = not is_utf8(encoding)
        waiting = [n for n, file in enumerate(self.files) if recode or not is_plain(file)]
        spool = partial(_spooled, self.files, self.spool_dir, encoding)
        spooled = dict(self.run(spool, waiting)) if waiting else {}
        return [spooled.get(n, file) for n, file in enumerate(self.files)]


def _spooled(
    files: Sequence[SourceFile], spool_dir: Path, encoding: str, number: int
) -> list[tuple[int, SourceFile]]:
    file = files[number]
    path = spool_plain(file, spool_dir, number, encoding)
    return [(number, SourceFile(str(path), file.name, file.format, path.stat().st_size))]
