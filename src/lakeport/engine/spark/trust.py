"""A private authority's certificates, for Spark's JVM: the AWS SDK for Python finds them itself."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["bundled", "trust"]

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_STORE = "javax.net.ssl.trustStore"


def bundled(environ: Mapping[str, str]) -> bytes:
    """The certificates that botocore would trust instead of its own, as a PEM file's content.

    Args:
        environ: holds the file's path in AWS_CA_BUNDLE or REQUESTS_CA_BUNDLE.

    Returns:
        Nothing for a file that can't be read: the AWS SDK for Python refuses it.

    >>> bundled({})
    b''
    """
    path = environ.get("AWS_CA_BUNDLE") or environ.get("REQUESTS_CA_BUNDLE")
    if not path:
        return b""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        return b"\n".join(_PEM.findall(Path(path).read_bytes()))
    except OSError:
        return b""


def trust(context: SparkContext) -> None:
    """Have the driver's JVM trust the bundled certificates too, beside those of Java's own.

    It counts for connections that are opened afterwards. A trust store that the JVM was given, by
    its user or an earlier call, stays.
    """
    gateway: Any = context._gateway
    java: Any = gateway.jvm.java
    system = java.lang.System
    if system.getProperty(_STORE) or not (pem := bundled(os.environ)):
        return
    store = java.security.KeyStore.getInstance("JKS")
    own = Path(system.getProperty("java.home"), "lib", "security", "cacerts")
    # The stores of Java are read without their password, which only guards against changes.
    store.load(java.io.FileInputStream(str(own)) if own.is_file() else None, None)
    kind = java.security.cert.CertificateFactory.getInstance("X.509")
    found = kind.generateCertificates(java.io.ByteArrayInputStream(pem))
    for number, certificate in enumerate(found):
        store.setCertificateEntry(f"bundled-{number}", certificate)
    target = Path(system.getProperty("java.io.tmpdir"), "lakeport-trusted.jks")
    output = java.io.FileOutputStream(str(target))
    store.store(output, gateway.new_array(gateway.jvm.char, 1))
    output.close()
    system.setProperty(_STORE, str(target))
    system.setProperty(f"{_STORE}Type", "JKS")
