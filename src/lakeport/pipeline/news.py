"""What is new for a load, as far as its table's memory and a listing tell; nothing is read."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lakeport.config.inputs.database import DatabaseSource
from lakeport.config.inputs.files import FilesSource
from lakeport.config.inputs.tables import TablesSource
from lakeport.destinations import open_storage, open_table
from lakeport.errors import LakeportError
from lakeport.sources.database.cursor import bookmark_name
from lakeport.sources.new_files.open import open_new_files
from lakeport.sources.options import ReadOptions
from lakeport.sources.tables import source as tables
from lakeport.units import counted, size

if TYPE_CHECKING:
    from lakeport.config.lake import Load
    from lakeport.engine.base import Engine
    from lakeport.model import Memory


def news_of(load: Load, engine: Engine) -> str:
    """What a load would have, in words; empty where its table remembers nothing of its source.

    Args:
        load: the load.
        engine: Spark, which need not start.
    """
    try:
        return _found(load, partial(_memory, load, engine))
    except LakeportError as error:
        return f"it would fail: {error.message}"


def _memory(load: Load, engine: Engine, stream: str = "") -> Memory:
    storage = open_storage(load.target)
    table = open_table(load.target, storage, engine, stream or load.name, writes=False)
    return table.memory(writes=False)


def _found(load: Load, memory: partial[Memory]) -> str:
    source = load.source
    if isinstance(source, FilesSource) and source.new_only:
        options = ReadOptions().of_files(source)
        with tempfile.TemporaryDirectory(prefix="lakeport-") as folder:
            _, new = open_new_files(source, options, load.target, Path(folder), memory)
            total = sum(file.bytes for file in new.files)
            return f"{counted(len(new.files), 'new file')}, {size(total)}"
    if isinstance(source, DatabaseSource) and source.cursor:
        value = memory().bookmark(bookmark_name(source)).value
        return f"rows from {source.cursor} {value['value']} on" if "value" in value else _ALL
    if isinstance(source, TablesSource) and source.incremental:
        name = next(iter(source.tables))
        value = memory().bookmark(tables.bookmark_name(name)).value
        return f"rows behind version {value['version']}" if "version" in value else _ALL
    return ""


_ALL = "all rows: none was landed yet"
