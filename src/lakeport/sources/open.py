"""From what the user gave as a source to flushes of batches."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lakeport.config.inputs import DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.errors import ConfigError, InputError
from lakeport.model import Flush
from lakeport.sources.files.discovery import discover, stream_name
from lakeport.sources.input.decompression import (
    STDIN,
    compressed,
    open_input,
    open_inputs,
    open_stream,
    unpack_limits,
)
from lakeport.sources.singer.messages import SchemaMessage, StateMessage, decode_message
from lakeport.sources.singer.singer_source import SingerSource
from lakeport.sources.spool import SpoolUploader, SpoolWriter
from lakeport.sources.tap import TapFlushes, TapMemory, TapProcess
from lakeport.sources.target import TargetTables, one_table, storage_of

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.engine.base import DataFrame, Engine
    from lakeport.sources.files.source_file import SourceFile
    from lakeport.sources.input.decompression import UnpackLimits
    from lakeport.sources.options import ReadOptions
    from lakeport.sources.spool import SpoolLocation

_SINGER_SPLIT = 32 << 20
_SNIFFED = 4 << 20


@dataclass
class Source:
    """An opened source: iterate its flushes, and say when each has landed.

    Attributes:
        flushes: what the source cuts off, in order.
        streams: names of the streams seen so far.
        stray: number of lines so far that belong to no stream.
        landed: frees what a flush took on disk.
        frames: of tables, their rows by the names that they have for SQL; asked for before the
            flushes, where something is to be made of several.
        close: ends what it holds open for its tasks; called once, however the load ends.
        name: what it is called where its progress is shown.
        bytes: how many there are to read; -1 if that is unknown.
    """

    flushes: Iterable[Flush]
    streams: Callable[[], Sequence[str]] = tuple
    stray: Callable[[], int] = int
    landed: Callable[[Flush], None] = lambda flush: None
    frames: Callable[[], Mapping[str, DataFrame]] = dict
    close: Callable[[], None] = lambda: None
    name: str = ""
    bytes: int = -1

    def __iter__(self) -> Iterator[Flush]:
        """Iterate the flushes."""
        return iter(self.flushes)


@dataclass(frozen=True, slots=True)
class SourceOpener:
    """Opens the source of a load.

    Attributes:
        options: how to read it.
        config: the target's policies and sizes.
        spool: see `open_spool`.
        engine: runs the tasks of preparation that is worth sharing out.
        on_progress: takes a stream, its records and its bytes so far.
        tables: what the source is landed in.
        check: called while input is waited for; raises when the load is to end.
    """

    options: ReadOptions
    config: DestinationConfig
    spool: SpoolLocation
    engine: Engine
    on_progress: Callable[[str, int, int], None]
    tables: TargetTables
    check: Callable[[], None] = lambda: None

    def open(self, source: Any) -> Source:
        """Open paths, a binary stream of Singer lines, a frame, records, or a description.

        Raises:
            InputError: the source can't be landed as it is.
            ConfigError: its kind or a setting is wrong.
        """
        from lakeport.sources.files.declared_columns import column_types

        column_types(self.config.columns)  # what is no type shows before anything is read
        if isinstance(source, (io.IOBase, io.BytesIO)) or hasattr(source, "readinto"):
            self._check_options("singer")
            self._check_spool()
            return self._singer(open_stream(source, limits=self._limits), name="a stream")
        if isinstance(source, FilesSource):
            opener = replace(self, options=self.options.of_files(source))
            return opener._new_files(source) if source.new_only else opener.open(source.names)
        if isinstance(source, TablesSource):
            self._check_options("a table")
            self._refuse_metadata()
            return self._tables(source)
        if isinstance(source, TapSource):
            self._check_options("singer")
            self._check_spool()
            return self._tap(source)
        if isinstance(source, DatabaseSource):
            self._check_options("a database")
            self._refuse_metadata()
            return self._database(source)
        names = _names(source)
        if names is None:
            self._check_options("a frame")
            self._refuse_metadata()
            return self._frame(source)
        return self._named(names)

    @property
    def _limits(self) -> UnpackLimits:
        return unpack_limits(self.config)

    @property
    def _asked(self) -> DestinationConfig:
        """The config with the mode that this load has: one that begins anew replaces all."""
        return self.config.model_copy(update={"mode": self.tables.mode})

    def _check_options(self, format_: str) -> None:
        """Refuse options of one format for files of another.

        Raises:
            ConfigError: one is given.
        """
        for name, given, formats in (
            ("records_path", self.options.records_path, ("json", "jsonl")),
            ("sheet", self.options.sheet, ("xlsx",)),
        ):
            if given and format_ not in formats:
                raise ConfigError(
                    f"`{name}` is {given!r}, and the source is {format_}, not "
                    f"{' or '.join(formats)}",
                    "leave it out, or name the format with `--source-format` (`source_format=`).",
                )

    def _refuse_metadata(self) -> None:
        if self.config.add_record_metadata:
            raise ConfigError(
                "`add_record_metadata` adds what Singer's messages tell, and this source has none",
                "leave it out for files and frames.",
            )

    def _check_spool(self) -> None:
        if not self.engine.is_local and self.config.spool_uri is None:
            raise ConfigError(
                "Spark's tasks run on other machines, which can't see this one's disk, and "
                "`spool_uri` is not set",
                "set it to a prefix in a store, such as s3://bucket/spool, or to a folder that "
                "every worker mounts under the same path, such as file:///mnt/spool; a Spark "
                "DataFrame needs none.",
            )

    def _named(self, names: list[str]) -> Source:
        """Open what names name: files, folders and globs, or standard input."""
        options, limits = self.options, self._limits
        self._check_spool()
        if names == [STDIN]:
            if options.format not in ("", "singer"):
                raise ConfigError(
                    f"standard input can't be read as {options.format!r}",
                    "pipe Singer messages in, or name files.",
                )
            self._check_options("singer")
            return self._singer(open_input(STDIN, limits), name="standard input")
        format_ = options.format or ("singer" if _begin_as_singer(names) else "")
        storage_for = partial(storage_of, self.config)
        files = discover(names, format=format_, storage_for=storage_for, limits=limits)
        self._check_options(files[0].format)
        if files[0].format != "singer":
            self._refuse_metadata()
            return self._files(files, one_table(self.config) or stream_name(names, files))
        timed = self.config.add_record_metadata  # when a record was read stands in a sidecar
        alone = len(files) == 1 and not timed
        origin = _plain_file(files[0], self.spool) if alone else None
        name = files[0].name if len(files) == 1 else f"{len(files)} files"
        size = sum(file.bytes for file in files)
        lines = open_inputs([(file.uri, file.open) for file in files], limits)
        return self._singer(lines, origin, name=name, size=size)

    def _new_files(self, source: FilesSource) -> Source:
        from lakeport.sources.files.new_files import open_new_files, singer_files

        self._check_spool()
        self._refuse_metadata()
        stream, new = open_new_files(
            source, self.options, self._asked, self.spool.folder, self.tables.memory
        )
        if not new.files:
            return Source(new.nothing(stream), name=stream)
        first = new.files[0]
        if first.format == "singer" or (not self.options.format and _begin_as_singer([first.uri])):
            raise singer_files()
        self._check_options(first.format)
        found = replace(self, config=self._asked)._files(new.files, stream)
        return replace(found, flushes=new.flushes(found))

    def _singer(
        self,
        lines: BinaryIO,
        origin: Path | None = None,
        *,
        name: str,
        size: int = -1,
        tap: bool = False,
    ) -> Source:
        uploader = SpoolUploader(self.spool)
        writer = SpoolWriter(
            self.spool.folder,
            _SINGER_SPLIT,
            digest=self.config.run_id is not None,
            times=self.config.add_record_metadata,
            on_file=uploader.begin,
        )
        singer = SingerSource(
            lines,
            writer,
            self.config,
            origin,
            self.on_progress,
            stray_lines=self.options.stray_lines,
            at_states=tap,
        )
        return Source(
            uploader.flushes(singer),
            lambda: list(singer.counts),
            lambda: singer.stray_lines_skipped,
            uploader.discard,
            name=name,
            bytes=size,
        )

    def _tap(self, source: TapSource) -> Source:
        tables = self.tables
        memory = TapMemory(source.name or source.program, tables.storage, tables.memory)
        process = TapProcess(source, memory.state, self.spool.folder, self.check)
        lines = open_stream(process, source.program, self._limits)
        try:
            found = self._singer(lines, name=source.program, tap=True)
        except BaseException:
            process.close()
            raise
        return replace(found, flushes=TapFlushes(found.flushes, memory), close=process.close)

    def _files(self, files: Sequence[SourceFile], stream: str) -> Source:
        from lakeport.sources.files.file_set import FileSet
        from lakeport.sources.files.files_source import file_flushes

        size = sum(file.bytes for file in files)
        run = partial(self.engine.run_tasks, f"read the columns of {stream}")
        found = FileSet(files, stream, self.spool, self.config, self.options, run)
        return Source(file_flushes(found), name=stream, bytes=size)

    def _frame(self, frame: Any) -> Source:
        from lakeport.sources.files.declared_columns import column_types
        from lakeport.sources.frames import frame_flushes, is_spark_frame

        if is_spark_frame(frame):
            self.engine.require_spark("a Spark frame")
        else:
            self._check_spool()
        stream = one_table(self.config)
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
        return Source(SpoolUploader(self.spool).flushes(source), name=stream)

    def _tables(self, source: TablesSource) -> Source:
        from lakeport.sources.tables import TableFlushes

        stream = one_table(self.config) or _only(source.tables)
        found = TableFlushes(
            source, stream, self._asked, self.engine, self.spool.folder, self.tables.memory
        )
        return Source(found, frames=found.frames, name=", ".join(source.tables))

    def _database(self, source: DatabaseSource) -> Source:
        stream = one_table(self.config) or source.stream
        if source.is_jdbc:
            spark = self.engine.require_spark("a database that is read by JDBC")
            from lakeport.sources.database.jdbc import jdbc_flushes

            digest = self.config.run_id is not None
            return Source(jdbc_flushes(source, stream, spark, digest=digest), name=stream)
        from lakeport.sources.database.database_source import DatabaseFlushes

        flushes = DatabaseFlushes(source, stream, self.engine.cores, self._asked, self.tables)
        return Source(flushes, close=flushes.close, name=stream)


def _begin_as_singer(names: Sequence[str]) -> bool:
    """Whether all names are local files that begin with a Singer message."""
    for name in names:
        if not Path(name).is_file() or name.endswith((".csv", ".tsv", ".parquet")):
            return False
        try:
            with open_input(name) as file:
                first = decode_message(file.readline(_SNIFFED).strip(), 1)
        except InputError:
            return False
        if not isinstance(first, (SchemaMessage, StateMessage)):
            return False
    return True


def _plain_file(file: SourceFile, spool: SpoolLocation) -> Path | None:
    """A file's path, if tasks can read parts of it where it lies: its bytes are what is in it."""
    path = Path(file.uri)
    local = file.storage is None and not file.member and spool.reaches(file.uri, None)
    return path if local and path.is_file() and not compressed(path) else None


def _names(source: Any) -> list[str] | None:
    """File names; None for what is no name."""
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


def _only(tables: Mapping[str, str]) -> str:
    if len(tables) > 1:
        raise ConfigError("what is made of several tables has no name of its own", "give `table`.")
    return next(iter(tables))
