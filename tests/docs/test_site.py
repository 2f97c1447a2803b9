"""What `make site` makes of the pages before its generator sees them, and what it looks at then."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import lakeport
from scripts.site.checks import requests_elsewhere
from scripts.site.reference import GROUPS, group_of, homes, reference
from scripts.site.staging import config, decisions, stage, staged
from tests.docs.pages import DOCS, ROOT

PAGE = DOCS / "guide.md"


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The staged pages."""
    folder = tmp_path_factory.mktemp("site") / "docs"
    stage(folder)
    return folder


def test_every_page_is_in_the_navigation(docs: Path) -> None:
    named = re.findall(r"- ([\w/.-]+\.md)$", config(docs), re.M)
    assert sorted(named) == sorted(str(page.relative_to(docs)) for page in docs.rglob("*.md"))


def test_a_page_that_is_not_in_the_navigation_is_told(docs: Path) -> None:
    (docs / "forgotten.md").write_text("# Forgotten\n")
    try:
        with pytest.raises(SystemExit, match=r"differ in .*forgotten\.md"):
            config(docs)
    finally:
        (docs / "forgotten.md").unlink()


def test_every_public_name_is_in_the_reference() -> None:
    shown = re.findall(r"^::: lakeport\.(?:\w+\.)*(\w+)$", "\n".join(reference().values()), re.M)
    assert sorted(shown) == sorted(set(lakeport.__all__) - {"__version__"})


def test_every_page_of_the_reference_has_names() -> None:
    found = {group_of(home) for home in homes(Path(lakeport.__file__)).values()}
    assert found == set(GROUPS)


def test_a_name_of_a_new_kind_needs_a_page() -> None:
    with pytest.raises(SystemExit, match=r"no page for what comes from lakeport\.nowhere"):
        group_of("lakeport.nowhere")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[x](delta.md#who-commits)", "[x](delta.md#who-commits)"),
        ("[x](#here)", "[x](#here)"),
        ("[x](https://a.example/b)", "[x](https://a.example/b)"),
        ("[x](adr/)", "[x](adr/index.md)"),
        (
            "[x](../examples/meltano/README.md)",
            "[x](https://github.com/lakeport/lakeport/blob/main/examples/meltano/README.md)",
        ),
        (
            "[x](../tests/screens/kept)",
            "[x](https://github.com/lakeport/lakeport/tree/main/tests/screens/kept)",
        ),
        ("```console run\n$ a\n```\n", "```console\n$ a\n```\n"),
        ("```\n[x](adr/)\n```\n", "```\n[x](adr/)\n```\n"),
        ("| `a\\|b` | c |", "| `a|b` | c |"),
        ("`a\\|b`", "`a\\|b`"),
        ("<!-- generated: keys local -->\n| a |", "\n| a |"),
    ],
)
def test_pages_are_written_for_the_site(text: str, expected: str) -> None:
    assert staged(text, PAGE) == expected


def test_doctests_become_code(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = ModuleType("griffe")
    stub.Extension = stub.Object = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "griffe", stub)  # it is in the site's environment alone
    doctests = import_module("scripts.site.doctests")
    text = "Add.\n\n    >>> 1 + 1  # doctest: +SKIP\n    2\n\nAnd more."
    shown = "Add.\n\n    ```pycon\n    >>> 1 + 1\n    2\n    ```\n\nAnd more."
    named = SimpleNamespace(docstring=SimpleNamespace(value=text))
    doctests.Doctests().on_object(obj=named)
    assert named.docstring.value == shown
    doctests.Doctests().on_object(obj=SimpleNamespace(docstring=None))


def test_the_decisions_are_listed() -> None:
    listed = re.findall(r"\((\d{4}-[\w-]+\.md)\)", decisions())
    assert listed == sorted(page.name for page in (DOCS / "adr").glob("*.md"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<script src="https://cdn.example/a.js"></script>'),
        ("a.html", '<link rel="stylesheet" href="//fonts.example/a.css">'),
        ("a.html", '<img src="https://a.example/b.png">'),
        ("a.html", "<style>p { background: url(https://a.example/b.png) }</style>"),
        ("a.css", '@import "https://a.example/b.css";'),
        ("a.svg", "<svg><style>@font-face { src: url('//a.example/b') }</style></svg>"),
    ],
)
def test_what_asks_another_host_is_found(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert len(requests_elsewhere(tmp_path)) == 1


def test_links_and_own_files_are_no_requests(tmp_path: Path) -> None:
    text = '<a href="https://a.example/">a</a><img src="b.png"><link href="c.css">'
    (tmp_path / "a.html").write_text(text)
    assert requests_elsewhere(tmp_path) == []


def test_the_site_brings_its_own_worker() -> None:
    """Without it the generator would have pages load one from another host."""
    text = (ROOT / "scripts" / "site" / "mkdocs.yml").read_text("utf-8")
    assert "- iframe-worker.js" in text and "font: false" in text and "repo_url" not in text
