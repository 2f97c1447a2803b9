"""Connection tests of stores, and the probe whether a store honours create-only conditions."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

from lakeport.errors import DestinationError, LakeportError, ObjectExists
from lakeport.model import CheckItem, Staged, Storage
from lakeport.storage.retry import RetryPolicy

PROBE_KEY = "_lakeport/probe"
_PROBE_BODY = b"lakeport: this object shows that the store refuses to overwrite it\n"

Checks = Iterator[CheckItem]

_BODY = b"lakeport: written by a connection test\n"
_MAX_SKEW_SECONDS = 15 * 60
_NOTED_SKEW_SECONDS = 60


class ConditionUnknown(DestinationError):
    """The store refuses a request because it does not know the condition."""


def honours_create_only(storage: Storage) -> bool:
    """Whether the store refuses to overwrite an object, tested by writing a probe object.

    The probe is one fixed object, created if absent. Every later probe is refused and leaves
    nothing behind, if the permissions allow to drop a staged object.
    """
    try:
        if _put_probe(storage) and _put_probe(storage):
            return False
        return not _publish_probe(storage)
    except ConditionUnknown:
        storage.put(PROBE_KEY, _PROBE_BODY)  # fails if the store refused for another reason
        return False


def unsafe_for_tables_error(store: str, condition: str) -> DestinationError:
    """Return the error that Delta tables are unsafe in a store that ignores a condition header."""
    return DestinationError(
        f"{store} ignores {condition}: two writers of a Delta table would overwrite each other's "
        "commits there",
        "use a store that honours it (AWS, MinIO, R2, Ceph), or land files (`amazon_s3`).",
    )


def _put_probe(storage: Storage) -> bool:
    """Put the probe object create-only; return True if it was written, False if it exists."""
    try:
        storage.put(PROBE_KEY, _PROBE_BODY, create_only=True)
    except ObjectExists:
        return False
    return True


def _publish_probe(storage: Storage) -> bool:
    """Stage the probe object and publish it create-only; return False if it exists already."""
    try:
        writer = storage.stage(PROBE_KEY, "text/plain")
        writer.write(_PROBE_BODY)
        done = writer.finish()
    except ObjectExists:
        return False
    staged = Staged(PROBE_KEY, done["token"], 0, done["bytes"], done["checksum"])
    try:
        storage.publish(staged, PROBE_KEY)
    except ObjectExists:
        storage.discard(staged)
        return False
    return True


def run_check(name: str, step: Callable[[], str]) -> CheckItem:
    """Run a step of a connection test; return its text as `ok` or its LakeportError as `failed`."""
    try:
        return CheckItem(name, "ok", step())
    except LakeportError as error:
        return _failed_item(name, error)


def _failed_item(name: str, error: LakeportError) -> CheckItem:
    """Return the item of a step that raised an error."""
    return CheckItem(name, "failed", error.message, error.hint)


class CloudCheck(ABC):
    """Base class of connection tests of cloud storages; a failed step ends the test."""

    condition: ClassVar[str] = "If-None-Match"
    """The header or parameter of create-only writes."""
    upload: ClassVar[str]
    """The kind of upload that stages objects."""
    endpoint: ClassVar[str]
    """The config key of an endpoint that is not the cloud's own."""

    def __init__(self, storage: Any) -> None:
        settings = replace(
            storage.settings,
            retry_policy=RetryPolicy(deadline=1.5),
            connect_seconds=2,
            read_seconds=3,
        )
        self.storage = replace(storage, settings=settings)

    def items(self, *, tables: bool = False) -> Checks:
        """Test credentials, bucket and writes; yield a CheckItem for each, and end after a failure.

        `tables` adds reading and listing, and makes ignored conditions a failure.
        """
        found = run_check("credentials", self.check_credentials)
        if found.status == "ok" and self.storage.settings.from_session:
            found = replace(found, detail=f"{found.detail}, as the active Spark session has it")
        yield found
        if found.status == "failed":
            return
        items = self.check_place()
        yield from items
        if items[0].status != "failed":
            yield from self._check_writes(tables)
            yield from self.check_more()

    @abstractmethod
    def check_credentials(self) -> str:
        """Return where the credentials were found; raise LakeportError if they are refused."""

    def check_place(self) -> list[CheckItem]:
        """Send a request to the bucket; return items for bucket, response headers and clock."""
        name, bucket = "bucket", self.storage.bucket
        try:
            status, headers = self.storage.connection.probe_bucket(bucket)
        except LakeportError as error:
            return [_failed_item(name, error)]
        uri = replace(self.storage, prefix="").uri()
        if status == 404:
            hint = f"check `bucket` and `{self.endpoint}`; lakeport never creates a bucket."
            found = CheckItem(name, "failed", f"there is no bucket {bucket!r}", hint)
        elif status in (400, 401, 403):
            what = f"{uri} answers, but can't be looked at (which no load needs)"
            found = CheckItem(name, "skipped", what)
        else:
            found = CheckItem(name, "ok", f"{uri} can be reached")
        return [found, *self.check_headers(headers), check_clock(headers)]

    def check_headers(self, headers: Mapping[str, str]) -> list[CheckItem]:
        """Return items for headers of the bucket's answer; none by default."""
        return []

    def check_more(self) -> Checks:
        """Yield items that only this cloud has; none by default."""
        yield from ()

    def _check_writes(self, tables: bool) -> Checks:
        """Write and delete a probe object; yield items for writes, and for reads if `tables`.

        The probe object is removed afterwards if that is allowed; otherwise one object stays.
        """
        storage = self.storage

        def write() -> str:
            with contextlib.suppress(ObjectExists):
                storage.put(PROBE_KEY, _BODY, create_only=True)
            return f"{storage.uri(PROBE_KEY)} can be written"

        def read() -> str:
            storage.get(PROBE_KEY)
            return "objects can be read"

        def list_probe() -> str:
            next(iter(storage.list(PROBE_KEY)), None)
            return "objects can be listed"

        found = run_check("write", write)
        yield found
        if found.status == "failed":
            return
        try:
            yield self._condition_item(honours_create_only(storage), tables)
        except LakeportError as error:
            yield _failed_item(self.upload, error)
        if tables:
            yield run_check("read", read)
            yield run_check("list", list_probe)
        with contextlib.suppress(LakeportError):
            storage.delete(PROBE_KEY)

    def _condition_item(self, honoured: bool, tables: bool) -> CheckItem:
        """Return the item for create-only writes: `failed` if ignored though `tables` need them."""
        name = "conditional writes"
        if honoured:
            return CheckItem(name, "ok", "the store refuses to overwrite when asked to")
        if tables:
            return _failed_item(name, unsafe_for_tables_error("the store", self.condition))
        return CheckItem(
            name,
            "ok",
            f"the store ignores {self.condition}: file names get a unique suffix",
            "nothing to change for files; Delta tables need a store that honours it.",
        )


def check_clock(headers: Mapping[str, str]) -> CheckItem:
    """Compare the clock with the header `Date`: `failed` beyond 15 minutes, `skipped` without it.

    >>> check_clock({}).status
    'skipped'
    """
    text = next((value for name, value in headers.items() if name.lower() == "date"), "")
    try:
        theirs = parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError):
        return CheckItem("clock", "skipped", "the store does not tell the time")
    skew = time.time() - theirs
    words = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the store's"
    if abs(skew) > _MAX_SKEW_SECONDS:
        hint = (
            "set the clock (`timedatectl set-ntp true`): requests are refused from 15 minutes on."
        )
        return CheckItem("clock", "failed", f"this machine's clock is {words}", hint)
    noted = "set the clock: it drifts." if abs(skew) > _NOTED_SKEW_SECONDS else ""
    return CheckItem("clock", "ok", f"this machine's clock is {words}", noted)
