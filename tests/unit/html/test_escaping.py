"""Whatever a lake's names and values are, they stay text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeport.html import document
from lakeport.html.facts import BadSample
from lakeport.html.run import render_plan_page, render_run_page
from lakeport.html.table import Preview, render_table_page
from lakeport.lake.runs import LakeRun
from lakeport.pages.lake import render_lake_page
from tests.unit.html import kit
from tests.unit.html.elements import elements

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&lt;{{ 7 * 7 }}</title>-->"


def of_lake(text: str) -> str:
    run = LakeRun("a", text, kit.BEGIN, 1.5, 3, (text,), False, text, kit.report(text))
    tables = [kit.lake_table(text)]
    return render_lake_page(f"/lake/{text}", tables, [run], kit.BEGIN, lambda path: f"#{path}")


def of_table(text: str) -> str:
    rows = Preview([(text, "n")], [[(text, "")]], text)
    return render_table_page(kit.table(text), rows)


def of_run(text: str) -> str:
    return render_run_page(
        kit.run(text), [BadSample(text, text, text, text, text)], lambda path: f"#{path}", {}
    )


def of_plan(text: str) -> str:
    return render_plan_page(kit.plan(text))


PAGES = [of_lake, of_table, of_run, of_plan]


def shape(html: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.name, tuple(each.attributes)) for each in elements(html)]


@pytest.mark.parametrize("page", PAGES)
@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1))
@example(text=HOSTILE)
def test_a_name_or_a_value_makes_no_element_and_no_attribute(
    page: Callable[[str], str], text: str
) -> None:
    assert shape(page(text)) == shape(page("harmless"))


@pytest.mark.parametrize("page", PAGES)
def test_what_a_name_says_is_shown(page: Callable[[str], str]) -> None:
    found = elements(page(HOSTILE))
    assert any(HOSTILE in element.text for element in found if element.name != "script")


@given(text=st.text(min_size=1))
@example(text=HOSTILE)
def test_a_title_is_a_title(text: str) -> None:
    page = document.build_single_document(text, of_plan("t"), lambda path: "")  # type: ignore[arg-type]
    plain = document.build_single_document("a", of_plan("t"), lambda path: "")  # type: ignore[arg-type]
    assert shape(page) == shape(plain)
