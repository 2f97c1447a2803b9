"""Open the source that a user gives: a path, a stream, a frame or a description."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lakeport.config.sources import DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.engine.base import is_connect
from lakeport.engine.threads import require_jobs, require_spark
from lakeport.errors import ConfigError, InputError
from lakeport.model import Flush
from lakeport.sources.files.discovery import discover, stream_name
from lakeport.sources.input.decompression import (
    STDIN,
    is_compressed,
    open_input,
    open_inputs,
    open_stream,
    unpack_limits,
)
from lakeport.sources.options import ALL_SHEETS
from lakeport.sources.singer.messages import SchemaMessage, StateMessage, decode_message
from lakeport.sources.singer.singer_source import SingerSource
from lakeport.sources.spool import SpoolUploader, SpoolWriter
from lakeport.sources.tap import TapBookmarks, TapFlushes, TapProcess
from lakeport.sources.target import TargetTables, fixed_table_name, open_folder_storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.config.base import DestinationConfig
    from lakeport.engine.base import Engine
    from lakeport.sources.files.source_file import SourceFile
    from lakeport.sources.input.decompression import UnpackLimits
    from lakeport.sources.options import ReadOptions
    from lakeport.sources.spool import SpoolLocation

_SINGER_SPLIT = 32 << 20
_MAX_FIRST_LINE = 4 << 20


@dataclass
class OpenedSource:
    """An opened source: its flushes, and callbacks to query it, delete spooled files and close it.

    Attributes:
        count_stray_lines: returns the number of lines so far that belong to no stream.
        discard: deletes the spooled files of a flush that was landed.
        frames: returns the Spark frames of a `TablesSource` by name, for SQL over several tables;
            called before the flushes are iterated.
        close: ends the process or connection behind the source; called once when the load ends.
        bytes: the size of the source in bytes; -1 if unknown.
    """

    flushes: Iterable[Flush]
    streams: Callable[[], Sequence[str]] = tuple
    count_stray_lines: Callable[[], int] = int
    discard: Callable[[Flush], None] = lambda flush: None
    frames: Callable[[], Mapping[str, DataFrame]] = dict
    close: Callable[[], None] = lambda: None
    name: str = ""
    bytes: int = -1

    def __iter__(self) -> Iterator[Flush]:
        """Iterate over the flushes."""
        return iter(self.flushes)


@dataclass(frozen=True, slots=True)
class SourceOpener:
    """Opens the source of a load: files, standard input, frames, Singer taps, tables, databases.

    Attributes:
        on_progress: called with a stream, its records and its bytes so far.
        check: called while the load waits for input; raises to end the load.
    """

    options: ReadOptions
    config: DestinationConfig
    spool: SpoolLocation
    engine: Engine
    on_progress: Callable[[str, int, int], None]
    tables: TargetTables
    check: Callable[[], None] = lambda: None

    def open(self, source: Any) -> OpenedSource:
        """Open paths, a binary stream of Singer lines, a frame, records or a source object.

        Raises:
            InputError: the source can't be landed as it is.
            ConfigError: the source's kind or a setting is wrong.
        """
        from lakeport.sources.files.declared_columns import column_types

        column_types(self.config.columns)  # a wrong type name raises before anything is read
        is_stream = not is_connect(source) and hasattr(source, "readinto")
        if isinstance(source, io.IOBase) or is_stream:
            self._check_options("singer")
            self._check_spool()
            return self._open_singer(
                open_stream(source, limits=self._unpack_limits), name="a stream"
            )
        if isinstance(source, FilesSource):
            opener = replace(self, options=self.options.merge_source(source))
            return opener._open_new_files(source) if source.new_only else opener.open(source.names)
        if isinstance(source, TablesSource):
            self._check_options("a table")
            self._refuse_metadata()
            return self._open_tables(source)
        if isinstance(source, TapSource):
            self._check_options("singer")
            self._check_spool()
            return self._open_tap(source)
        if isinstance(source, DatabaseSource):
            self._check_options("a database")
            self._refuse_metadata()
            return self._open_database(source)
        names = _get_file_names(source)
        if names is None:
            self._check_options("a frame")
            self._refuse_metadata()
            return self._open_frame(source)
        return self._open_names(names)

    @property
    def _unpack_limits(self) -> UnpackLimits:
        return unpack_limits(self.config)

    @property
    def _load_config(self) -> DestinationConfig:
        """The config with the mode of this load, which differs in a full refresh."""
        return self.config.model_copy(update={"mode": self.tables.mode})

    def _check_options(self, format_: str) -> None:
        """Raise ConfigError if an option is set that sources of format `format_` don't have."""
        for name, given, formats in (
            ("records_path", self.options.records_path, ("json", "jsonl")),
            ("infer_dates", self.options.infer_dates, ("json", "jsonl")),
            ("sheet", self.options.sheet, ("xlsx",)),
            ("sheet_column", self.options.sheet_column, ("xlsx",)),
        ):
            if given and format_ not in formats:
                raise ConfigError(
                    f"`{name}` is {given!r}, and the source is {format_}, not "
                    f"{' or '.join(formats)}",
                    "leave it out, or name the format with `--source-format` (`source_format=`).",
                )

    def _refuse_metadata(self) -> None:
        """Raise ConfigError if `add_record_metadata` is set, which is for Singer sources only."""
        if self.config.add_record_metadata:
            raise ConfigError(
                "`add_record_metadata` adds what Singer's messages tell, and this source has none",
                "leave it out for files and frames.",
            )

    def _check_spool(self) -> None:
        """Raise ConfigError if tasks run on other machines and no shared spool is configured."""
        if not self.engine.is_local and self.config.spool_uri is None:
            raise ConfigError(
                "Spark's tasks run on other machines, which can't see this one's disk, and "
                "`spool_uri` is not set",
                "set it to a prefix in a store, such as s3://bucket/spool, or to a folder that "
                "every worker mounts under the same path, such as file:///mnt/spool; a Spark "
                "DataFrame needs none.",
            )

    def _open_names(self, names: list[str]) -> OpenedSource:
        """Open files, folders, globs or standard input (`-`); detect whether files are Singer."""
        options, limits = self.options, self._unpack_limits
        self._check_spool()
        if names == [STDIN]:
            if options.format not in ("", "singer"):
                raise ConfigError(
                    f"standard input can't be read as {options.format!r}",
                    "pipe Singer messages in, or name files.",
                )
            self._check_options("singer")
            return self._open_singer(open_input(STDIN, limits), name="standard input")
        format_ = options.format or ("singer" if _are_singer_files(names) else "")
        storage_for = partial(open_folder_storage, self.config)
        files = discover(names, format=format_, storage_for=storage_for, limits=limits)
        self._check_options(files[0].format)
        if files[0].format != "singer":
            self._refuse_metadata()
            return self._open_files(
                files, fixed_table_name(self.config) or stream_name(names, files)
            )
        timed = self.config.add_record_metadata  # when a record was read stands in a sidecar
        alone = len(files) == 1 and not timed
        origin = _get_readable_path(files[0], self.spool) if alone else None
        name = files[0].name if len(files) == 1 else f"{len(files)} files"
        size = sum(file.bytes for file in files)
        lines = open_inputs([(file.uri, file.open) for file in files], limits)
        return self._open_singer(lines, origin, name=name, size=size)

    def _open_new_files(self, source: FilesSource) -> OpenedSource:
        """Open the files that the table has not loaded yet; if none, return one empty flush."""
        from lakeport.sources.files.new_files import open_new_files, singer_files_error

        if self.options.sheet == ALL_SHEETS and not self.options.sheet_column:
            raise ConfigError(
                "`new_only` is about the files that one table has loaded, and `sheet: '*'` lands "
                "in a table for each sheet",
                "`sheet_column` (`--sheet-column sheet`) lands all sheets in one table.",
            )
        self._check_spool()
        self._refuse_metadata()
        stream, new = open_new_files(
            source, self.options, self._load_config, self.spool.folder, self.tables.open_memory
        )
        if not new.files:
            return OpenedSource(new.report_nothing_new(stream), name=stream)
        first = new.files[0]
        if first.format == "singer" or (not self.options.format and _are_singer_files([first.uri])):
            raise singer_files_error()
        self._check_options(first.format)
        found = replace(self, config=self._load_config)._open_files(new.files, stream)
        return replace(found, flushes=new.flushes(found))

    def _open_singer(
        self,
        lines: BinaryIO,
        origin: Path | None = None,
        *,
        name: str,
        size: int = -1,
        is_tap: bool = False,
    ) -> OpenedSource:
        """Open Singer messages; spool the records, unless tasks can read them in `origin`."""
        uploader = SpoolUploader(self.spool)
        writer = SpoolWriter(
            self.spool.folder,
            _SINGER_SPLIT,
            digest=self.config.run_id is not None,
            times=self.config.add_record_metadata,
            on_file=uploader.begin_upload,
        )
        singer = SingerSource(
            lines,
            writer,
            self.config,
            origin,
            self.on_progress,
            stray_lines=self.options.stray_lines,
            at_states=is_tap,
        )
        return OpenedSource(
            uploader.upload_flushes(singer),
            lambda: list(singer.counts),
            lambda: singer.stray_lines_skipped,
            uploader.discard,
            name=name,
            bytes=size,
        )

    def _open_tap(self, source: TapSource) -> OpenedSource:
        """Start a Singer tap with the STATE from its tables' bookmarks, and open its output."""
        tables = self.tables
        memory = TapBookmarks(source.name or source.program, tables.storage, tables.open_memory)
        process = TapProcess(source, memory.state, self.spool.folder, self.check)
        lines = open_stream(process, source.program, self._unpack_limits)
        try:
            found = self._open_singer(lines, name=source.program, is_tap=True)
        except BaseException:
            process.close()
            raise
        return replace(found, flushes=TapFlushes(found.flushes, memory), close=process.close)

    def _open_files(self, files: Sequence[SourceFile], stream: str) -> OpenedSource:
        """Open files of one format, other than Singer, as one stream."""
        from lakeport.sources.files.file_set import FileSet
        from lakeport.sources.files.files_source import file_flushes

        size = sum(file.bytes for file in files)
        run = partial(self.engine.run_tasks, f"read the columns of {stream}")
        found = FileSet(files, stream, self.spool, self.config, self.options, run)
        return OpenedSource(file_flushes(found), name=stream, bytes=size)

    def _open_frame(self, frame: Any) -> OpenedSource:
        """Open a frame or records as one flush; raise ConfigError without a table name."""
        from lakeport.sources.files.declared_columns import column_types
        from lakeport.sources.frames import frame_flushes, is_spark_frame

        if is_spark_frame(frame):
            require_jobs(self.engine, "a Spark frame")
        else:
            self._check_spool()
        stream = fixed_table_name(self.config)
        if stream is None:
            raise ConfigError("a frame has no name of its own", "give `table`, without `{stream}`.")
        source = frame_flushes(
            frame,
            stream,
            self.spool.folder,
            digest=self.config.run_id is not None,
            max_columns=self.config.max_columns,
            declared=column_types(self.config.columns),
        )
        return OpenedSource(SpoolUploader(self.spool).upload_flushes(source), name=stream)

    def _open_tables(self, source: TablesSource) -> OpenedSource:
        """Open Delta tables to be read by Spark; ConfigError for several without `table`."""
        from lakeport.sources.tables import TablesFlushes

        stream = fixed_table_name(self.config) or _get_only_name(source.tables)
        found = TablesFlushes(
            source,
            stream,
            self._load_config,
            self.engine,
            self.spool.folder,
            self.tables.open_memory,
        )
        return OpenedSource(found, frames=found.frames, name=", ".join(source.tables))

    def _open_database(self, source: DatabaseSource) -> OpenedSource:
        """Open a table or query of a database, by its ADBC driver or by JDBC in Spark."""
        stream = fixed_table_name(self.config) or source.stream
        if source.is_jdbc:
            spark = require_spark(self.engine, "a database that is read by JDBC")
            from lakeport.sources.database.jdbc import jdbc_flushes

            digest = self.config.run_id is not None
            return OpenedSource(jdbc_flushes(source, stream, spark, add_digest=digest), name=stream)
        from lakeport.sources.database.database_source import DatabaseFlushes

        flushes = DatabaseFlushes(source, stream, self.engine.cores, self._load_config, self.tables)
        return OpenedSource(flushes, close=flushes.close, name=stream)


def _are_singer_files(names: Sequence[str]) -> bool:
    """Whether all names are readable local files whose first line is a SCHEMA or STATE message."""
    for name in names:
        if not Path(name).is_file() or name.endswith((".csv", ".tsv", ".parquet")):
            return False
        try:
            with open_input(name) as file:
                first = decode_message(file.readline(_MAX_FIRST_LINE).strip(), 1)
        except InputError:
            return False
        if not isinstance(first, (SchemaMessage, StateMessage)):
            return False
    return True


def _get_readable_path(file: SourceFile, spool: SpoolLocation) -> Path | None:
    """Return a file's local path if tasks can read byte ranges of it, uncompressed; else None."""
    path = Path(file.uri)
    local = file.storage is None and not file.member and spool.is_readable_by_tasks(file.uri, None)
    return path if local and path.is_file() and not is_compressed(path) else None


def _get_file_names(source: Any) -> list[str] | None:
    """Return a path or list of paths as strings; None for other sources. ConfigError if empty."""
    if isinstance(source, (str, os.PathLike)):
        return [os.fspath(source)]
    if isinstance(source, Sequence) and all(isinstance(s, (str, os.PathLike)) for s in source):
        if not source:
            raise ConfigError(
                "no source is named: the list is empty",
                "name a file, a folder, a glob, or `-`, or give at least one record.",
            )
        return [os.fspath(name) for name in source]
    return None


def _get_only_name(tables: Mapping[str, str]) -> str:
    """Return the name of a source's only table; raise ConfigError if it has several."""
    if len(tables) > 1:
        raise ConfigError("rows of several tables have no name of their own", "give `table`.")
    return next(iter(tables))
