from __future__ import annotations

from pathlib import Path
from typing import Any

from lakeport.model import Batch
from lakeport.sources.files.places import discover
from lakeport.sources.files.source import FileSource
from lakeport.sources.options import FileOptions
from lakeport.sources.spool import SpoolLocation


def file_batch(tmp_path: Path, *contents: bytes, name: str, **settings: Any) -> Batch:
    """The one batch of files with these contents, whose names end with `name`."""
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    spool = tmp_path / "spool"
    spool.mkdir(exist_ok=True)
    for number, content in enumerate(contents):
        (folder / f"{number}{name}").write_bytes(content)
    source = FileSource(discover([str(folder)]), "t", SpoolLocation(spool), FileOptions(**settings))
    (flush,) = source
    assert flush.last
    (batch,) = flush.batches
    return batch
