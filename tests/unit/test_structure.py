"""The shape of the package: rooms that one can look over, and no circles."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "lakeport"
MODULES = sorted(ROOT.rglob("*.py"))
PACKAGES = sorted(path.parent for path in MODULES if path.name == "__init__.py")

MOST_MODULES = 14
MOST_LINES = 400
LONGER: dict[str, str] = {}
"""Modules with more lines -> why."""

NAMED = re.compile(r"[\"']lakeport((?:\.[a-z_]+)+)(?::\w+)?[\"']")


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("package", PACKAGES, ids=dotted)
def test_a_package_can_be_looked_over(package: Path) -> None:
    modules = [path for path in package.glob("*.py") if not path.name.startswith("__")]
    assert len(modules) <= MOST_MODULES


def test_a_module_holds_one_idea() -> None:
    lines = {dotted(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert {name for name, count in lines.items() if count > MOST_LINES} == set(LONGER)


def imports(path: Path) -> set[str]:
    """Modules of ours that a module imports, inside functions too, but not for types alone."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        waiting += ast.iter_child_nodes(node)
    return found


def test_no_module_imports_itself_by_a_detour() -> None:
    names = {dotted(path) for path in MODULES}
    graph = {dotted(path): imports(path) & names - {dotted(path)} for path in MODULES}
    reached: dict[str, set[str]] = defaultdict(set)
    for name in graph:
        waiting = list(graph[name])
        while waiting:
            other = waiting.pop()
            if other not in reached[name]:
                reached[name].add(other)
                waiting += graph[other]
    assert sorted(name for name in graph if name in reached[name]) == []


def named_in_text() -> list[str]:
    """Modules of ours that are named in strings, where the import contract can't see them."""
    found = (NAMED.findall(path.read_text("utf-8")) for path in MODULES)
    return sorted({f"lakeport{name}" for names in found for name in names})


@pytest.mark.parametrize("name", [name for name in named_in_text() if name != "lakeport.json"])
def test_what_is_named_in_text_can_be_imported(name: str) -> None:
    assert import_module(name)
