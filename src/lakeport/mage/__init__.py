"""Compatibility with Mage: its destination classes, flags, log lines and config keys.

docs/mage.md describes them; docs/mage-differences.md lists the differences.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeport.mage.destinations import (
        AmazonS3,
        DeltaLakeAzure,
        DeltaLakeS3,
        GoogleCloudStorage,
    )

__all__ = ["AmazonS3", "DeltaLakeAzure", "DeltaLakeS3", "GoogleCloudStorage"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("lakeport.mage.destinations"), name)
