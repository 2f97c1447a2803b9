"""Types of keys that several cloud destinations share: buckets, endpoints, secrets."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, Strict

from lakeport.config.base import DestinationConfig, Text
from lakeport.errors import ConfigError
from lakeport.scrub import MASK
from lakeport.storage.base import clean_prefix

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_BEFORE_AT = re.compile(r"(?s)^(\w+://)?.*@")


def blank_to_none(value: object) -> object:
    """Return None for blank text, which templates leave for unset values; else the value."""
    return None if isinstance(value, str) and not value.strip() else value


def _clean_prefix(value: str) -> str:
    """Strip slashes from the ends of an object prefix; raise ValueError for parts like `..`."""
    try:
        return clean_prefix(value)
    except ConfigError as error:
        raise ValueError(f"can't have such a part: {error.hint}") from None


def _mask_credentials(value: object) -> object:
    """Mask text up to its last `@`, as errors of later checks quote it; other values unchanged."""
    return _BEFORE_AT.sub(rf"\1{MASK}@", value) if isinstance(value, str) else value


def _check_endpoint(value: str) -> str:
    """Return an http(s) URL without its final slash; raise ValueError for any other text."""
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("has to look like https://host or http://host:port")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("can't hold credentials, a query or a fragment")
    return value.rstrip("/")


def _check_bucket(value: str) -> str:
    """Return a bucket's name unchanged; raise ValueError for anything else, such as a URI."""
    if not _BUCKET.fullmatch(value):
        raise ValueError(
            "has to be the bare name of a bucket, without scheme and slashes, of 2 to 255 letters, "
            "digits, dots, hyphens and underscores"
        )
    return value


def reveal(secret: SecretStr | None) -> str:
    """Return a secret's text; empty for None."""
    return secret.get_secret_value() if secret is not None else ""


# Strict: a number of YAML's may have lost the zeros in front.
OptionalSecret = Annotated[SecretStr | None, Strict(), BeforeValidator(blank_to_none)]
OptionalText = Annotated[Text | None, BeforeValidator(blank_to_none)]
OptionalEndpoint = Annotated[
    Annotated[str, AfterValidator(_check_endpoint)] | None,
    BeforeValidator(_mask_credentials),
    BeforeValidator(blank_to_none),
]


class BucketConfig(DestinationConfig):
    """Base class of bucket configs: the keys that S3 and Google Cloud Storage share."""

    bucket: Annotated[str, AfterValidator(_check_bucket), BeforeValidator(_mask_credentials)] = (
        Field(description="Name of the bucket. It is never created.")
    )
    object_key_path: Annotated[str, AfterValidator(_clean_prefix)] = Field(
        default="", description="Prefix in front of the tables; default: none."
    )

    @classmethod
    def uri_keys(cls, uri: str) -> dict[str, str]:
        """Return the keys for `s3://bucket/prefix` or `gs://bucket/prefix`."""
        parts = urlsplit(uri)
        return {"bucket": parts.netloc, "object_key_path": parts.path}
