"""What a store's listings leave out."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import unescape

_ENTRY = re.compile(
    rb"<(Contents|Blob)>.*?<(?:Key|Name)>(?P<key>.*?)</(?:Key|Name)>.*?</\1>", re.DOTALL
)


def lists(target: str) -> bool:
    """Whether a request is for a listing of S3 or Azure."""
    asked = parse_qs(urlsplit(target).query)
    return "list-type" in asked or asked.get("comp") == ["list"]


def first_key(target: str) -> str:
    """Where a listing of Azure is to begin; empty for at its prefix.

    delta-rs relies on `startFrom`, which Azurite does not know: a second commit would fail.
    """
    return parse_qs(urlsplit(target).query).get("startFrom", [""])[0]


def only(body: bytes, shown: Callable[[str], bool]) -> bytes:
    """A listing without the keys that are not to be shown.

    >>> only(b"<R><Contents><Key>a%3D1</Key></Contents><Contents><Key>b</Key></Contents></R>",
    ...     lambda key: key != "a=1")
    b'<R><Contents><Key>b</Key></Contents></R>'
    """

    def entry(found: re.Match[bytes]) -> bytes:
        return found[0] if shown(unquote(unescape(found["key"].decode()))) else b""

    return _ENTRY.sub(entry, body)
