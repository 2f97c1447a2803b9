"""Classes of the JVM, asked for by their full names."""

from __future__ import annotations

from typing import Any

__all__ = ["java_class"]


def java_class(jvm: Any, name: str) -> Any:
    """A class of the JVM.

    `jvm.org.apache.…` says the same, but asks for one package after the other, and the JVM looks
    for a class of each package's name in every jar of its class path before it says no.

    Args:
        jvm: py4j's view of the JVM.
        name: its full name, such as `java.util.ArrayList`; a class inside another as `Outer$Inner`.
    """
    return getattr(jvm, name)
