"""Sources in object stores: which store a URI names, and with which credentials it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.config.classes import destination_of
from lakeport.config.load import load_target

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.model import Storage

__all__ = ["storage_of"]


def storage_of(target: DestinationConfig, uri: str) -> Storage | None:
    """The store rooted at a folder's URI; None for a local path.

    A source in the target's own cloud is read with the target's credentials and endpoint, any
    other one with those that the environment has.

    Raises:
        ConfigError: no store has that scheme.
    """
    if "://" not in uri or uri.startswith("file:"):
        return None
    from lakeport.config.clouds.aws import AwsConfig
    from lakeport.config.clouds.gcp import GcpConfig
    from lakeport.config.destinations.delta_lake_azure import DeltaLakeAzureConfig

    if destination_of(uri.partition("://")[0]) == "delta_lake_azure":
        if isinstance(target, DeltaLakeAzureConfig) and target.shares_account(uri):
            return target.storage_at(uri)
        return DeltaLakeAzureConfig(table_uri=f"{uri.rstrip('/')}/_").storage_at(uri)
    there = load_target(uri)
    for cloud in (AwsConfig, GcpConfig):
        if isinstance(there, cloud) and isinstance(target, cloud):
            place = {"bucket": there.bucket, "object_key_path": there.object_key_path}
            return target.model_copy(update=place).storage()
    return there.storage()
