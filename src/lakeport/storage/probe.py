"""Find out whether a store honours create-only writes; some clones ignore the condition."""

from __future__ import annotations

from lakeport.errors import DestinationError, ObjectExists
from lakeport.model import Staged, Storage

PROBE_KEY = "_lakeport/probe"
_BODY = b"lakeport: this object shows that the store refuses to overwrite it\n"


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
        storage.put(PROBE_KEY, _BODY)  # fails if the condition was not what it did not know
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
        storage.put(PROBE_KEY, _BODY, create_only=True)
    except ObjectExists:
        return False
    return True


def _publish(storage: Storage) -> bool:
    try:
        writer = storage.stage(PROBE_KEY, "text/plain")
        writer.write(_BODY)
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
