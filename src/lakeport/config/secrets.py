"""Secrets: values that never show themselves, and the means to remove them from foreign text."""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

__all__ = ["MASK", "Secret", "names_a_secret", "scrub"]

MASK = "**********"
"""What stands in place of a secret wherever one would be shown."""

_SHORTEST = 4
_NAMES = re.compile(
    r"secret|passw(or)?d|passphrase|token|access[._-]?key|account[._-]?key|encryption[._-]?key"
    r"|private[._-]?key|api[._-]?key|signature|sas[._]|credential|keyfile",
    re.IGNORECASE,
)


class Secret:
    """A text that only `reveal` gives away; repr, str and JSON show a mask.

    Args:
        value: the secret itself.

    Example:
        >>> password = Secret("open sesame")
        >>> print(password, password.reveal())
        ********** open sesame
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself; hand it to a client, never to a message."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret('{MASK}')"

    def __str__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_bytes(self._value), _bytes(other._value))

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __bool__(self) -> bool:
        return bool(self._value)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        text = core_schema.no_info_after_validator_function(
            cls, core_schema.str_schema(min_length=1, strict=True)
        )
        return core_schema.union_schema(
            [core_schema.is_instance_schema(cls), text],
            custom_error_type="secret",
            custom_error_message="has to be text that is not empty",
            serialization=core_schema.plain_serializer_function_ser_schema(str),
        )


def names_a_secret(name: str) -> bool:
    """Whether a setting of that name usually holds a secret.

    Example:
        >>> names_a_secret("spark.hadoop.fs.s3a.secret.key"), names_a_secret("spark.cores.max")
        (True, False)
    """
    return _NAMES.search(name) is not None


def scrub(text: str, secrets: Iterable[str]) -> str:
    """`text` with each secret, and its URL-encoded and Base64 forms, masked.

    Secrets of fewer than 4 characters are left alone: masking them would shred the text.

    Example:
        >>> scrub("https://u:p%40ss1@host refused p@ss1", ["p@ss1"])
        'https://u:**********@host refused **********'
    """
    forms = {form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, MASK)
    return text


def _forms(secret: str) -> tuple[str, ...]:
    raw = _bytes(secret)
    standard = base64.b64encode(raw).decode()
    return (
        secret,
        quote(raw),
        quote(raw, safe=""),
        quote_plus(raw),
        standard,
        standard.rstrip("="),
        base64.urlsafe_b64encode(raw).decode(),
        repr(secret)[1:-1],
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
