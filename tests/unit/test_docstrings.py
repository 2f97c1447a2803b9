"""What docstrings show by way of example is so."""

from __future__ import annotations

import doctest
from importlib import import_module
from pkgutil import walk_packages

import pytest

import lakeport

ORCHESTRATORS = tuple(f"integrations.{name}" for name in ("airflow", "dagster", "prefect"))
"""Modules of packages that are not installed here."""
MODULES = [
    module.name
    for module in walk_packages(lakeport.__path__, "lakeport.")
    if not module.name.endswith(("__main__", *ORCHESTRATORS))
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0
