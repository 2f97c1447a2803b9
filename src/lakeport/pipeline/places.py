"""Where the table of a load is, and which stores its Spark reaches."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lakeport.config.inputs import TablesSource
from lakeport.destinations import open_storage
from lakeport.errors import LakeportError
from lakeport.sources.remote import storage_of
from lakeport.storage.base import CloudStorage
from lakeport.writers.naming import table_name

if TYPE_CHECKING:
    from lakeport.config.lake import Load


def table_of(load: Load) -> str:
    """The URI of a load's table; empty for one with several streams, which have one each."""
    config = load.target
    pattern = config.table_pattern
    if pattern is None or "{stream}" in pattern:
        return ""
    return open_storage(config).uri(config.folder_of(table_name(pattern, load.name)))


def reached_by(load: Load) -> dict[str, object]:
    """The stores that Spark may reach for a load, such as a bucket or an account, each with how."""
    config, source = load.target, load.source
    own = source.tables if isinstance(source, TablesSource) else {}
    storages = [open_storage(config)] if config.connectors() else []
    for uri in (*load.tables.values(), *own.values()):
        with suppress(LakeportError):  # the load itself will say so
            storages += [found] if (found := storage_of(config, f"{uri}/")) else []
    return {
        urlsplit(storage.hadoop_uri()).hostname or "": storage.settings
        for storage in storages
        if isinstance(storage, CloudStorage)
    }
