"""A document alone needs nothing else, and lets nothing else run."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode

from lakeport.html import document
from lakeport.html.document import read_asset
from lakeport.html.table import Preview, render_table_page, render_table_part
from tests.unit.html import kit
from tests.unit.html.elements import elements


def alone() -> str:
    body = render_table_page(kit.table(), Preview())
    return document.build_single_document("t", body, lambda path: f"#{path}")


def test_nothing_is_asked_of_anyone() -> None:
    for element in elements(alone()):
        for name in ("href", "src", "action", "srcset", "poster", "data"):
            value = element.attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), element
    assert not re.search(r"url\(|@import", read_asset("theme.css"))
    assert not re.search(r"\bfetch\(|XMLHttpRequest|import\(|\beval\(", read_asset("page.js"))


def test_the_policy_lets_its_own_style_and_script_be_and_no_other() -> None:
    found = elements(alone())
    policy = next(
        element.attributes["content"]
        for element in found
        if element.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None and policy.startswith("default-src 'none';")
    told = {
        element.name: b64encode(hashlib.sha256(element.text.encode()).digest()).decode()
        for element in found
        if element.name == "style"
        or (element.name == "script" and "type" not in element.attributes)
    }
    for kind, digest in told.items():
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_no_element_has_a_style_or_a_handler_of_its_own() -> None:
    for element in elements(alone()):
        assert not [name for name in element.attributes if name == "style" or name[:2] == "on"]


def test_the_style_of_a_notebook_is_that_of_its_own_cell_alone() -> None:
    css = re.sub(r"/\*.*?\*/", "", read_asset("theme.css"), flags=re.DOTALL)
    css = re.sub(r"@media[^{]*\{((?:[^{}]*\{[^{}]*\})*)[^{}]*\}", r"\1", css)
    selectors = [each.strip() for each in re.findall(r"([^{}]+)\{[^{}]*\}", css)]
    assert len(selectors) > 50
    for selector in selectors:
        for one in re.split(r",(?![^(]*\))", selector):
            assert one.strip().startswith((".lakeport", "body.lakeport")), selector
    cell = document.build_notebook_part(render_table_part(kit.table()))
    assert elements(cell)[0].attributes["class"] == "lakeport"


def test_a_linked_document_takes_its_style_and_script_from_beside_it() -> None:
    page = document.build_linked_document(
        document.Page("/", "t", render_table_part(kit.table())), [("t", "")], lambda path: path
    )
    found = elements(page)
    scripts = [each.attributes["src"] for each in found if each.name == "script"]
    assert scripts == ["/assets/page.js", "/assets/live.js"]
    links = {
        each.attributes["rel"]: each.attributes["href"] for each in found if each.name == "link"
    }
    assert links["stylesheet"] == "/assets/theme.css"
    assert not [each for each in found if each.name == "style"]
