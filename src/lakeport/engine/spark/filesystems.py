"""Credentials and certificates for Hadoop's connectors, by which Spark reaches stores.

Credentials go into the running session's Hadoop configuration, right before the first use of a
store. They are never on a command line, nor among Spark's settings, which Spark shows.
"""

from __future__ import annotations

import os
import re
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from lakeport.engine.failures import translate_errors
from lakeport.engine.spark import active_context
from lakeport.engine.spark.jvm.calls import java_class
from lakeport.errors import ConfigError
from lakeport.scrub import is_secret_name

if TYPE_CHECKING:
    from pyspark import SparkContext

    from lakeport.engine.spark.session import DriverSession

_FILE_SYSTEM: Final = "org.apache.hadoop.fs.FileSystem"
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SDK_V1_PROVIDERS: Final = {
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider": (
        "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"
    ),
    "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider": "io.lakeport.aws.v1.Profile",
    "io.lakeport.aws.AssumedRole": "io.lakeport.aws.v1.AssumedRole",
}
"""Credentials providers of S3A -> those of Hadoop 3.3, which has the AWS SDK v1."""

_USERS_SOURCE: Final = "a user of lakeport"
"""Source of the options that a user asked for; loads take them for the user's own."""

_TRUST_STORE: Final = "javax.net.ssl.trustStore"
_lock = threading.Lock()
_configured: WeakKeyDictionary[SparkContext, dict[str, dict[str, str]]] = WeakKeyDictionary()
"""For each context, the URI of a store -> the settings that `configure_store` was given."""


def configure_store(
    session: DriverSession, root: str, settings: Mapping[str, str], *, commits: bool = False
) -> None:
    """Set Hadoop's options for a store in the Spark session, once; waits until Spark runs.

    Args:
        root: URI of the store's root, or of a folder in it, as Hadoop names it.
        settings: the connector's options for that root, secrets included.
        commits: whether delta-spark may commit to tables there while others do.

    Raises:
        ConfigError: the session would let two writers overwrite each other's commits on S3.
        SparkFailure: Spark did not start.
    """
    context, store_uri = session.context, store_root(root)
    with _lock:
        # Each load of an adopted context has its own `DriverSession`.
        known = _configured.setdefault(context, {})
        if commits and store_uri.startswith("s3a:"):
            if not session.adopted:  # the caller has checked the user's
                active_context.check_session(session.spark, frozenset({"delta", "s3a"}))
            _check_create_flags(session, urlsplit(store_uri).netloc)
        if known.get(store_uri) == settings:
            return
        options = _for_sdk(session, settings)
        if not _has_options(session, options):
            if not session.adopted and _uses_tls(store_uri, options):
                trust_certificates(context)
            _apply_settings(session, store_uri, options, known.get(store_uri))
            known[store_uri] = dict(settings)


def connect_store(session: DriverSession, root: str, settings: Mapping[str, str]) -> None:
    """Set Hadoop's options for a store as the user's own, and let `s3://` name S3 like `s3a://`.

    Loads without credentials of their own find these. See `configure_store` for the arguments.
    """
    context, store_uri = session.context, store_root(root)
    scheme, _, bucket = store_uri.partition("://")
    with _lock:
        if not session.adopted and _uses_tls(store_uri, settings):
            trust_certificates(context)
        conf = context._jsc.hadoopConfiguration()
        keys = {key: value for key, value in settings.items() if is_secret_name(key)}
        renewed = any(conf.get(key) not in (None, value) for key, value in keys.items())
        settings = _for_sdk(session, settings)
        if scheme == "s3a" and not conf.get("fs.s3.impl"):
            settings["fs.s3.impl"] = "org.apache.hadoop.fs.s3a.S3AFileSystem"
        session.set_hadoop_settings(settings, _USERS_SOURCE)
        _configured.get(context, {}).pop(store_uri, None)
        for name in ("s3", "s3a") if scheme == "s3a" else (scheme,):
            if renewed:
                _close_file_system(session, f"{name}://{bucket}")


def store_root(root: str) -> str:
    """Return a URI's scheme and authority, such as `s3a://bucket`.

    >>> store_root("s3a://lake/raw/events")
    's3a://lake'
    """
    parts = urlsplit(root)
    return f"{parts.scheme}://{parts.netloc}"


def _apply_settings(
    session: DriverSession,
    store_uri: str,
    settings: Mapping[str, str],
    old_settings: Mapping[str, str] | None,
) -> None:
    """Set Hadoop's options for a store; if they changed, unset old ones and close its client."""
    session.set_hadoop_settings(settings)
    if old_settings is None:
        return
    with translate_errors(session.secrets):
        for key in old_settings.keys() - settings.keys():
            session.context._jsc.hadoopConfiguration().unset(key)
        _close_file_system(session, store_uri)


def _has_options(session: DriverSession, settings: Mapping[str, str]) -> bool:
    """Whether a user's session has all of a store's options already, so that they stay its own."""
    conf = session.context._jsc.hadoopConfiguration()
    own = session.adopted and bool(settings)
    return own and all(conf.get(key) == value for key, value in settings.items())


def _for_sdk(session: DriverSession, settings: Mapping[str, str]) -> dict[str, str]:
    """Return S3A's options with the classes of the AWS SDK v1 on Hadoop 3.3, as Spark 3.5 has."""
    if _SDK_V1_PROVIDERS.keys().isdisjoint(settings.values()):
        return dict(settings)
    version = java_class(session.context._jvm, "org.apache.hadoop.util.VersionInfo").getVersion()
    names = _SDK_V1_PROVIDERS if str(version).startswith("3.3.") else {}
    return {key: names.get(text, text) for key, text in settings.items()}


def _close_file_system(session: DriverSession, store_uri: str) -> None:
    """Close Hadoop's cached client of a store, and clear Delta's cache of table logs."""
    jvm, conf = session.context._jvm, session.context._jsc.hadoopConfiguration()
    if "delta" in session.needs:
        java_class(jvm, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    java_class(jvm, _FILE_SYSTEM).get(java_class(jvm, "java.net.URI")(store_uri), conf).close()


def _uses_tls(store_uri: str, settings: Mapping[str, str]) -> bool:
    """Whether S3A connects to the bucket by TLS under these settings; False for other stores."""
    parts = urlsplit(store_uri)
    wanted = settings.get(f"fs.s3a.bucket.{parts.netloc}.connection.ssl.enabled")
    return parts.scheme == "s3a" and wanted != "false"


def _check_create_flags(session: DriverSession, bucket: str) -> None:
    """Raise ConfigError for S3A options that skip the existence check when creating files."""
    conf = session.context._jsc.hadoopConfiguration()
    for start in ("fs.s3a.", f"fs.s3a.bucket.{bucket}."):
        flags = (conf.get(f"{start}performance.flags") or "").lower().split(",")
        if {"create", "*"} & {flag.strip() for flag in flags}:
            raise ConfigError(
                f"`{start}performance.flags` holds 'create', which lets a commit overwrite another",
                "take it out for buckets that hold tables.",
            )
        if (conf.get(f"{start}create.performance") or "").strip().lower() == "true":
            raise ConfigError(
                f"`{start}create.performance` lets a commit overwrite another one",
                "turn it off for buckets that hold tables.",
            )


def read_ca_bundle(environ: Mapping[str, str]) -> bytes:
    """Return the PEM certificates of AWS_CA_BUNDLE or REQUESTS_CA_BUNDLE; empty without one.

    A file that can't be read counts as none: the AWS SDK for Python refuses it.
    """
    path = environ.get("AWS_CA_BUNDLE") or environ.get("REQUESTS_CA_BUNDLE")
    if not path:
        return b""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        return b"\n".join(_PEM.findall(Path(path).read_bytes()))
    except OSError:
        return b""


def trust_certificates(context: SparkContext) -> None:
    """Make the driver's JVM trust the CA bundle of AWS_CA_BUNDLE or REQUESTS_CA_BUNDLE.

    A trust store that the user or an earlier call gave the JVM stays.
    """
    gateway: Any = context._gateway
    java: Any = gateway.jvm.java
    system = java.lang.System
    if system.getProperty(_TRUST_STORE) or not (pem := read_ca_bundle(os.environ)):
        return
    store = java.security.KeyStore.getInstance("JKS")
    own = Path(system.getProperty("java.home"), "lib", "security", "cacerts")
    # A trust store can be read without its password, which only protects it from changes.
    store.load(java.io.FileInputStream(str(own)) if own.is_file() else None, None)
    kind = java.security.cert.CertificateFactory.getInstance("X.509")
    found = kind.generateCertificates(java.io.ByteArrayInputStream(pem))
    for number, certificate in enumerate(found):
        store.setCertificateEntry(f"bundled-{number}", certificate)
    target = Path(system.getProperty("java.io.tmpdir"), "lakeport-trusted.jks")
    output = java.io.FileOutputStream(str(target))
    store.store(output, gateway.new_array(gateway.jvm.char, 1))
    output.close()
    system.setProperty(_TRUST_STORE, str(target))
    system.setProperty(f"{_TRUST_STORE}Type", "JKS")
