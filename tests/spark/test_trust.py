"""A store with the certificate of a private authority: every client of a load trusts it."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyarrow.fs import S3FileSystem

from lakeport.engine.spark.filesystems import read_ca_bundle, trust_certificates
from tests.emulators import Minio, s3_config
from tests.faults import kit


class TlsMinio(Minio):
    """A MinIO whose certificate nobody knows."""

    @property
    def certificate(self) -> Path:
        """Return the certificate's file."""
        return self.data / "certs" / "public.crt"

    @property
    def endpoint(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def _healthy(self) -> bool:
        known = ssl.create_default_context(cafile=str(self.certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=5, context=known)
        try:
            connection.request("GET", self.health)
            return connection.getresponse().status < 500
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def self_signed(folder: Path) -> None:
    """Write `public.crt` and `private.key` for 127.0.0.1."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a private store")])
    here = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(parents=True)
    pem = serialization.Encoding.PEM
    (folder / "public.crt").write_bytes(b"# a comment\n" + made.public_bytes(pem))
    plain = serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    (folder / "private.key").write_bytes(private)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsMinio]:
    server = TlsMinio(tmp_path_factory.mktemp("tls"))
    self_signed(server.data / "certs")
    with server:
        yield server


def test_delta_tables_land_in_a_store_of_a_private_authority(
    store: TlsMinio, tmp_path: Path
) -> None:
    trusted = {"AWS_CA_BUNDLE": str(store.certificate)}
    root = S3FileSystem(
        access_key=store.access_key,
        secret_key=store.secret_key,
        endpoint_override=store.endpoint,
        tls_ca_file_path=str(store.certificate),
        allow_bucket_creation=True,
    )
    root.create_dir("lake")
    config = tmp_path / "lake.json"
    config.touch(mode=0o600)
    config.write_text(
        json.dumps(
            {
                "destination": "delta_lake_s3",
                "bucket": "lake",
                **s3_config(store),
            }
        )
    )
    (tmp_path / "people.csv").write_text("id,name\n1,Ada\n2,Grace\n")

    done = kit.run("land", tmp_path / "people.csv", "--to", config, env=trusted)

    assert done.code == 0, done.err
    options = {**store.delta_options, "ALLOW_INVALID_CERTIFICATES": "true"}
    table = DeltaTable("s3://lake/people", storage_options=options).to_pyarrow_table()
    assert sorted(table["name"].to_pylist()) == ["Ada", "Grace"]


def test_the_authorities_that_java_knows_stay_trusted(
    store: TlsMinio, tmp_path: Path, driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = driver.context._jvm.java
    names = ("javax.net.ssl.trustStore", "javax.net.ssl.trustStoreType", "java.io.tmpdir")
    before = {name: java.lang.System.clearProperty(name) for name in names}
    monkeypatch.setenv("AWS_CA_BUNDLE", str(store.certificate))
    try:
        java.lang.System.setProperty("java.io.tmpdir", str(tmp_path))
        trust_certificates(driver.context)
        path = java.lang.System.getProperty(names[0])
    finally:
        for name, value in before.items():
            java.lang.System.clearProperty(name)
            if value is not None:
                java.lang.System.setProperty(name, value)

    held = java.security.KeyStore.getInstance("JKS")
    held.load(java.io.FileInputStream(path), None)
    own = java.security.KeyStore.getInstance("JKS")
    home = java.lang.System.getProperty("java.home")
    own.load(java.io.FileInputStream(f"{home}/lib/security/cacerts"), None)
    assert Path(path).parent == tmp_path
    assert held.size() == own.size() + 1 > 2


def test_a_bundle_that_cant_be_read_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "damaged.pem").write_text(
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"
    )
    for name in ("damaged.pem", "absent.pem", ""):
        assert read_ca_bundle({"REQUESTS_CA_BUNDLE": str(tmp_path / name)}) == b""
