"""Connection tests: one item for each thing tried, and the probe of a store's conditions."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, Literal

from lakeport.errors import DestinationError, LakeportError, ObjectExists
from lakeport.model import Staged, Storage
from lakeport.storage.retry import RetryPolicy

PROBE_KEY = "_lakeport/probe"
_PROBE_BODY = b"lakeport: this object shows that the store refuses to overwrite it\n"

Status = Literal["ok", "failed", "skipped"]
Checks = Iterator["CheckItem"]

_BODY = b"lakeport: written by a connection test\n"
_REFUSED_SKEW = 15 * 60
_NOTED_SKEW = 60


class ConditionUnknown(DestinationError):
    """The store does not know the condition at all, and refuses the request because of it."""


def honours_create_only(storage: Storage) -> bool:
    """Whether the store refuses to overwrite, both by a put and by publishing a staged object.

    One fixed object is created where it is absent; every later probe is refused and leaves nothing
    behind, if what is staged may be dropped.

    Raises:
        DestinationError: the probe can't be written.
    """
    try:
        if _put(storage) and _put(storage):
            return False
        return not _publish(storage)
    except ConditionUnknown:
        storage.put(PROBE_KEY, _PROBE_BODY)  # fails if the condition was not what it did not know
        return False


def unfit_for_tables(store: str, condition: str) -> DestinationError:
    """The error for Delta tables in a store that overwrites, though asked not to.

    Args:
        store: how the sentence calls it.
        condition: what it was asked with.
    """
    return DestinationError(
        f"{store} ignores {condition}: two writers of a Delta table would overwrite each other's "
        "commits there",
        "use a store that honours it (AWS, MinIO, R2, Ceph), or land files (`amazon_s3`).",
    )


def _put(storage: Storage) -> bool:
    try:
        storage.put(PROBE_KEY, _PROBE_BODY, create_only=True)
    except ObjectExists:
        return False
    return True


def _publish(storage: Storage) -> bool:
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


@dataclass(frozen=True, slots=True)
class CheckItem:
    """One thing that a connection test looked at.

    Attributes:
        name: what was looked at, in one or two words.
        status: `failed` if a load would fail because of it, `skipped` if it can't be told.
        detail: what was found; never a secret.
        hint: the permission, role, key or setting to change; empty where nothing has to.
    """

    name: str
    status: Status
    detail: str
    hint: str = ""


def item_of(name: str, step: Callable[[], str]) -> CheckItem:
    """An item from a step that returns what it found, or raises."""
    try:
        return CheckItem(name, "ok", step())
    except LakeportError as error:
        return _failed(name, error)


def _failed(name: str, error: LakeportError) -> CheckItem:
    return CheckItem(name, "failed", error.message, error.hint)


class CloudCheck(ABC):
    """The connection test of a cloud; what can't work any more after a failure is left out.

    Args:
        storage: where to write. A test has seconds, so that its own requests wait less.
    """

    condition: ClassVar[str] = "If-None-Match"
    """What create-only writes are asked for with."""
    upload: ClassVar[str]
    """What objects are staged with."""
    endpoint: ClassVar[str]
    """The setting that names another endpoint than the cloud's own."""

    def __init__(self, storage: Any) -> None:
        settings = replace(
            storage.settings,
            retry_policy=RetryPolicy(deadline=1.5),
            connect_seconds=2,
            read_seconds=3,
        )
        self.storage = replace(storage, settings=settings)

    def items(self, *, tables: bool = False) -> Checks:
        """Try credentials, the place, writing and create-only, one item each.

        Args:
            tables: whether to try what Delta tables need beyond that: create-only writes that are
                honoured, reading and listing.
        """
        found = item_of("credentials", self.credentials)
        yield found
        if found.status == "failed":
            return
        place = self.place()
        yield from place
        if place[0].status != "failed":
            yield from self._writing(tables)
            yield from self.further()

    @abstractmethod
    def credentials(self) -> str:
        """Where they were found; raises if they are not accepted."""

    def place(self) -> list[CheckItem]:
        """Whether the bucket or container is there, first; then what its answer tells."""
        name, bucket = "bucket", self.storage.bucket
        try:
            status, headers = self.storage.connection.probe_bucket(bucket)
        except LakeportError as error:
            return [_failed(name, error)]
        uri = replace(self.storage, prefix="").uri()
        if status == 404:
            hint = f"check `bucket` and `{self.endpoint}`; lakeport never creates a bucket."
            found = CheckItem(name, "failed", f"there is no bucket {bucket!r}", hint)
        elif status in (400, 401, 403):
            what = f"{uri} answers, but can't be looked at (which no load needs)"
            found = CheckItem(name, "skipped", what)
        else:
            found = CheckItem(name, "ok", f"{uri} can be reached")
        return [found, *self.told(headers), clock_item(headers)]

    def told(self, headers: Mapping[str, str]) -> list[CheckItem]:
        """What this cloud's answer about a bucket tells beside the time."""
        return []

    def further(self) -> Checks:
        """What this cloud alone has to be asked."""
        yield from ()

    def _writing(self, tables: bool) -> Checks:
        """Whether objects can be put and staged, and whether the store keeps from overwriting.

        The object that this takes is removed where that is allowed; elsewhere it is one for ever.
        Delta tables have to be read and listed too, and can't do without the condition.
        """
        storage = self.storage

        def write() -> str:
            with contextlib.suppress(ObjectExists):
                storage.put(PROBE_KEY, _BODY, create_only=True)
            return f"{storage.uri(PROBE_KEY)} can be written"

        def read() -> str:
            storage.get(PROBE_KEY)
            return "objects can be read"

        def listed() -> str:
            next(iter(storage.list(PROBE_KEY)), None)
            return "objects can be listed"

        found = item_of("write", write)
        yield found
        if found.status == "failed":
            return
        try:
            yield self._honouring(honours_create_only(storage), tables)
        except LakeportError as error:
            yield _failed(self.upload, error)
        if tables:
            yield item_of("read", read)
            yield item_of("list", listed)
        with contextlib.suppress(LakeportError):
            storage.delete(PROBE_KEY)

    def _honouring(self, honoured: bool, tables: bool) -> CheckItem:
        name = "conditional writes"
        if honoured:
            return CheckItem(name, "ok", "the store refuses to overwrite when asked to")
        if tables:
            return _failed(name, unfit_for_tables("the store", self.condition))
        return CheckItem(
            name,
            "ok",
            f"the store ignores {self.condition}: file names get a unique suffix",
            "nothing to change for files; Delta tables need a store that honours it.",
        )


def clock_item(headers: Mapping[str, str]) -> CheckItem:
    """How far this machine's clock is from the store's, by the answer's `Date`.

    >>> clock_item({}).status
    'skipped'
    """
    text = next((value for name, value in headers.items() if name.lower() == "date"), "")
    try:
        theirs = parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError):
        return CheckItem("clock", "skipped", "the store does not tell the time")
    skew = time.time() - theirs
    words = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the store's"
    if abs(skew) > _REFUSED_SKEW:
        hint = (
            "set the clock (`timedatectl set-ntp true`): requests are refused from 15 minutes on."
        )
        return CheckItem("clock", "failed", f"this machine's clock is {words}", hint)
    noted = "set the clock: it drifts." if abs(skew) > _NOTED_SKEW else ""
    return CheckItem("clock", "ok", f"this machine's clock is {words}", noted)
