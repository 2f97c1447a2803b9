"""The files of one load and how to read them, for the planners of their formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lakeport.host.activity import bind_activity
from lakeport.host.process import available_cores
from lakeport.schema.types import Field
from lakeport.sources.csv.dialect import CsvOptions
from lakeport.sources.files.declared_columns import (
    add_declared_columns,
    is_json_schema,
    parse_declared_fields,
)
from lakeport.sources.files.folders import add_folder_values, make_folder_fields
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import UnpackLimits, unpack_limits
from lakeport.sources.input.plain_files import (
    detect_stored_encoding,
    is_packed,
    is_utf8,
    spool_plain,
)
from lakeport.sources.options import ReadOptions, parse_path
from lakeport.sources.spool import SpoolLocation

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig

_THREADS = 8

TaskRunner = Callable[[Callable[[Any], list[Any]], Sequence[Any]], list[Any]]
"""Runs a picklable function on every item and joins the lists that it returns, in any order."""


def run_in_process(function: Callable[[Any], list[Any]], items: Sequence[Any]) -> list[Any]:
    """Call a function on every item in this thread, and join the lists that it returns."""
    return [result for item in items for result in function(item)]


def _run_in_threads(function: Callable[[Any], list[Any]], items: Sequence[Any]) -> list[Any]:
    """Call a function on every item in threads, one per core; join its lists in items' order."""
    if len(items) < 2:
        return run_in_process(function, items)
    with ThreadPoolExecutor(min(len(items), available_cores()), "lakeport-look") as executor:
        return [
            result for results in executor.map(bind_activity(function), items) for result in results
        ]


class FileSet:
    """The files of a load, all of one format, their declared columns, and ways to prepare them.

    Args:
        spool: takes copies of files whose ranges tasks can't read: compressed, transcoded, and
            local ones on a cluster.
        run: runs preparation of whole files (decompression, type inference) in tasks.

    Attributes:
        records_path: of JSON, the names of the fields that lead to the records.
        run_light: runs work that reads little of each file: in threads of this process if tasks
            run on this machine, else as `run`.
        csv: the CSV options that are given; those of `.tsv` files have their delimiter.
        fields: the declared columns of the files; columns of folders are required of no file.

    Raises:
        ConfigError: a declared type is unknown, or the path to the records is malformed.
        InputError: the folders give columns that the schema does not declare.
    """

    def __init__(
        self,
        files: Sequence[SourceFile],
        stream: str,
        spool: SpoolLocation,
        config: DestinationConfig,
        options: ReadOptions,
        run: TaskRunner,
        split_bytes: int = 64 << 20,
    ) -> None:
        self.files = (
            add_folder_values(files) if config.partition_columns == "auto" else tuple(files)
        )
        self.stream = stream
        self.spool = spool
        self.config = config
        self.options = options
        self.limits = unpack_limits(config)
        self.records_path = parse_path(options.records_path)
        self.run = run
        self.split_bytes = split_bytes
        self.local = spool.local
        self.run_light: TaskRunner = _run_in_threads if spool.local else run
        self.csv = options.csv or CsvOptions()
        if self.csv.delimiter is None and self.format == "tsv":
            self.csv = replace(self.csv, delimiter="\t")
        if not self.csv.detect:
            self.csv = self.csv.with_defaults()
        declared = options.schema or {}
        fields = add_declared_columns(
            parse_declared_fields(stream, declared),
            config.columns,
            all_declared=is_json_schema(declared),
        )
        self.declares_all = is_json_schema(declared)
        self.folders = make_folder_fields(
            stream,
            self.files,
            fields,
            infer_types=self.csv.infer_types,
            unknown_policy=config.unknown_fields if self.declares_all else None,
        )
        given = {field.name for field in self.folders}
        expected = [replace(f, required=f.required and f.name not in given) for f in fields]
        if self.declares_all:
            known = {field.name for field in fields}
            expected += [field for field in self.folders if field.name not in known]
        self.fields: tuple[Field, ...] = tuple(expected)

    @property
    def format(self) -> str:
        """The format that all files have."""
        return self.files[0].format

    @property
    def folder_names(self) -> frozenset[str]:
        """The names of the columns that the files' folders give."""
        return frozenset(field.name for field in self.folders)

    def make_plain(self, encoding: str | None = "utf-8") -> list[SourceFile]:
        """Return the files, in order, as uncompressed UTF-8; other files are copied to the spool.

        Compressed files, files in other encodings, and files that tasks can't reach are spooled: by
        tasks if they can read the file whole, else by this process.

        Args:
            encoding: the files' encoding, as Python names it; None to detect each file's.

        Raises:
            SourceError: a file can't be read, unpacked or decoded.
        """
        with ThreadPoolExecutor(_THREADS, "lakeport-spool") as executor:
            ready = list(executor.map(self._is_ready_for_tasks, self.files))
            encodings = list(executor.map(partial(_find_encoding, encoding), self.files, ready))
            to_spool = [
                n
                for n, (is_ready, known) in enumerate(zip(ready, encodings, strict=True))
                if not is_ready or known is None or not is_utf8(known)
            ]
            spool = partial(_spool_file, self.files, self.spool, encodings, self.limits)
            here = [n for n in to_spool if not self.is_visible_to_tasks(self.files[n])]
            in_tasks = [n for n in to_spool if self.is_visible_to_tasks(self.files[n])]
            spooled = {
                n: file for found in executor.map(bind_activity(spool), here) for n, file in found
            }
        spooled |= dict(self.run(spool, in_tasks)) if in_tasks else {}
        return [spooled.get(n, file) for n, file in enumerate(self.files)]

    def with_files(
        self, stream: str, files: Sequence[SourceFile], csv: CsvOptions, fields: tuple[Field, ...]
    ) -> FileSet:
        """Return a copy for a stream of other files, all CSV, with their options and columns."""
        other = copy(self)
        other.stream, other.files, other.csv, other.fields = stream, tuple(files), csv, fields
        return other

    def _is_ready_for_tasks(self, file: SourceFile) -> bool:
        """Whether tasks can read ranges of a file as it is stored: it is not compressed."""
        return self.spool.is_readable_by_tasks(file.uri, file.storage) and not is_packed(file)

    def is_visible_to_tasks(self, file: SourceFile) -> bool:
        """Whether tasks can open a file where it lies."""
        return file.storage is not None or self.spool.is_readable_by_tasks(file.uri, None)


def _spool_file(
    files: Sequence[SourceFile],
    spool: SpoolLocation,
    encodings: Sequence[str | None],
    limits: UnpackLimits,
    number: int,
) -> list[tuple[int, SourceFile]]:
    """Copy file number `number` to the spool as plain UTF-8; return its number and the copy."""
    return [(number, spool_plain(files[number], spool, number, encodings[number], limits))]


def _find_encoding(given: str | None, file: SourceFile, is_ready: bool) -> str | None:
    """Return the given encoding, else that of an uncompressed file; None for a compressed file."""
    return given or (detect_stored_encoding(file) if is_ready else None)
