"""The architecture page, and the files that CONTRIBUTING names, are what the code has."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.architecture import PICTURE, direct_lines, package_imports, picture, ranks, reached
from tests.docs.pages import DOCS, ROOT, prose

PACKAGE = ROOT / "src" / "lakeport"
PAGE = DOCS / "architecture.md"
_HOP = re.compile(r"^\| `([\w/]+\.py)` (?:\[[^\]]*\] )?\| ([^|]+) \|", re.M)


def test_the_picture_shows_the_imports() -> None:
    assert PICTURE.read_text("utf-8") == picture(package_imports()), (
        "run `python -m tests.docs.generate`"
    )


def test_the_picture_has_every_package_and_every_way() -> None:
    graph = package_imports()
    drawn = direct_lines(graph)
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert graph.keys() == modules | packages
    for name in graph:
        assert reached(drawn, drawn[name]) == reached(graph, graph[name])
        assert all(ranks(graph)[below] < ranks(graph)[name] for below in graph[name])


def test_the_page_has_a_paragraph_for_each_package_in_the_order_of_the_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]
    layers = [set(re.split(r" [|:] ", layer)) for layer in contract["layers"]]
    told = re.findall(r"^\*\*`(\w+)`\*\* ", PAGE.read_text("utf-8"), re.M)
    found = iter(told)
    assert [{next(found) for _ in layer} for layer in layers] == layers
    assert len(told) == sum(map(len, layers))


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text("utf-8").splitlines()) <= 200


def definitions(path: Path) -> set[str]:
    """The functions, classes and methods of a module, these as `Class.method`."""
    found = set[str]()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (each.name for each in node.body if isinstance(each, ast.FunctionDef))
            found |= {f"{node.name}.{name}" for name in inner}
    return found


def test_a_hop_names_what_is_there() -> None:
    hops = _HOP.findall(PAGE.read_text("utf-8"))
    wrong = [
        f"{name} is not in {file}"
        for file, functions in hops
        for name in re.findall(r"`([\w.]+)`", functions)
        if name not in definitions(PACKAGE / file)
    ]
    assert wrong == []


@pytest.mark.parametrize("page", [PAGE, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_files_that_are_named_exist(page: Path) -> None:
    """A path in backticks that ends with a file's suffix or a slash is one of the repository."""
    named = re.findall(r"`([\w./-]+(?:\.(?:py|md|yml|toml|lock|json)|/))`", prose(page))
    places = (ROOT, PACKAGE)
    assert [name for name in named if not any((place / name).exists() for place in places)] == []
