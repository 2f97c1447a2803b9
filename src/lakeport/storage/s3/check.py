"""The connection test of S3: each thing that a load needs, tried on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.errors import LakeportError, PermissionRefused
from lakeport.storage.checks import CheckItem, CloudCheck, clock_item
from lakeport.storage.s3.client import connect
from lakeport.storage.s3.errors import NO_CREDENTIALS

if TYPE_CHECKING:
    from lakeport.storage.s3.store import S3Storage

_SOURCES = {
    "assume-role": "`role_arn`, assumed",
    "assume-role-with-web-identity": "web identity (AWS_WEB_IDENTITY_TOKEN_FILE)",
    "config-file": "~/.aws/config",
    "container-role": "the container's role",
    "custom-process": "the profile's credential_process",
    "env": "the environment (AWS_ACCESS_KEY_ID)",
    "explicit": "`aws_access_key_id` and `aws_secret_access_key`",
    "iam-role": "the instance's role",
    "manual": "`aws_access_key_id` and `aws_secret_access_key`",
    "shared-credentials-file": "~/.aws/credentials",
    "sso": "SSO",
}


class S3Check(CloudCheck):
    """Tries credentials, bucket, region, clock, writing and create-only."""

    upload = "multipart upload"
    storage: S3Storage

    def credentials(self) -> str:
        """Where they were found, once they have been fetched."""
        connection = connect(self.storage.settings)
        held = connection.credentials
        if held is None:
            raise PermissionRefused(*NO_CREDENTIALS)
        source = _SOURCES.get(str(held.method), str(held.method))
        connection.authenticate()
        if connection.settings.profile:
            source += f" (profile {connection.settings.profile!r})"
        return f"found in {source}"

    def place(self) -> list[CheckItem]:
        """The bucket, its region and the clock."""
        storage = self.storage
        try:
            status, headers = connect(storage.settings).probe_bucket(storage.bucket)
        except LakeportError as error:
            return [CheckItem("bucket", "failed", error.message, error.hint)]
        return [_bucket(storage, status), _region(storage, headers), clock_item(headers)]


def _bucket(storage: S3Storage, status: int) -> CheckItem:
    name = f"s3://{storage.bucket}"
    if status == 404:
        hint = "check `bucket` and `aws_endpoint`; lakeport never creates a bucket."
        return CheckItem("bucket", "failed", f"there is no bucket {storage.bucket!r}", hint)
    if status in (400, 403):
        return CheckItem(
            "bucket", "skipped", f"{name} answers, but can't be looked at (which no load needs)"
        )
    return CheckItem("bucket", "ok", f"{name} can be reached")


def _region(storage: S3Storage, headers: dict[str, str]) -> CheckItem:
    real, asked = headers.get("x-amz-bucket-region", ""), storage.settings.region
    if not real:
        return CheckItem("region", "skipped", f"{asked}; the store does not tell the bucket's")
    if real != asked:
        detail = f"the bucket is in {real}, not in {asked}"
        return CheckItem("region", "failed", detail, f"set `aws_region: {real}`.")
    return CheckItem("region", "ok", real)
