"""The ways in which a request fails, and how each store words its refusals."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

_EVER = 1 << 30


@dataclass(frozen=True)
class Fault:
    """One way to fail.

    Attributes:
        name: part of a case's id.
        forwarded: the store takes the request before it fails.
        status: what is answered; 0 for the connection's end without an answer.
        times: as many requests of that name fail, the point's own being the first.
        everywhere: requests of any name fail from the point on.
        hangs: nothing is answered until the client goes.
        cut: the connection ends in the middle of the store's answer.
        passes: the request is served as if nothing were.
        only: patterns of the names of requests that can fail so.
        strike: takes the request's path, when the request has come so far.
    """

    name: str
    forwarded: bool = False
    status: int = 0
    times: int = 1
    everywhere: bool = False
    hangs: bool = False
    cut: bool = False
    passes: bool = False
    only: tuple[str, ...] = ("*",)
    strike: Callable[[str], None] = lambda _: None

    def striking(self, strike: Callable[[str], None]) -> Fault:
        """The same, and something is called when it happens."""
        return replace(self, strike=strike)


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("lost-after", forwarded=True),
        *(Fault(f"{status}-after", forwarded=True, status=status) for status in (500, 409, 412)),
        Fault("lost-before"),
        *(Fault(f"{status}-before", status=status) for status in (500, 409, 412)),
        Fault("503-thrice", status=503, times=3),
        Fault("cut", forwarded=True, cut=True),
        Fault("hanging", forwarded=True, hangs=True),
        Fault("expired", status=401, times=_EVER, everywhere=True),
        Fault("rival", passes=True, only=("* t/_delta_log/N.json", "COMPLETE t/*.parquet")),
    )
}
"""Faults of requests; `after` and `before` tell of the store's having taken the request.

`rival` is none of the store's: right before the request another writer commits.
"""

FILE_FAULTS = {
    fault.name: fault
    for fault in (
        Fault("EIO-before", status=errno.EIO),
        Fault("EIO-after", forwarded=True, status=errno.EIO),
        Fault("ENOSPC-before", status=errno.ENOSPC),
        Fault("EACCES-on", status=errno.EACCES, times=_EVER, everywhere=True),
    )
}
"""Faults of calls of the file system; `status` is an `errno`."""

KILLS = {
    fault.name: fault
    for fault in (Fault("kill-before", hangs=True), Fault("kill-after", forwarded=True, hangs=True))
}
"""`kill -9` when a request or step begins, or right after it."""

_S3 = {
    401: (400, "ExpiredToken", "The provided token has expired."),
    409: (409, "ConditionalRequestConflict", "A conflicting operation occurred. Retry."),
    412: (412, "PreconditionFailed", "At least one of the pre-conditions did not hold."),
    500: (500, "InternalError", "We encountered an internal error. Please try again."),
    503: (503, "SlowDown", "Please reduce your request rate."),
}
_AZURE = {
    401: (403, "AuthenticationFailed", "Server failed to authenticate the request."),
    409: (409, "BlobAlreadyExists", "The specified blob already exists."),
    412: (412, "ConditionNotMet", "The condition specified was not met."),
    500: (500, "InternalError", "The server encountered an internal error."),
    503: (503, "ServerBusy", "The server is currently unable to receive requests."),
}
_GCS = {
    401: (401, "authError", "Invalid Credentials"),
    409: (409, "conflict", "A conflict happened at the same time."),
    412: (412, "conditionNotMet", "At least one of the pre-conditions did not hold."),
    500: (500, "backendError", "Backend Error"),
    503: (503, "backendError", "Backend Error"),
}


def refusal(dialect: str, status: int) -> tuple[int, Mapping[str, str], bytes]:
    """What a store answers: status, headers and body; 401 stands for an expired token.

    200 is no store's: a page that a proxy or a portal answers in its place.

    The shapes are those of "Error responses" (Amazon S3's API reference), "Status and error codes"
    (Azure's Blob service REST API) and "Status and error codes for JSON" (Google Cloud Storage).
    """
    if status == 200:
        return 200, {"Content-Type": "text/html"}, b"<!DOCTYPE html><p>Log in<br>"
    if dialect == "gcs":
        status, reason, words = _GCS[status]
        each = [{"domain": "global", "reason": reason, "message": words}]
        error = {"code": status, "message": words, "errors": each}
        text = json.dumps({"error": error})
        return status, {"Content-Type": "application/json; charset=UTF-8"}, text.encode()
    status, code, words = (_S3 if dialect == "s3" else _AZURE)[status]
    more = "<RequestId>1</RequestId>" if dialect == "s3" else ""
    text = f"<Code>{code}</Code><Message>{words}</Message>{more}"
    body = f'<?xml version="1.0" encoding="utf-8"?><Error>{text}</Error>'.encode()
    kind = {"Content-Type": "application/xml"}
    return status, kind if dialect == "s3" else {**kind, "x-ms-error-code": code}, body
