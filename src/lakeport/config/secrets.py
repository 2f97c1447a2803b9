"""Secrets: values that never show themselves."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

from lakeport.scrub import MASK

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

__all__ = ["Secret"]


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


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
