"""Types of the keys of destinations on clouds: names, endpoints, secrets."""

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


def blank(value: object) -> object:
    """Blank text is absent, as templates leave it where nothing was filled in."""
    return None if isinstance(value, str) and not value.strip() else value


def _prefix(value: str) -> str:
    """A prefix without slashes at its ends, that nothing climbs out of."""
    try:
        return clean_prefix(value)
    except ConfigError as error:
        raise ValueError(f"can't have such a part: {error.hint}") from None


def _masked(value: object) -> object:
    """Text without the credentials before an `@`, which no endpoint and no bucket may have."""
    return _BEFORE_AT.sub(rf"\1{MASK}@", value) if isinstance(value, str) else value


def _endpoint(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("has to look like https://host or http://host:port")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("can't hold credentials, a query or a fragment")
    return value.rstrip("/")


def _bucket(value: str) -> str:
    if not _BUCKET.fullmatch(value):
        raise ValueError(
            "has to be the bare name of a bucket, without scheme and slashes, of 2 to 255 letters, "
            "digits, dots, hyphens and underscores"
        )
    return value


def reveal(secret: SecretStr | None) -> str:
    """A secret's text; empty if it is absent."""
    return secret.get_secret_value() if secret is not None else ""


# Strict: a number of YAML's may have lost the zeros in front.
OptionalSecret = Annotated[SecretStr | None, Strict(), BeforeValidator(blank)]
OptionalText = Annotated[Text | None, BeforeValidator(blank)]
OptionalEndpoint = Annotated[
    Annotated[str, AfterValidator(_endpoint)] | None,
    BeforeValidator(_masked),
    BeforeValidator(blank),
]


class BucketConfig(DestinationConfig):
    """Keys shared by the destinations in buckets."""

    bucket: Annotated[str, AfterValidator(_bucket), BeforeValidator(_masked)] = Field(
        description="Name of the bucket. It is never created."
    )
    object_key_path: Annotated[str, AfterValidator(_prefix)] = Field(
        default="", description="Prefix in front of the tables; default: none."
    )

    @classmethod
    def uri_keys(cls, uri: str) -> dict[str, str]:
        """The bucket and prefix of `s3://bucket/prefix` or `gs://bucket/prefix`."""
        parts = urlsplit(uri)
        return {"bucket": parts.netloc, "object_key_path": parts.path}
