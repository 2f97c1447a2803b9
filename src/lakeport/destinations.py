"""Opens a load's destination: checks its config, opens its store, tables and Spark session."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lakeport.config.base import config_class, destination_for_scheme
from lakeport.config.sources import DatabaseSource, FilesSource
from lakeport.engine.threads import require_spark
from lakeport.errors import ConfigError, PermissionRefused
from lakeport.host.packages import EXTRA_PACKAGES, missing_extra_error
from lakeport.sources.target import open_folder_storage
from lakeport.storage.checks import unsafe_for_tables_error
from lakeport.storage.local import LocalStorage
from lakeport.storage.retry import Retrier
from lakeport.writers.files.encode import encoder_for
from lakeport.writers.files.journal import Journal
from lakeport.writers.naming import check_date_format, columns_folder, table_folder, table_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.config.base import DestinationConfig
    from lakeport.engine.base import Engine
    from lakeport.engine.spark.delta.session import DeltaSession
    from lakeport.model import Storage, StoredObject
    from lakeport.writers.base import TableWriter

_NEAREST = 2  # each parent in a store costs the load a request


def check_layout(config: DestinationConfig) -> tuple[str, ...]:
    """Raise ConfigError for a bad table name, file format or date pattern; return warnings."""
    table_name(config.table_pattern, "stream")
    if config.file_type != "delta":
        encoder_for(config.file_type, _compression(config))
    elif config.schema_evolution == "loose":
        raise ConfigError(
            "`schema_evolution` is `loose`, and a Delta table has one type for each column",
            "use `evolve` or `strict`, or land files.",
        )
    if config.date_partition_format is None:
        return ()
    check_date_format(config.date_partition_format)
    if config.file_type == "delta":
        return ("`date_partition_format` names folders of files: a Delta table has none.",)
    return ()


def check_place(config: DestinationConfig, storage: Storage) -> None:
    """Raise ConfigError if the lake's folder, or a folder above it, is a Delta table.

    Folders that can't be listed are taken for no tables.
    """
    place = storage.uri()
    for folder in _list_enclosing_folders(place):
        log = f"{folder}/_delta_log"  # a listing of a storage's root is a single request
        there = open_folder_storage(config, log) or LocalStorage(log)
        if there.uri() == log and _holds_files(there, ""):  # a URI can't name a `#` in a key
            raise _enclosed_error(place, folder)


def check_engine(
    config: DestinationConfig, storage: Storage, engine: Engine, streams: Iterable[str]
) -> None:
    """Raise ConfigError if a table needs delta-spark for commits and the engine has no Spark.

    Reads the log of each stream's table if the engine is threads.
    """
    if config.file_type != "delta":
        return
    for key in ("table_properties", "cluster_by", "auto_optimize"):
        if getattr(config, key):
            require_spark(engine, f"`{key}`")
    if engine.commits_any_table:
        return  # what the tables are is found out while Spark starts
    from lakeport.delta_log.reader import DeltaLog
    from lakeport.writers.delta.plain import is_plain

    for stream in streams:
        folder = table_folder(config.table_folder_name(table_name(config.table_pattern, stream)))
        log = DeltaLog(storage, folder)
        state = log.read_state()
        if state is not None and not is_plain(state):
            require_spark(engine, f"a commit to {log.uri}, which is no plain Delta table,")


def worker_packages(config: DestinationConfig, source: object) -> tuple[str, ...]:
    """Return the packages that tasks import for the destination, `spool_uri` and the source."""
    if isinstance(source, FilesSource):
        source = source.names
    named = [source] if isinstance(source, str) else source if isinstance(source, list) else []
    texts = [text for text in named if isinstance(text, str)]
    schemes = {text.partition("://")[0] for text in (*texts, config.spool_uri or "")}
    others = {destination_for_scheme(scheme) for scheme in schemes} - {""}
    extras = {config.extra, *(config_class(name).extra for name in others)}
    if isinstance(source, DatabaseSource):
        extras.add(source.extra)
    return tuple(name for extra in sorted(extras) for name in EXTRA_PACKAGES.get(extra, ()))


def _compression(config: DestinationConfig) -> str:
    """Return the compression of data files; for CSV "none" unless the config sets it."""
    if config.file_type == "csv" and "compression" not in config.model_fields_set:
        return "none"
    return config.compression


def open_storage(config: DestinationConfig) -> Storage:
    """Open the target's store; reset this process's request deadlines to their full length.

    Raises MissingDependency if the destination's SDK is not installed.
    """
    Retrier.restore_deadlines()
    try:
        return config.storage()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("lakeport"):
            raise
        raise missing_extra_error(
            f"the package {error.name!r} is not installed", config.extra
        ) from error


def open_table(
    config: DestinationConfig,
    storage: Storage,
    engine: Engine,
    stream: str,
    run: str = "",
    *,
    writes: bool = True,
) -> TableWriter:
    """Return the writer of a stream's table; ConfigError if its folder can't hold such a table.

    Args:
        config: the target's config.
        storage: the target's store.
        engine: rewrites data files, and opens delta-spark's transactions.
        stream: the stream's name.
        run: the run's name, which commits keep.
        writes: whether anything will be written; if not, the store is not probed.

    Raises:
        ConfigError: the folder holds a Delta table and the config names files, or the other way
            round, or it lies in another table's folder.
    """
    folder = table_folder(config.table_folder_name(table_name(config.table_pattern, stream)))
    _check_table_place(storage, folder, config.file_type)
    journal = Journal(storage, config.run_id, folder) if config.run_id else None
    if config.file_type == "delta":
        from lakeport.writers.delta.merge import DeltaMerger
        from lakeport.writers.delta.table import DeltaTableWriter
        from lakeport.writers.delta.writer import DeltaWriter

        session = delta_session(config, storage, engine, folder, writes=writes)
        if config.extra:
            # Wrong credentials show now, in our own client's words, while Spark starts.
            _first(storage, f"{folder}/_delta_log")
        writer = DeltaWriter(
            session,
            storage,
            folder,
            stream,
            config,
            run,
            by_log=engine.commits_by_log,
            engine=engine,
        )
        return DeltaTableWriter(writer, DeltaMerger(writer, engine), journal)
    from lakeport.writers.files.writer import FilesWriter

    return FilesWriter(
        storage,
        encoder_for(config.file_type, _compression(config)),
        folder,
        date_partition_format=config.date_partition_format,
        journal=journal,
        manifest=config.manifest,
        unique=secrets.token_hex(4) if writes and storage.needs_unique_names() else "",
        target_bytes=int(config.target_file_size_mb * 2**20),
        evolution=config.schema_evolution,
        run=config.run_id or run,
    )


def _check_table_place(storage: Storage, folder: str, file_type: str) -> None:
    """Raise ConfigError if a folder is in a Delta table, or has a table of another format."""
    segments = folder.split("/")
    for count in range(1, len(segments)):
        above = "/".join(segments[:count])
        if _holds_files(storage, f"{above}/_delta_log"):
            raise _enclosed_error(storage.uri(folder), storage.uri(above))
    if file_type != "delta" and _holds_files(storage, f"{folder}/_delta_log"):
        raise ConfigError(
            f"{storage.uri(folder)} is a Delta table, and `file_type` is {file_type!r}: its "
            "readers would not see the files, and its VACUUM would delete them",
            "leave `file_type` out, or land in another table.",
        )
    if file_type != "delta" or not _holds_files(storage, columns_folder(folder)):
        return
    file = None if _holds_files(storage, f"{folder}/_delta_log") else _first(storage, folder)
    if file is not None:
        kind = "csv" if ".csv" in file.key else "parquet"
        raise ConfigError(
            f"{storage.uri(folder)} is a table of {kind} files, and `file_type` is 'delta': no "
            "reader would see the rows of both",
            f"`--set file_type={kind}` lands there; `--table NAME` lands in another table.",
        )


def _holds_files(storage: Storage, folder: str) -> bool:
    """Whether a folder holds files; False without permission to list, which loads don't need."""
    with suppress(PermissionRefused):
        return _first(storage, folder) is not None
    return False


def _first(storage: Storage, folder: str) -> StoredObject | None:
    """Return the first object in a folder; None if it is empty."""
    return next(iter(storage.list(folder)), None)


def read_delta_table(
    config: DestinationConfig, storage: Storage, engine: Engine, name: str
) -> DataFrame | None:
    """Read a lake's Delta table as a Spark DataFrame; return None if there is no such table.

    Its data files are checked to lie in the table's folder or in `table_roots`.
    """
    from lakeport.delta_log.reader import DeltaLog

    folder = table_folder(config.table_folder_name(name))
    log = DeltaLog(storage, folder)
    if config.file_type != "delta" or log.find_newest_version() < 0:
        return None
    session = delta_session(config, storage, engine, folder, writes=False)()
    session.check_files(storage, folder, log.find_newest_version(), config.table_roots)
    return session.spark.read.format("delta").load(storage.hadoop_uri(folder))


def delta_session(
    config: DestinationConfig,
    storage: Storage,
    engine: Engine,
    folder: str,
    *,
    writes: bool = True,
    probes: bool = True,
) -> Callable[[], DeltaSession]:
    """Return a function that opens a Spark session with credentials for the table's store.

    If the table will be written, the store is probed: DestinationError is raised for one without
    conditional writes. With `probes` false, the caller has done that.
    """
    step = f"{'write' if writes else 'read'} {storage.uri(folder)}"
    needs, asks = config.jars, f"to {step}"
    if not config.connector_jars():
        return lambda: require_spark(engine, asks).delta_session(step, needs)
    if writes and probes and storage.needs_unique_names():
        raise unsafe_for_tables_error(f"the store at {storage.uri()}", "If-None-Match")
    root, settings = storage.hadoop_uri(), storage.hadoop_settings
    commits = writes and config.has_other_writers
    find_secrets = cache(config.secrets)  # asks the JVM for those of an adopted session

    def open_session() -> DeltaSession:
        spark = require_spark(engine, asks)
        spark.secrets.update(find_secrets())
        options = settings(for_workers=not engine.is_local)
        return spark.delta_session(step, needs, root, options, commits=commits)

    return open_session


def _list_enclosing_folders(place: str) -> Iterator[str]:
    """Yield a folder and its parents, for a URI two in all; ConfigError inside `_delta_log`.

    VACUUM of a Delta table there would delete what lands in the folder. Links of a path are
    followed, too. A URI's partition folders are left out.

    >>> list(_list_enclosing_folders("s3://bucket/lake/outer/day=1/more"))
    ['s3://bucket/lake/outer/day=1/more', 's3://bucket/lake/outer']
    >>> list(_list_enclosing_folders("s3://bucket"))
    ['s3://bucket']
    """
    head, found, _ = f"{place}/".partition("/_delta_log/")
    if found:
        raise _enclosed_error(place, head)
    if "://" not in place:
        path, real = Path(place), Path(place).resolve()
        yield from map(str, dict.fromkeys((path, *path.parents, real, *real.parents)))
        return
    scheme, _, rest = place.rstrip("/").partition("://")
    bucket, *names = rest.split("/")
    counts = [count for count in range(len(names), 0, -1) if "=" not in names[count - 1]]
    for count in [*counts, 0][:_NEAREST]:
        yield f"{scheme}://{'/'.join((bucket, *names[:count]))}"


def _enclosed_error(place: str, outer: str) -> ConfigError:
    """Return the error for `place`, which lies in the folder of the Delta table `outer`."""
    above, _, name = outer.rpartition("/")
    return ConfigError(
        f"what lands in {place} would lie in the folder of the Delta table {outer}, whose VACUUM "
        "deletes what its log does not name",
        f"to add rows to that table itself, land in {above or '/'} with `table: {name}`; for "
        f"another table choose a folder outside of {outer}.",
    )
