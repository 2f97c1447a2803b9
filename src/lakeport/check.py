"""The connection test: item by item, what a load into a destination needs, in under 10 seconds."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeport.destinations import open_storage
from lakeport.errors import LakeportError, ObjectExists
from lakeport.storage.checks import CheckItem, Checks, item_of

if TYPE_CHECKING:
    from lakeport.config.common import DestinationConfig
    from lakeport.model import Storage

__all__ = ["CheckItem", "CheckReport", "check"]

_SECONDS = 9.0


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a connection test found.

    Attributes:
        target: the destination's URI.
        items: in the order in which they were looked at.
    """

    target: str
    items: tuple[CheckItem, ...]

    @property
    def ok(self) -> bool:
        """Whether a load would get through."""
        return all(item.status != "failed" for item in self.items)


def check(config: DestinationConfig, seconds: float = _SECONDS) -> CheckReport:
    """Test the connection to a destination.

    Args:
        config: the destination's config; bucket and credentials are enough.
        seconds: after which what has not answered counts as failed.

    Raises:
        MissingDependency: the destination's SDK is not installed.
        ConfigError: the config names a file that can't be read.
    """
    storage = open_storage(config)
    return CheckReport(storage.uri(), _within(seconds, lambda: _checks(storage)))


def _checks(storage: Storage) -> Checks:
    from lakeport.storage.azure import AzureStorage
    from lakeport.storage.gcs import GcsStorage
    from lakeport.storage.s3 import S3Storage

    if isinstance(storage, S3Storage):
        from lakeport.storage.s3_check import check_s3

        return check_s3(storage)
    if isinstance(storage, GcsStorage):
        from lakeport.storage.gcs_check import check_gcs

        return check_gcs(storage)
    if isinstance(storage, AzureStorage):
        from lakeport.storage.azure_check import check_azure

        return check_azure(storage)
    return _check_folder(storage)


def _check_folder(storage: Storage) -> Checks:
    key = f"_lakeport/check-{uuid.uuid4().hex}"

    def write() -> str:
        storage.put(key, b"", create_only=True)
        return f"{storage.uri()} can be written to"

    def refuse() -> str:
        try:
            storage.put(key, b"", create_only=True)
        except ObjectExists:
            return "nothing is overwritten"
        finally:
            storage.delete(key)
        raise LakeportError(f"{storage.uri()} let a file be overwritten", "use another folder.")

    found = item_of("write", write)
    yield found
    if found.status == "ok":
        yield item_of("conditional writes", refuse)


def _within(seconds: float, begin: Callable[[], Checks]) -> tuple[CheckItem, ...]:
    """Run the checks in a thread that is left alone when the time is over."""
    found: queue.SimpleQueue[CheckItem | Exception | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            for item in begin():
                found.put(item)
        except Exception as error:
            found.put(error)
        else:
            found.put(None)

    threading.Thread(target=run, name="lakeport-check", daemon=True).start()
    deadline = time.monotonic() + seconds
    items: list[CheckItem] = []
    while True:
        try:
            item = found.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            late = f"no answer within {seconds:g} s"
            hint = "check the endpoint, DNS, the proxy and the firewall."
            return (*items, CheckItem("time", "failed", late, hint))
        if item is None:
            return tuple(items)
        if isinstance(item, Exception):
            raise item
        items.append(item)
