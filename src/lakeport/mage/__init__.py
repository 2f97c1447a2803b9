"""Compatibility with Mage: its destination classes, decorators, flags, log lines and config keys.

docs/mage.md describes them; docs/mage-differences.md lists the differences.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from lakeport.mage.destinations import (
        AmazonS3,
        DeltaLakeAzure,
        DeltaLakeS3,
        GoogleCloudStorage,
    )

_DESTINATIONS = ("AmazonS3", "DeltaLakeAzure", "DeltaLakeS3", "GoogleCloudStorage")

__all__ = [
    "AmazonS3",
    "DeltaLakeAzure",
    "DeltaLakeS3",
    "GoogleCloudStorage",
    "data_exporter",
    "data_loader",
    "get_repo_path",
    "test",
    "transformer",
]

_Block = TypeVar("_Block", bound=Callable[..., Any])


def data_exporter(function: _Block) -> _Block:
    """Return a block's function unchanged: outside of Mage, the block is called by its name.

    `data_loader`, `transformer` and `test` do the same. Mage has decorators of its own, which run
    the blocks of a pipeline.

    Example:
        >>> @data_exporter
        ... def export_rows(rows, **kwargs):
        ...     return len(rows)
        >>> export_rows([1, 2])
        2
    """
    return function


data_exporter.__test__ = False  # type: ignore[attr-defined]  # pytest would collect `test`
data_loader = transformer = test = data_exporter


def get_repo_path() -> str:
    """Return the folder of Mage's project: MAGE_REPO_PATH, else the current folder."""
    return os.environ.get("MAGE_REPO_PATH") or os.getcwd()  # noqa: PTH109  # as Mage: text


def __getattr__(name: str) -> Any:
    if name not in _DESTINATIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("lakeport.mage.destinations"), name)
