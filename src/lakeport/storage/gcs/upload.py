"""Staged objects on Google Cloud Storage: a resumable upload whose last bytes are held back."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from typing import Any

from lakeport.errors import DestinationError, LakeportError, ObjectExists, PermissionRefused
from lakeport.model import Staged
from lakeport.storage.background import BackgroundUploads
from lakeport.storage.checksums import Chunker
from lakeport.storage.failures import NotFound, already_exists, found
from lakeport.storage.gcs.client import GcsConnection, Request, connect
from lakeport.storage.gcs.errors import may_have_succeeded
from lakeport.storage.gcs.settings import GcpSettings
from lakeport.storage.retry import RetryPolicy

ID_KEY = "lakeport-id"
_CREATE = "storage.objects.create"
_UNIT = 256 << 10  # what all parts but the last have to be multiples of
_CHUNK = 8 << 20
_BRIEF = RetryPolicy(deadline=10)
_INCOMPLETE = 308
_STALLS = 3  # answers in a row that tell of no new bytes


def resource(
    key: str, content_type: str, metadata: Mapping[str, str], settings: GcpSettings
) -> tuple[dict[str, str], dict[str, Any]]:
    """Query and body that describe a new object."""
    query = {"kmsKeyName": settings.kms_key_name} if settings.kms_key_name else {}
    return query, {"name": key, "contentType": content_type, "metadata": dict(metadata)}


class GcsStageWriter:
    """Sends chunks of 8 MiB while the encoder goes on; at most two are in memory.

    What lies behind the last whole 256 KiB stays in the token, so that the object is complete, and
    thus visible, only when the driver sends it.

    Args:
        bucket: the bucket's name.
        key: the full key.
        settings: how to reach it.
        content_type: the object's MIME type.
    """

    def __init__(
        self,
        bucket: str,
        key: str,
        settings: GcpSettings,
        content_type: str,
    ) -> None:
        self._bucket, self._key, self._settings = bucket, key, settings
        self._name = f"gs://{bucket}/{key}"
        self._id = uuid.uuid4().hex
        self._content_type = content_type
        self._metadata = {ID_KEY: self._id}
        self._chunker = Chunker(lambda number: _CHUNK)
        self._session = ""
        self._taken = False
        self._sent = 0
        self._uploads = BackgroundUploads(1)
        self._uploads.submit(self._begin)

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes; waits while a chunk is under way."""
        for chunk in self._chunker.feed(data):
            self._uploads.submit(self._send, chunk)
        return memoryview(data).nbytes

    def finish(self) -> Mapping[str, Any]:
        """Send all but the last bytes and wait until they are stored."""
        rest = self._chunker.rest()
        whole = len(rest) // _UNIT * _UNIT
        if whole:
            self._uploads.submit(self._send, rest[:whole])
        self._uploads.drain()
        checksum = self._chunker.checksum
        token = {
            "session": "" if self._taken else self._session,
            "offset": self._sent,
            "tail": base64.b64encode(rest[whole:]).decode(),
            "id": self._id,
            "crc32c": checksum,
        }
        return {"token": token, "bytes": self._chunker.bytes, "checksum": f"crc32c:{checksum}"}

    def abort(self) -> None:
        """Cancel the upload. Never raises."""
        self._uploads.cancel()
        cancel(self._session, self._settings)

    def _begin(self) -> None:
        """Open the session. If the name is taken, that is said when the object is published."""
        query, body = resource(self._key, self._content_type, self._metadata, self._settings)
        try:
            answer = connect(self._settings).send(
                Request(
                    "POST",
                    self._settings.upload_url(self._bucket),
                    _CREATE,
                    self._name,
                    accept=(200, 201),
                    condition="absent",
                    params={"uploadType": "resumable", "ifGenerationMatch": "0", **query},
                    headers={
                        "Content-Type": "application/json; charset=UTF-8",
                        "X-Upload-Content-Type": self._content_type,
                    },
                    data=json.dumps(body).encode(),
                    carries="Location",
                )
            )
        except ObjectExists:
            self._taken = True
        else:
            self._session = str(answer.headers["Location"])

    def _send(self, chunk: bytes) -> None:
        """Send a chunk; what the store did not keep of it is sent again."""
        begin, end = self._sent, self._sent + len(chunk)
        stalled = 0
        while self._sent < end and not self._taken:
            try:
                kept = self._kept(chunk[self._sent - begin :], end)
            except ObjectExists:
                self._taken = True
                return
            stalled = stalled + 1 if kept == self._sent else 0
            if kept < self._sent or kept > end or stalled > _STALLS:
                raise DestinationError(
                    f"{self._name}: the store keeps {kept} of {end} bytes",
                    "run it again; nothing of this object is visible.",
                )
            self._sent = kept

    def _kept(self, data: bytes, end: int) -> int:
        """Send bytes from where the store is; return how many it has afterwards."""
        answer = connect(self._settings).send(
            Request(
                "PUT",
                self._session,
                _CREATE,
                self._name,
                accept=(_INCOMPLETE,),
                condition="absent",
                headers={"Content-Range": f"bytes {self._sent}-{end - 1}/*"},
                data=data,
            )
        )
        kept = answer.headers.get("Range", "")
        return int(kept.rpartition("-")[2]) + 1 if kept else 0


def finalise(bucket: str, key: str, staged: Staged, settings: GcpSettings) -> None:
    """Send the bytes held back, which makes the object visible if nothing has its name.

    A lost answer is made up for by asking the session, which knows whether it was completed.

    Raises:
        ObjectExists: something else has that name.
        DestinationError: the checksum of what was stored is not that of what was sent.
    """
    token, name = staged.token, f"gs://{bucket}/{key}"
    if not token["session"]:
        raise already_exists(name)
    tail = base64.b64decode(token["tail"])
    connection = connect(settings)
    transient_failures: list[Exception] = []
    try:
        answer = connection.send(
            Request(
                "PUT",
                token["session"],
                _CREATE,
                name,
                accept=(200, 201),
                condition="absent",
                headers={**_range(staged, len(tail)), "X-Goog-Hash": f"crc32c={token['crc32c']}"},
                data=tail,
                carries="generation",
            ),
            transient_failures=transient_failures,
        )
    except (ObjectExists, NotFound) as error:
        lost = any(map(may_have_succeeded, transient_failures))
        said = isinstance(error, ObjectExists)
        if not _finalised(connection, bucket, key, staged, lost, said):
            raise
        return
    _check(answer, staged, name)


def _check(answer: Any, staged: Staged, name: str) -> None:
    """Compare the checksum of what was stored, where the store tells it, with what was sent."""
    sent = staged.token["crc32c"]
    stored = answer.json().get("crc32c", sent)
    if stored != sent:
        raise DestinationError(
            f"{name} was stored with CRC32C {stored}, but {sent} was sent",
            "remove the object and run again; look for a proxy that changes requests.",
        )


def _range(staged: Staged, tail: int) -> dict[str, str]:
    offset = int(staged.token["offset"])
    sent = f"{offset}-{offset + tail - 1}" if tail else "*"
    return {"Content-Range": f"bytes {sent}/{staged.bytes}"}


def _finalised(
    connection: GcsConnection, bucket: str, key: str, staged: Staged, lost: bool, said: bool
) -> bool:
    """Whether an earlier request completed the upload, with its answer `lost` or not.

    The store may have `said` that the object exists.
    """
    name = f"gs://{bucket}/{key}"
    try:
        answer = connection.send(
            Request(
                "PUT",
                staged.token["session"],
                _CREATE,
                name,
                accept=(200, 201),
                headers={"Content-Range": f"bytes */{staged.bytes}"},
                carries="generation",
            )
        )
    except LakeportError:
        pass
    else:
        _check(answer, staged, name)
        return True

    def look() -> bool:
        return is_ours(bucket, key, str(staged.token["id"]), connection.settings)

    try:
        return found(look) if said else look()
    except NotFound:
        return False
    except PermissionRefused:
        if not lost:
            return False
        raise DestinationError(
            f"{name}: the answer to the last request got lost, and it can't be told whether the "
            "object is this run's",
            "look at the object's metadata; storage.objects.get would let lakeport do so.",
        ) from None


def is_ours(bucket: str, key: str, mark: str, settings: GcpSettings) -> bool:
    """Whether the visible object carries that mark.

    Raises:
        NotFound: there is none.
        PermissionRefused: storage.objects.get is not allowed.
    """
    answer = connect(settings).send(
        Request(
            "GET",
            settings.object_url(bucket, key),
            "storage.objects.get",
            f"gs://{bucket}/{key}",
            params={"fields": "generation,metadata"},
            carries="generation",
        )
    )
    return bool(answer.json().get("metadata", {}).get(ID_KEY) == mark)


def cancel(session: str, settings: GcpSettings) -> None:
    """Cancel an upload; the store forgets one that is left alone after a week."""
    if not session:
        return
    try:
        connect(settings).send(
            Request(
                "DELETE",
                session,
                _CREATE,
                "upload",
                accept=(200, 204, 404, 410, 499),
            ),
            retry_policy=_BRIEF,
        )
    except LakeportError:
        return
