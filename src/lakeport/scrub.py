"""Masks secrets in text: known values, and what looks like a credential."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote, quote_plus

MASK: Final = "**********"
"""Text in place of a masked secret."""
REDACTION: Final = (
    "(?i)secret|password|passphrase|token|access[.]?key|account[.]?key|encryption[.]?key"
    "|private[.]?key|signature|sas[.]|credential|keyfile"
)
"""Pattern of names and values that Spark hides in its UI, logs and `SET`."""

_HARMLESS: Final = re.compile(r"(?i)provider(s|[.]path|[.]mapping)?$|[.](enabled|type|regex|file)$")
_SUSPECT: Final = re.compile(
    REDACTION
    + r"|(^|[.])fs[.].*key|sas([._]|$)|sharedkey|passwd"
    + r"|(access|account|encryption|private|api)[_-]?key"
)
_SECRET_OPTION: Final = re.compile(r"(?i)-+(auth|bearer|jwt|pass|pat|pw|pwd)$")
_SHORTEST: Final = 4
_PATTERNS: Final = tuple(
    (re.compile(pattern), rf"\1{MASK}")
    for pattern in (
        r"()\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"(?i)((?:[?&;]|\b)(?:sig|x-amz-signature|x-amz-credential|x-amz-security-token"
        r"|x-goog-signature|x-goog-credential|signature|accountkey|sharedaccesssignature"
        r"|access_token|refresh_token|client_secret|password)\s*=\s*)[^\s&;,'\"]+",
        r"(?i)(\bauthorization\s*[:=]\s*)[^\r\n]+",
        r"(?i)(\bbearer\s+)[\w.~+/=-]+",
        r"(\w://[^/\s:@]*:)[^\s@'\"]+(?=@)",  # AWS's secrets have slashes
        r"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    )
)

_OPTION: Final = re.compile(r"(`--(?:column|rename) [^`\n]+`)")
"""Options in hints that hold a column's name and type, no secret, even for a column `password`."""


def is_secret_name(name: str) -> bool:
    """Whether a setting's name suggests that its value is a secret.

    >>> is_secret_name("fs.s3a.secret.key"), is_secret_name("fs.s3a.aws.credentials.provider")
    (True, False)
    """
    return bool(_SUSPECT.search(name)) and not _HARMLESS.search(name)


def find_secret_arguments(words: Sequence[str]) -> tuple[str, ...]:
    """Return the values of options, variables and JSON members whose names suggest a secret.

    Args:
        words: options with their values (`--token x`, `--token=x`), variables (`API_KEY=x`), JSON
            objects, and whole command lines as one word.

    >>> find_secret_arguments(["tap", "--token", "x", "API_KEY=y", '{"password": "z"}', "-v"])
    ('x', 'y', 'z')
    """
    found: list[str] = []
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        start = word.find("{")
        if option and not word.startswith("-"):
            found.append(word)
        elif equals and value and _names_secret(name):
            found.append(value)
        elif start >= 0:
            found += _secret_members(word[start:])
        elif " " in word:
            found += find_secret_arguments([part.strip("'\"") for part in word.split()])
        option = word if not equals and word.startswith("-") and _names_secret(word) else ""
    return tuple(filter(None, found))


def _names_secret(option: str) -> bool:
    """Whether an option or variable suggests that its value is a secret."""
    return is_secret_name(option) or bool(_SECRET_OPTION.fullmatch(option))


def _secret_members(text: str) -> Iterator[str]:
    """Yield the texts in JSON, at any depth, whose names suggest a secret; none if no JSON."""
    try:
        waiting: list[Any] = [json.loads(text)]
    except ValueError:
        return
    while waiting:
        value = waiting.pop()
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for name, member in members:
            if isinstance(member, dict | list):
                waiting.append(member)
            elif is_secret_name(str(name)) and isinstance(member, str):
                yield str(member)


_known: set[str] = set()


def mask_everywhere(secret: str) -> None:
    """Have `scrub` and `mask_known` mask a secret in every text, until this process ends."""
    _known.add(secret)


def mask_known(text: str) -> str:
    """Return a text in which the secrets of `mask_everywhere` are masked, and nothing else is."""
    return _mask(text, _known) if _known else text


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """Mask the given secrets in a text, and everything that looks like a credential.

    Args:
        text: text for a message or a log.
        secrets: secret values; their URL-encoded and Base64 forms are masked too. Key ids,
            signatures, authorization headers, passwords in URLs and private keys are masked
            anyway.

    >>> scrub("GET /a?sig=AbC%3D&x=1 with pa/ss", ["pa/ss"])
    'GET /a?sig=**********&x=1 with **********'
    """
    text = _mask(text, {*secrets, *_known})
    parts = _OPTION.split(text)
    for pattern, mask in _PATTERNS:
        parts[::2] = [pattern.sub(mask, part) for part in parts[::2]]
    return "".join(parts)


def _mask(text: str, secrets: Iterable[str]) -> str:
    """Return a text with every form of the secrets masked, longest first."""
    for form in sorted({f for s in secrets for f in _forms(s)}, key=len, reverse=True):
        text = text.replace(form, MASK)
    return text


def _forms(secret: str) -> set[str]:
    """Return a secret's plain, URL-encoded and Base64 forms; empty below 4 characters."""
    if len(secret) < _SHORTEST:
        return set()
    raw = secret.encode("utf-8", "surrogatepass")
    encoded = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    quoted = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    lower = {re.sub(r"%[0-9A-F]{2}", lambda code: code[0].lower(), form) for form in quoted}
    bare = {form.rstrip("=") for form in encoded}
    texts = {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]}
    return texts | quoted | lower | encoded | bare
