"""The connection test of S3: each thing that a load needs, tried on its own."""

from __future__ import annotations

import dataclasses

from lakeport.errors import LakeportError, PermissionRefused
from lakeport.storage.checks import (
    CheckItem,
    Checks,
    clock_item,
    item_of,
    with_short_timeouts,
    writing_items,
)
from lakeport.storage.s3.client import Connection, connect
from lakeport.storage.s3.messages import NO_CREDENTIALS
from lakeport.storage.s3.store import S3Storage

__all__ = ["check_s3"]

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


def check_s3(storage: S3Storage, *, tables: bool = False) -> Checks:
    """Try credentials, bucket, region, clock, writing and create-only, one item each.

    What can't work any more after a failure is left out.

    Args:
        storage: where to write.
        tables: whether to try what Delta tables need beyond that: create-only writes that are
            honoured, reading and listing.
    """
    settings = with_short_timeouts(storage.settings)
    storage = dataclasses.replace(storage, settings=settings)
    found = item_of("credentials", lambda: _credentials(connect(settings)))
    yield found
    if found.status == "failed":
        return
    try:
        status, headers = connect(settings).probe_bucket(storage.bucket)
    except LakeportError as error:
        yield CheckItem("bucket", "failed", error.message, error.hint)
        return
    yield _bucket(storage, status)
    yield _region(storage, headers)
    yield clock_item(headers)
    if status != 404:
        yield from writing_items(storage, "If-None-Match", "multipart upload", tables=tables)


def _credentials(connection: Connection) -> str:
    held = connection.credentials
    if held is None:
        raise PermissionRefused(*NO_CREDENTIALS)
    source = _SOURCES.get(str(held.method), str(held.method))
    connection.authenticate()
    if connection.settings.profile:
        source += f" (profile {connection.settings.profile!r})"
    return f"found in {source}"


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
