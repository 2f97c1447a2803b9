"""Whatever a lake's names and values are, they stay text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeport.html import document
from lakeport.html.facts import BadSample
from lakeport.html.run import plan_body, run_body
from lakeport.html.table import Preview, table_body
from lakeport.pages.lake import lake_body
from lakeport.tables.runs import LakeRun
from tests.unit.html import made
from tests.unit.html.read import elements

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&lt;{{ 7 * 7 }}</title>-->"


def of_lake(text: str) -> str:
    run = LakeRun("a", text, made.BEGIN, 1.5, 3, (text,), False, text, made.report(text))
    tables = [made.lake_table(text)]
    return lake_body(f"/lake/{text}", tables, [run], made.BEGIN, lambda path: f"#{path}")


def of_table(text: str) -> str:
    rows = Preview([(text, "n")], [[(text, "")]], text)
    return table_body(made.table(text), rows)


def of_run(text: str) -> str:
    return run_body(
        made.run(text), [BadSample(text, text, text, text, text)], lambda path: f"#{path}", {}
    )


def of_plan(text: str) -> str:
    return plan_body(made.plan(text))


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
    page = document.alone(text, of_plan("t"), lambda path: "")  # type: ignore[arg-type]
    plain = document.alone("a", of_plan("t"), lambda path: "")  # type: ignore[arg-type]
    assert shape(page) == shape(plain)
