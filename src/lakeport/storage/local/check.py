"""The connection test of a folder of this machine."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from lakeport.errors import LakeportError, ObjectExists
from lakeport.storage.checks import Checks, item_of

if TYPE_CHECKING:
    from lakeport.model import Storage


def check_folder(storage: Storage) -> Checks:
    """Try writing and create-only, one item each."""
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
