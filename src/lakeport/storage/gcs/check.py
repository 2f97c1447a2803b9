"""The connection test of Google Cloud Storage: each thing that a load needs, tried on its own."""

from __future__ import annotations

import dataclasses

from lakeport.errors import LakeportError
from lakeport.storage.checks import (
    CheckItem,
    Checks,
    clock_item,
    item_of,
    with_short_timeouts,
    writing_items,
)
from lakeport.storage.gcs.client import Connection, connect
from lakeport.storage.gcs.store import GcsStorage

__all__ = ["check_gcs"]


def check_gcs(storage: GcsStorage) -> Checks:
    """Try credentials, bucket, clock, writing and create-only, one item each.

    What can't work any more after a failure is left out.
    """
    settings = with_short_timeouts(storage.settings)
    storage = dataclasses.replace(storage, settings=settings)
    found = item_of("credentials", lambda: _credentials(storage))
    yield found
    if found.status == "failed":
        return
    try:
        status, words, headers = connect(settings).probe_bucket(storage.bucket)
    except LakeportError as error:
        yield CheckItem("bucket", "failed", error.message, error.hint)
        return
    missing = status == 404 and "bucket" in words
    yield _bucket(storage, status, missing)
    yield clock_item(headers)
    if not missing:
        yield from writing_items(storage, "ifGenerationMatch", "resumable upload")


def _credentials(storage: GcsStorage) -> str:
    settings = storage.settings
    if settings.anonymous:
        return f"none: {settings.base} is asked without credentials"
    connection: Connection = connect(settings)
    connection.authenticate()
    source = "application default credentials"
    if settings.credentials:
        source = "`google_application_credentials`"
    account = f" ({connection.account})" if connection.account else ""
    return f"found in {source}{account}"


def _bucket(storage: GcsStorage, status: int, missing: bool) -> CheckItem:
    name = f"gs://{storage.bucket}"
    if missing:
        hint = "check `bucket` and `google_endpoint`; lakeport never creates a bucket."
        return CheckItem("bucket", "failed", f"there is no bucket {storage.bucket!r}", hint)
    if status in (401, 403):
        return CheckItem(
            "bucket", "skipped", f"{name} answers, but can't be looked at (which no load needs)"
        )
    return CheckItem("bucket", "ok", f"{name} can be reached")
