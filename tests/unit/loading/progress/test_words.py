from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakeport.host.activity import Activity
from lakeport.loading.progress import ProgressState, format_duration, format_line, format_lines

_AMOUNTS = st.integers(-1, 10**13)
_ACTIVITIES = st.builds(
    Activity,
    st.sampled_from(["reading", "writing", "committing", "starting Spark"]),
    st.text(max_size=80),
    st.floats(0, 1e6),
    _AMOUNTS,
    _AMOUNTS,
    st.integers(0, 10**13),
    st.integers(0, 10**10),
    st.integers(-1, 50),
    st.integers(0, 50),
)


@given(_ACTIVITIES, st.floats(0, 1e6), st.integers(40, 200))
def test_every_line_fits_and_its_numbers_are_whole(
    activity: Activity, passed: float, width: int
) -> None:
    text = format_line(activity, activity.began + passed, width)
    whole = format_line(activity, activity.began + passed, 10_000)
    assert len(text) <= width and text.isprintable() and text.startswith(activity.what)
    said = text.removeprefix(activity.what).rpartition(": ")[2].removesuffix(" ...")
    assert said in (
        format_duration(activity.began + passed - activity.began),
        whole.rpartition(": ")[2],
    ) or (all(part in whole for part in said.split(", ")))


def test_what_matters_least_is_left_out_first() -> None:
    it = Activity("writing", "a-table", 10.0, total=4_000_000_000, done=1_000_000_000, rows=7)
    assert [format_line(it, 40.0, width) for width in (90, 60, 55, 45, 35, 20)] == [
        "writing a-table: 1.0 of 4.0 GB (25%), 7 rows, 33.3 MB/s, 1 m 30 s left",
        "writing a-table: 1.0 of 4.0 GB (25%), 7 rows, 1 m 30 s left",
        "writing a-table: 1.0 of 4.0 GB (25%), 1 m 30 s left",
        "writing: 1.0 of 4.0 GB (25%), 1 m 30 s left",
        "writing: 1.0 of 4.0 GB (25%)",
        "writing: 30 s",
    ]


def test_things_are_counted_before_their_bytes() -> None:
    it = Activity(
        "fetching", "jars", 10.0, total=28_000_000, done=6_000_000, count_total=5, count=2
    )
    assert [format_line(it, 12.0, width) for width in (90, 60, 45, 30)] == [
        "fetching 2 of 5 jars: 6.0 of 28.0 MB (21%), 3.0 MB/s, 7 s left",
        "fetching 2 of 5 jars: 6.0 of 28.0 MB (21%), 7 s left",
        "fetching: 6.0 of 28.0 MB (21%), 7 s left",
        "fetching: 6.0 of 28.0 MB (21%)",
    ]


def test_while_nothing_is_done_it_is_the_time_that_passes() -> None:
    it = Activity("fetching", "jars", 10.0, total=28_000_000, count_total=5)
    assert format_line(it, 10.5, 60) == "fetching 0 of 5 jars: 28.0 MB"
    assert format_line(it, 14.0, 60) == "fetching 0 of 5 jars: 28.0 MB, 4 s"


def test_without_figures_it_is_the_time_that_passes() -> None:
    assert format_lines(ProgressState("landing", 1.0, 4.4), 60) == ["landing: 3 s"]
    spark = Activity("starting Spark", "", 2.0)
    assert format_lines(ProgressState("landing", 1.0, 4.4, (spark,)), 60) == ["starting Spark: 2 s"]


def test_of_many_activities_the_newest_are_shown() -> None:
    many = tuple(Activity("writing", f"t{n}", 0.0) for n in range(7))
    told = format_lines(ProgressState("landing", 0.0, 1.0, many, "3 batches landed"), 60)
    assert told[0] == "writing t3: 1 s" and told[-2:] == ["and 3 more", "3 batches landed"]
    assert len(told) == 6
