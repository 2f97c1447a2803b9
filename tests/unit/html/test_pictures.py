"""Pictures say what the facts say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakeport.html import charts
from lakeport.html.text import format_duration
from lakeport.model import Span
from lakeport.units import format_count, format_size
from tests.unit.html import kit
from tests.unit.html.elements import Element, elements


def percent(element: Element, name: str) -> float:
    return float((element.attributes[name] or "").removesuffix("%"))


def label(html: str) -> str:
    return elements(html)[0].attributes["aria-label"] or ""


def lines(html: str) -> list[list[tuple[float, float]]]:
    return [
        [
            (float(x), float(y))
            for x, y in (p.split(",") for p in (e.attributes["points"] or "").split())
        ]
        for e in elements(html)
        if e.name == "polyline"
    ]


def test_a_line_goes_on_from_version_to_version() -> None:
    versions = [kit.version(0, rows=0), kit.version(1, rows=50), kit.version(2, rows=100)]
    drawn = charts.draw_growth(versions, lambda v: v.rows, "rows")
    assert lines(drawn) == [
        [(0, 100), (333.3, 100), (333.3, 50), (666.7, 50), (666.7, 0), (1000, 0)]
    ]
    assert label(drawn) == "rows by version, from 0 in version 0 to 100 in version 2"


def test_versions_that_do_not_tell_are_passed_over() -> None:
    versions = [kit.version(4, rows=None), kit.version(5, rows=None), kit.version(6, rows=9)]
    assert lines(charts.draw_growth(versions, lambda v: v.rows, "rows"))
    none = charts.draw_growth(versions[:2], lambda v: v.rows, "rows")
    assert elements(none)[0].name == "p"


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=50))
def test_every_file_is_in_the_bin_of_its_size(sizes: list[int]) -> None:
    bins = charts.count_size_bins(sizes)
    assert sum(number for _, _, number in bins) == len(sizes)
    for least, most, number in bins[:-1]:
        assert number == sum(least <= each < most for each in sizes)


@given(st.lists(st.integers(0, 1 << 40), max_size=20))
def test_bars_and_the_band_are_within_the_histogram(sizes: list[int]) -> None:
    for rect in elements(charts.draw_histogram(sizes, 32 << 20, 256 << 20)):
        if rect.name == "rect":
            assert percent(rect, "x") >= 0
            assert percent(rect, "x") + percent(rect, "width") <= 100.01


def test_a_timeline_has_a_lane_for_each_stream_and_a_bar_for_each_span() -> None:
    spans = [
        Span("reading", "", 0.0, 4.0),
        Span("writing", "a", 1.0, 2.0),
        Span("committing", "a", 2.0, 4.0),
    ]
    drawn = elements(charts.draw_timeline(spans, 4.0))
    bars = [each for each in drawn if each.name == "rect"]
    assert [(percent(b, "x"), percent(b, "width")) for b in bars] == [(0, 100), (25, 25), (50, 50)]
    lanes = [each.text for each in drawn if each.attributes.get("class") == "lane"]
    assert lanes == ["the whole run", "a"]


def test_rates_are_those_between_two_points() -> None:
    drawn = charts.draw_rate([(0, 0), (1, 100), (2, 100), (4, 500)], "rows", format_count)
    assert lines(drawn)[0] == [(0, 50), (250, 50), (250, 100), (500, 100), (500, 0), (1000, 0)]
    assert charts.draw_rate([(1.0, 5.0)], "rows", format_count) == ""


@given(st.floats(0, 1e15))
def test_a_nice_number_is_no_less_and_not_much_more(value: float) -> None:
    found = charts.round_up(value)
    assert value * 0.999 <= found <= max(1, value * 2.6)


@given(st.integers(0, 1 << 60), st.integers(0, 1 << 60))
def test_sizes_in_words_keep_their_order(one: int, other: int) -> None:
    units = ("B", "KB", "MB", "GB", "TB")

    def read(text: str) -> float:
        number, unit = text.split()
        return float(number.replace(",", "")) * 1000.0 ** units.index(unit)

    least, most = sorted((one, other))
    assert read(format_size(least)) <= read(format_size(most)) * 1.001
    assert format_duration(least / 1e6)
