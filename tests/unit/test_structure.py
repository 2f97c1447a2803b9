"""The package's imports: no cycles, and none inside a function without a reason."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "lakeport"
MODULES = sorted(ROOT.rglob("*.py"))

LIGHT = {"__future__", "lakeport", *sys.stdlib_module_names}
_COMMAND = "a command loads what it runs when it runs: `lakeport version` would take a third longer"
_SESSION = "a client waits for its session: what it takes up comes first"
_LOG = "a look at the log needs no Spark"
_MEANWHILE = "Java starts first: sources are imported meanwhile"
_UNASKED = "most loads have no `sql` and expect nothing: a small one would take a twentieth longer"
NEEDED = {
    "lakeport.__main__ -> lakeport.cli.output.progress": "a client of a warm session shows nothing",
    "lakeport.__main__ -> lakeport.engine.spark.jvm.launch": "most commands start no Spark",
    "lakeport.cli.jars -> lakeport.engine.spark.jvm.jars": _COMMAND,
    "lakeport.cli.land -> lakeport.loading.plan": _COMMAND,
    "lakeport.cli.land -> lakeport.loading.run": _COMMAND,
    "lakeport.cli.tables -> lakeport.lake.table": _COMMAND,
    "lakeport.cli.warm -> lakeport.engine.spark.jvm.jars": _COMMAND,
    "lakeport.engine.session_options -> lakeport.engine.spark.session": "few processes have Spark",
    "lakeport.engine.threads -> lakeport.engine.spark.connect": "the other engine is not loaded",
    "lakeport.engine.threads -> lakeport.engine.spark.engine": "the other engine is not loaded",
    "lakeport.engine.spark.daemon -> lakeport.host.packages": "the first task waits for it",
    "lakeport.engine.spark.daemon -> lakeport.host.process": "the first task waits for it",
    "lakeport.loading.prepare -> lakeport.sources.spool": _MEANWHILE,
    "lakeport.loading.stream -> lakeport.loading.transform.transform": _UNASKED,
    "lakeport.loading.transform.rules -> lakeport.loading.transform.transform": _UNASKED,
    "lakeport.mage.flags -> lakeport.config.files": _COMMAND,
    "lakeport.mage.flags -> lakeport.config.mage.io_config": _COMMAND,
    "lakeport.native -> lakeport.native": "what is compiled may not load here",
    "lakeport.warm.child -> lakeport.engine.spark.lease": _SESSION,
    "lakeport.warm.session -> lakeport.engine.base": _SESSION,
    "lakeport.warm.session -> lakeport.engine.spark.jobs": _SESSION,
    "lakeport.warm.session -> lakeport.engine.spark.jvm.calls": _SESSION,
    "lakeport.warm.session -> lakeport.engine.spark.jvm.jars": _SESSION,
    "lakeport.warm.session -> lakeport.engine.spark.jvm.launch": _SESSION,
    "lakeport.warm.session -> lakeport.engine.spark.session": _SESSION,
    "lakeport.warm.session -> lakeport.storage.base": _SESSION,
}
"""Imports inside functions that keep nothing heavy out -> why they are there."""

NAMED = re.compile(r"[\"']lakeport((?:\.[a-z_]+)+)(?::\w+)?[\"']")


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


NAMES = {dotted(path) for path in MODULES}


@dataclass
class Imports:
    """What a module imports: at its top, inside functions, and for types alone."""

    top: set[str] = field(default_factory=set)
    inside: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, path: Path) -> Imports:
        found = cls()
        found._visit(ast.parse(path.read_text("utf-8")), found.top)
        return found

    def _visit(self, node: ast.AST, into: set[str]) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            into = self.types
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{name.name}" for name in node.names}
            into |= (names & NAMES) or {node.module}
        elif isinstance(node, ast.Import):
            into |= {name.name for name in node.names}
        if isinstance(node, ast.FunctionDef):
            into = self.inside
        for child in ast.iter_child_nodes(node):
            self._visit(child, into)


IMPORTS = {dotted(path): Imports.of(path) for path in MODULES}


def reached(start: Iterable[str], graph: Mapping[str, set[str]]) -> set[str]:
    found, waiting = set[str](), list(start)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph.get(name, ())
    return found


def test_no_module_imports_itself_by_a_detour() -> None:
    graph = {
        name: (found.top | found.inside | found.types) & IMPORTS.keys() - {name}
        for name, found in IMPORTS.items()
    }
    assert [name for name in graph if name in reached(graph[name], graph)] == []


def test_an_import_inside_a_function_keeps_something_heavy_out() -> None:
    graph = {name: found.top & IMPORTS.keys() for name, found in IMPORTS.items()}

    def heavy(names: Iterable[str]) -> set[str]:
        """Packages of others that these modules of ours bring."""
        brought = {other for name in reached(names, graph) for other in IMPORTS[name].top}
        return {name.partition(".")[0] for name in brought} - LIGHT

    idle = {
        f"{name} -> {other}"
        for name, found in IMPORTS.items()
        for other in found.inside & IMPORTS.keys()
        if not heavy([other]) - heavy([name])
    }
    assert idle == NEEDED.keys()


def test_a_class_name_stands_once_in_the_package() -> None:
    names = [n for p in MODULES for n in re.findall(r"^class (\w+)", p.read_text("utf-8"), re.M)]
    assert [name for name in names if names.count(name) > 1] == []


def named_in_text() -> list[str]:
    """Modules of ours that are named in strings, where the import contract can't see them."""
    found = (NAMED.findall(path.read_text("utf-8")) for path in MODULES)
    return sorted({f"lakeport{name}" for names in found for name in names})


@pytest.mark.parametrize("name", [name for name in named_in_text() if name != "lakeport.json"])
def test_what_is_named_in_text_can_be_imported(name: str) -> None:
    assert import_module(name)
