"""The files of one load, as the planners of their formats see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lakeport.host.activity import carried
from lakeport.host.process import available_cores
from lakeport.schema.types import Field
from lakeport.sources.csv.dialect import CsvOptions
from lakeport.sources.files.declared_columns import declared_fields, is_json_schema, with_columns
from lakeport.sources.files.folders import folder_fields, with_folders
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import UnpackLimits, unpack_limits
from lakeport.sources.input.plain_files import is_packed, is_utf8, spool_plain, stored_encoding
from lakeport.sources.options import ReadOptions, parse_path
from lakeport.sources.spool import SpoolLocation

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig

_THREADS = 8

Run = Callable[[Callable[[Any], list[Any]], Sequence[Any]], list[Any]]
"""Runs a picklable function on every item and joins the lists that it returns, in any order."""


def run_here(function: Callable[[Any], list[Any]], items: Sequence[Any]) -> list[Any]:
    """Run in this process, one after another.

    >>> run_here(lambda n: [n, n], [1, 2])
    [1, 1, 2, 2]
    """
    return [result for item in items for result in function(item)]


def _beside_each_other(function: Callable[[Any], list[Any]], items: Sequence[Any]) -> list[Any]:
    if len(items) < 2:
        return run_here(function, items)
    with ThreadPoolExecutor(min(len(items), available_cores()), "lakeport-look") as executor:
        return [result for results in executor.map(carried(function), items) for result in results]


class FileSet:
    """Files of one format, the columns that are declared for them, and where their plan is made.

    Args:
        files: what `discover` found, all of one format.
        stream: the stream's name.
        spool: takes what tasks can't read as it is: compressed and transcoded files, so that tasks
            can share one big file and line numbers are right, and those that they can't reach.
        config: the target's policies and limits.
        options: how the files are read.
        run: runs preparation (decompression, type inference) in parallel.
        split_bytes: about how much one task reads.

    Attributes:
        run: see above; for what reads whole files.
        limits: what a compressed file may become.
        records_path: of JSON, the names of the fields that lead to the records.
        local: whether the files are read from this machine's disk.
        look: for what is quick on a disk: here where files are local, else as `run`.
        csv: how CSV files are written, as far as that is said; the delimiter of `.tsv` is.
        fields: the declared columns as files have to have them; what folders give is required of
            no file.
        declares_all: whether a JSON schema declares all columns there are.
        folders: the columns that the files' folders give.

    Raises:
        ConfigError: a declared type is unknown, or the path to the records is none.
        InputError: the folders give other columns than are declared.
    """

    def __init__(
        self,
        files: Sequence[SourceFile],
        stream: str,
        spool: SpoolLocation,
        config: DestinationConfig,
        options: ReadOptions,
        run: Run,
        split_bytes: int = 64 << 20,
    ) -> None:
        self.files = with_folders(files) if config.partition_columns == "auto" else tuple(files)
        self.stream = stream
        self.spool = spool
        self.config = config
        self.options = options
        self.limits = unpack_limits(config)
        self.records_path = parse_path(options.records_path)
        self.run = run
        self.split_bytes = split_bytes
        self.local = spool.local
        self.look: Run = _beside_each_other if spool.local else run
        self.csv = options.csv or CsvOptions()
        if self.csv.delimiter is None and self.format == "tsv":
            self.csv = replace(self.csv, delimiter="\t")
        if not self.csv.detect:
            self.csv = self.csv.with_defaults()
        declared = options.schema or {}
        fields = with_columns(
            declared_fields(stream, declared),
            config.columns,
            all_declared=is_json_schema(declared),
        )
        self.declares_all = is_json_schema(declared)
        self.folders = folder_fields(
            stream,
            self.files,
            fields,
            infer=self.csv.infer_types,
            unknown=config.unknown_fields if self.declares_all else None,
        )
        given = {field.name for field in self.folders}
        expected = [replace(f, required=f.required and f.name not in given) for f in fields]
        if self.declares_all:
            known = {field.name for field in fields}
            expected += [field for field in self.folders if field.name not in known]
        self.fields: tuple[Field, ...] = tuple(expected)

    @property
    def format(self) -> str:
        """The format of all files."""
        return self.files[0].format

    @property
    def folder_names(self) -> frozenset[str]:
        """Names of the columns that the files' folders give."""
        return frozenset(field.name for field in self.folders)

    def plain(self, encoding: str | None = "utf-8") -> list[SourceFile]:
        """The files as plain UTF-8 ones that tasks can read by range, in order.

        Without an encoding, each file's is found out. Compressed and transcoded ones, and those
        that tasks can't reach where they are, are spooled: by the tasks where they can reach them,
        from here where only this machine can.
        """
        with ThreadPoolExecutor(_THREADS, "lakeport-spool") as executor:
            fits = list(executor.map(self._fits, self.files))
            look = partial(_known_encoding, encoding)
            encodings = list(executor.map(look, self.files, fits))
            waiting = [
                n
                for n, (fit, known) in enumerate(zip(fits, encodings, strict=True))
                if not fit or known is None or not is_utf8(known)
            ]
            spool = partial(_spooled, self.files, self.spool, encodings, self.limits)
            here = [n for n in waiting if not self.seen_by_tasks(self.files[n])]
            there = [n for n in waiting if n not in set(here)]
            spooled = {n: file for found in executor.map(carried(spool), here) for n, file in found}
        spooled |= dict(self.run(spool, there)) if there else {}
        return [spooled.get(n, file) for n, file in enumerate(self.files)]

    def converted(
        self, files: Sequence[SourceFile], csv: CsvOptions, fields: tuple[Field, ...]
    ) -> FileSet:
        """The same load of these CSV files in place of its own, with more declared columns."""
        other = copy(self)
        other.files, other.csv, other.fields = tuple(files), csv, fields
        return other

    def _fits(self, file: SourceFile) -> bool:
        return self.spool.is_readable_by_tasks(file.uri, file.storage) and not is_packed(file)

    def seen_by_tasks(self, file: SourceFile) -> bool:
        """Whether tasks can read a file whole, if not by ranges."""
        return file.storage is not None or self.spool.is_readable_by_tasks(file.uri, None)


def _spooled(
    files: Sequence[SourceFile],
    spool: SpoolLocation,
    encodings: Sequence[str | None],
    limits: UnpackLimits,
    number: int,
) -> list[tuple[int, SourceFile]]:
    return [(number, spool_plain(files[number], spool, number, encodings[number], limits))]


def _known_encoding(given: str | None, file: SourceFile, fits: bool) -> str | None:
    """A file's encoding as far as it shows without unpacking it."""
    return given or (stored_encoding(file) if fits else None)
