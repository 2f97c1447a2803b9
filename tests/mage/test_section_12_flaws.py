"""Section 12: each flaw has a test that is really there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.mage.flaws import FLAWS

TESTS = Path(__file__).parents[1]


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_flaw_is_there() -> None:
    assert list(FLAWS) == list(range(1, 77))


@pytest.mark.parametrize("number", FLAWS)
def test_a_flaw_has_its_tests(number: int) -> None:
    flaw, tests = FLAWS[number]
    assert flaw and tests
    for name in tests:
        module, _, function = name.partition(":")
        folder, _, file = module.rpartition("/")
        assert f"test_{function}" in functions(TESTS / folder / f"test_{file}.py"), name
