"""Locate a table: from a user's name for it to its store, its folder there, and its Spark URI."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeport.config.base import (
    DestinationConfig,
    config_class,
    delta_destination,
    destination_for_scheme,
    list_schemes,
    store_keys,
    user_facing_uri,
)
from lakeport.config.load import load_target
from lakeport.destinations import delta_session, open_storage
from lakeport.engine.base import SessionRequest
from lakeport.engine.threads import choose_engine
from lakeport.errors import ConfigError, DestinationError, PermissionRefused
from lakeport.sources.target import open_folder_storage
from lakeport.storage.base import clean_prefix
from lakeport.storage.local import LocalStorage
from lakeport.writers.naming import HOME

if TYPE_CHECKING:
    from lakeport.delta_log.reader import Contents, DeltaLog
    from lakeport.engine.base import Engine
    from lakeport.engine.spark.delta.session import DeltaSession
    from lakeport.model import Storage

_LARGE_BYTES = 1 << 30
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True)
class TableLocation:
    """Where a table is: its store's config and storage, and its folder (empty for the root).

    The store begins at the folder above the table, or for a local table at its own folder.
    """

    config: DestinationConfig
    storage: Storage
    folder: str

    @property
    def log(self) -> DeltaLog:
        """Reader of the Delta log in the table's folder, whether or not there is one."""
        from lakeport.delta_log.reader import DeltaLog

        return DeltaLog(self.storage, self.folder)

    @property
    def uri(self) -> str:
        """The table's URI as users write it."""
        return self.storage.uri(self.folder)

    def find_lake(self) -> tuple[Storage, str]:
        """Return the storage of the table's lake, and the table's folder below that.

        The lake is the nearest folder above the table that has folders in `_lakeport`; if none has
        them, the folder right above.
        """
        nearest, path, name = None, self.uri.rstrip("/"), ""
        while path.rpartition("/")[0].rpartition("/")[2]:
            path, _, last = path.rpartition("/")
            name = f"{last}/{name}".rstrip("/")
            lake = open_folder_storage(self.config, path) or LocalStorage(path)
            try:
                if lake.list_folder(HOME).folders:  # not the object of a probe alone
                    return lake, name
            except PermissionRefused:
                break
            nearest = nearest or (lake, name)
        return nearest or (self.storage, self.folder)

    @property
    def jars(self) -> frozenset[str]:
        """Jars that Spark needs to open the table; DestinationError on Google Cloud Storage."""
        if self.config.destination == "google_cloud_storage":
            raise DestinationError(
                f"Spark has no connector for {self.uri}",
                "`show` and `preview` do without Spark; copy the files for the rest.",
            )
        return self.config.delta_jars

    def check_files(self, session: DeltaSession, version: int) -> None:
        """Raise SourceError if the log of a version names files outside of the table's folder."""
        session.check_files(self.storage, self.folder, version, self.config.table_roots)

    def open_engine(self, contents: Contents | None = None) -> Engine:
        """Open the configured engine; its JVM is large if `contents` has a GiB of data or more."""
        size = 0 if contents is None else sum(file.bytes for file in contents.files)
        config = self.config
        request = SessionRequest(self.jars, config.spark, size < _LARGE_BYTES, warm=config.warm)
        return choose_engine(config.engine, request)

    def session(self, engine: Engine, *, writes: bool = False) -> DeltaSession:
        """Wait until Spark has started; return a Delta session with access to the table's store.

        With `writes`, raises DestinationError if the store can't hold Delta tables.
        """
        return delta_session(self.config, self.storage, engine, self.folder, writes=writes)()


def locate_table(
    table: str | os.PathLike[str],
    to: str | os.PathLike[str] | Mapping[str, Any] | DestinationConfig | None = None,
    keys: Mapping[str, Any] | None = None,
) -> TableLocation:
    """Resolve a table's path, URI or name to its storage and folder, or raise ConfigError.

    Args:
        table: a folder of this machine, a URI (`s3://`, `abfss://`, `gs://`), or, with `to`, the
            table's name below that target.
        to: a target as `land` takes it, for credentials and endpoint; its destination's own
            variables and default chain count without it.
        keys: further keys, which win over those of `to`.

    Raises:
        ConfigError: the name is none, or the target is for another store.
        MissingDependency: the store's SDK is not installed.
    """
    text = os.fspath(table)
    if not text.strip():
        raise ConfigError("the table's name is empty", "name a folder, a URI, or a table.")
    shared: dict[str, Any] = dict(keys or {})
    text = user_facing_uri(text)
    kind = _find_destination(text)
    if to is not None:
        config = load_target(to, keys)
        target = delta_destination(config.destination)
        if not (_SCHEME.match(text) or Path(text).is_absolute()):
            storage = open_storage(config)
            kind, text = target, storage.uri(clean_prefix(text, "table"))
        elif kind != target:
            raise ConfigError(
                f"{text} is not in a store of the kind that the target names: "
                f"`{config.destination}`",
                "give the config of the table's own store, or the table's name alone.",
            )
        shared = {**_select_store_keys(config, target), **shared}
    return _open_location(kind, text, shared)


def _find_destination(uri: str) -> str:
    """Return the Delta destination kind for a path's or URI's scheme, or raise ConfigError."""
    match = _SCHEME.match(uri)
    found = destination_for_scheme(match[1].lower() if match else "file")
    if not found:
        raise ConfigError(
            f"no table can be at {uri}", f"give a folder, or a URI of: {list_schemes()}."
        )
    return delta_destination(found)


def _select_store_keys(config: DestinationConfig, kind: str) -> dict[str, Any]:
    """Return a config's given keys about the store and Spark, without those about a folder."""
    own = store_keys(config_class(kind)) | {"spark"}
    return {name: getattr(config, name) for name in own & config.model_fields_set}


def _open_location(kind: str, uri: str, keys: Mapping[str, Any]) -> TableLocation:
    """Open the storage of a table by its full path or URI; ConfigError if the path is a file."""
    if kind == "local":
        if "://" not in uri and Path(uri).expanduser().is_file():
            raise ConfigError(
                f"{uri!r} is a file, and a table is a folder",
                "name the table's folder; `lakeport land` makes a table of a file.",
            )
        config = load_target({"destination": kind, "path": uri, "object_key_path": ""}, keys)
        return TableLocation(config, open_storage(config), "")
    where: dict[str, Any] = config_class(kind).uri_keys(uri)
    folder = ""
    if "object_key_path" in where:
        above, _, folder = where["object_key_path"].strip("/").rpartition("/")
        where["object_key_path"] = above
    config = load_target({"destination": kind, **where}, keys)
    if "table_uri" in where:
        folder = config.table_pattern or ""
    return TableLocation(config, open_storage(config), folder)
