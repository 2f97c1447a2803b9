"""What `lakeport` offers: by name, typed by the config classes, and nothing private in it."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport import errors
from tests.docs.generate import KEYS_MODULE, rendered_keys

ROOT = Path(lakeport.__file__).parent


def test_names_are_sorted_and_there() -> None:
    assert lakeport.__all__ == sorted(lakeport.__all__)
    assert [name for name in lakeport.__all__ if not hasattr(lakeport, name)] == []
    assert set(lakeport.__all__) <= set(dir(lakeport))
    with pytest.raises(AttributeError, match="has no attribute 'lnd'"):
        _ = lakeport.lnd


def test_every_error_is_offered() -> None:
    assert set(errors.__all__) <= set(lakeport.__all__)


def test_nothing_heavy_is_loaded() -> None:
    program = "import sys, lakeport; print(*{name.partition('.')[0] for name in sys.modules})"
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pandas", "pyarrow", "pydantic", "pyspark", "yaml"} & set(loaded)


def test_keys_are_those_of_the_configs() -> None:
    text = KEYS_MODULE.read_text("utf-8")
    assert rendered_keys(text) == text, "run `python -m tests.docs.generate`"


def own_classes() -> set[str]:
    trees = (ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {node.name for node in nodes if isinstance(node, ast.ClassDef)}


PRIVATE = own_classes() - set(lakeport.__all__) - set(typing.__all__)
OPAQUE = {"DestinationConfig", "StoreKeys", "TargetKeys"}
"""Seen from outside as a whole: the keys in them are described with the configuration."""
NOT_CALLED = {"LandingStream.__init__"}
"""What a function returns and nobody makes."""


def signatures(name: str) -> dict[str, str]:
    """Public function, or class -> its annotations, as text."""
    value = getattr(lakeport, name)
    members: dict[str, Any] = {name: value}
    if inspect.isclass(value):
        members |= {
            f"{name}.{method}": member.fget if isinstance(member, property) else member
            for method, member in vars(value).items()
            if method == "__init__" or not method.startswith("_")
        }
    return {
        member: " ".join(map(str, getattr(found, "__annotations__", {}).values()))
        for member, found in members.items()
        if member not in NOT_CALLED
    }


@pytest.mark.parametrize("name", sorted({*lakeport.__all__} - OPAQUE - {"__version__"}))
def test_no_signature_holds_a_private_type(name: str) -> None:
    for member, types in signatures(name).items():
        assert PRIVATE & set(re.findall(r"\w+", types)) == set(), member
