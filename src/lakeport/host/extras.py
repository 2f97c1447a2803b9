"""The optional packages, and the pip extra that brings each."""

from __future__ import annotations

from collections.abc import Mapping

from lakeport.errors import MissingDependency

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "azure": ("azure.storage.blob",),
    "duckdb": ("adbc_driver_duckdb",),
    "gcs": ("google.auth", "requests", "google_crc32c"),
    "postgres": ("adbc_driver_postgresql",),
    "s3": ("botocore", "google_crc32c"),
    "sqlite": ("adbc_driver_sqlite",),
}
"""Extra -> what a process imports that reaches a store or a database with it."""
_SEVERAL_BRING = {"google_crc32c": "google-crc32c"}
_EXTRAS = {package: extra for extra, packages in PACKAGES.items() for package in packages}


def requirement(package: str) -> str:
    """What pip installs to bring a package.

    >>> requirement("botocore"), requirement("google_crc32c"), requirement("pyarrow")
    ('lakeport[s3]', 'google-crc32c', 'lakeport')
    """
    if package in _SEVERAL_BRING:
        return _SEVERAL_BRING[package]
    return f"lakeport[{_EXTRAS[package]}]" if package in _EXTRAS else "lakeport"


def missing(problem: str, extra: str) -> MissingDependency:
    """The error for packages that an extra would have brought.

    >>> missing("requests is not installed", "gcs").hint
    "pip install 'lakeport[gcs]'"
    """
    return MissingDependency(problem, f"pip install 'lakeport[{extra}]'")
