"""The pages of the API reference: every public name of `lakeport`, by what it is for.

Nothing is imported: names and their homes are read from the package's `__init__`, docstrings by
the site's generator.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import ROOT

INIT = ROOT / "src" / "lakeport" / "__init__.py"


@dataclass(frozen=True)
class Group:
    """A page of the reference."""

    name: str
    title: str
    text: str
    homes: tuple[str, ...]
    """Modules and packages whose names stand here; the first group that fits has a name."""


GROUPS = (
    Group(
        "reports",
        "Reports and plans",
        "What a load tells of itself, while it goes on and when it has ended.",
        ("loading.report", "model", "host.activity", "engine.base"),
    ),
    Group(
        "landing",
        "Landing",
        "Loads, what they would do, and what they need.",
        ("loading", "sources", "storage"),
    ),
    Group(
        "running",
        "Running a lake",
        "All loads of a lake's file, and what each came to.",
        ("pipeline",),
    ),
    Group(
        "streams",
        "Streams",
        "Structured streams, landed micro-batch by micro-batch.",
        ("streams",),
    ),
    Group("tables", "Tables", "Describing tables, and maintaining them.", ("lake", "pages")),
    Group(
        "inputs",
        "Sources and expectations",
        "Sources that need more than a name, and what is expected of rows.",
        ("config.sources", "config.expectations"),
    ),
    Group(
        "config",
        "Keys of a config",
        "As keyword arguments, with their types. [Configuration](../configuration.md) tells what "
        "they mean.",
        ("config",),
    ),
    Group(
        "errors",
        "Errors",
        "Each is a `LakeportError`, with an exit code and a hint.",
        ("errors",),
    ),
)

OPTIONS = {
    "DestinationConfig": "members: false",
    # Their keys have no docstrings: the source shows them with their types.
    "StoreKeys": "show_source: true",
    "TargetKeys": "show_source: true",
}


def reference() -> dict[str, str]:
    """The pages, by their path."""
    found = homes(INIT)
    pages = {}
    for group in GROUPS:
        names = [name for name, home in found.items() if group_of(home) is group]
        parts = [f"# {group.title}", group.text, *(_directive(name, found[name]) for name in names)]
        pages[f"reference/{group.name}.md"] = "\n\n".join(parts) + "\n"
    return pages


def group_of(home: str) -> Group:
    """The page for what comes from a module.

    >>> group_of("lakeport.loading.report").name
    'reports'
    """
    for group in GROUPS:
        if any(f"{home}.".startswith(f"lakeport.{each}.") for each in group.homes):
            return group
    raise SystemExit(f"scripts/site/reference.py has no page for what comes from {home}")


def homes(init: Path) -> dict[str, str]:
    """Every public name, functions first, with the module that it comes from."""
    tree = ast.parse(init.read_text("utf-8"))
    imported = dict(_imported(tree))
    public = [name for name in _public(tree) if name != "__version__"]
    if missing := [name for name in public if name not in imported]:
        raise SystemExit(f"{init}: no import tells where {', '.join(missing)} come from")
    return {name: imported[name] for name in sorted(public, key=_functions_first)}


def _functions_first(name: str) -> tuple[bool, str]:
    return name[0].isupper(), name


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((each.asname or each.name, node.module) for each in node.names)


def _public(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    raise SystemExit(f"{INIT} has no __all__")


def _directive(name: str, home: str) -> str:
    """What the generator replaces by a name's documentation."""
    # A package has the name of the function `tables`, which stands in its way.
    path = f"{home}.{name}" if (INIT.parent / name).is_dir() else f"lakeport.{name}"
    options = [f"    options: {{{OPTIONS[name]}}}"] if name in OPTIONS else []
    return "\n".join([f"::: {path}", *options])
