"""The connection test of Google Cloud Storage: each thing that a load needs, tried on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.errors import LakeportError
from lakeport.storage.checks import CheckItem, CloudCheck, clock_item
from lakeport.storage.gcs.client import connect

if TYPE_CHECKING:
    from lakeport.storage.gcs.store import GcsStorage


class GcsCheck(CloudCheck):
    """Tries credentials, bucket, clock, writing and create-only."""

    condition = "ifGenerationMatch"
    upload = "resumable upload"
    storage: GcsStorage

    def credentials(self) -> str:
        """Where they were found, and whose they are."""
        settings = self.storage.settings
        if settings.anonymous:
            return f"none: {settings.base} is asked without credentials"
        connection = connect(settings)
        connection.authenticate()
        source = "application default credentials"
        if settings.credentials:
            source = "`google_application_credentials`"
        account = f" ({connection.account})" if connection.account else ""
        return f"found in {source}{account}"

    def place(self) -> list[CheckItem]:
        """The bucket and the clock."""
        bucket = self.storage.bucket
        try:
            status, words, headers = connect(self.storage.settings).probe_bucket(bucket)
        except LakeportError as error:
            return [CheckItem("bucket", "failed", error.message, error.hint)]
        missing = status == 404 and "bucket" in words
        return [_bucket(bucket, status, missing), clock_item(headers)]


def _bucket(bucket: str, status: int, missing: bool) -> CheckItem:
    name = f"gs://{bucket}"
    if missing:
        hint = "check `bucket` and `google_endpoint`; lakeport never creates a bucket."
        return CheckItem("bucket", "failed", f"there is no bucket {bucket!r}", hint)
    if status in (401, 403):
        return CheckItem(
            "bucket", "skipped", f"{name} answers, but can't be looked at (which no load needs)"
        )
    return CheckItem("bucket", "ok", f"{name} can be reached")
