"""Digests of texts and bytes, in hex."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa

from lakeport.loading.expressions.kernels.datum import array_of

__all__ = ["DIGESTS", "digest"]

DIGESTS: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "md5": partial(hashlib.md5, usedforsecurity=False),
    "sha1": partial(hashlib.sha1, usedforsecurity=False),
    "sha224": hashlib.sha224,
    "sha256": hashlib.sha256,
    "sha384": hashlib.sha384,
    "sha512": hashlib.sha512,
}


def digest(values: Any, name: pa.Scalar) -> Any:
    """Digests, of texts in UTF-8."""
    made = DIGESTS[name.as_py()]
    data = array_of(values.cast(pa.binary())).to_pylist()
    found = [None if one is None else made(one).hexdigest() for one in data]
    array = pa.array(found, pa.string())
    return array[0] if isinstance(values, pa.Scalar) else array
