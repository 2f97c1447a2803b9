"""The stores' SDKs, loaded before a store is asked: for processes that others are forked from.

A process that is there for one task, or one run, would load them each time: 0.25 s for AWS's.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Final

from lakeport.host.extras import PACKAGES
from lakeport.storage.s3.client import read_models

_MODULES: Final = (
    *(name for names in PACKAGES.values() for name in names),
    *(f"lakeport.storage.{extra}.store" for extra in PACKAGES),
    "google.auth.transport.requests",
    "google.oauth2.service_account",
)


def preload() -> None:
    """Load the SDKs that are installed. Nothing is asked, and no credentials are looked for."""
    for name in _MODULES:
        with suppress(ImportError):
            import_module(name)
    with suppress(Exception):
        read_models()
