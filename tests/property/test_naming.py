from __future__ import annotations

import re
from urllib.parse import unquote

from hypothesis import example, given
from hypothesis import strategies as st

from lakeport.writers.naming import safe_segment, table_name

ANY = st.text(st.characters(), max_size=300)
NASTY = st.text("./\\%_~2eEfF\0\n\ud800aé", max_size=12)
NAMES = ANY | NASTY


@given(NAMES)
@example("")
@example("..")
@example("_lakeport")
def test_a_name_is_one_safe_segment(name: str) -> None:
    segment = safe_segment(name)
    assert segment
    assert segment not in (".", "..")
    assert not re.search(r"[/\\\x00-\x1f\x7f-\x9f]", segment)
    assert segment[0] not in "._"
    assert len(segment.encode()) <= 200


@given(NAMES)
def test_a_short_name_can_be_decoded(name: str) -> None:
    segment = safe_segment(name)
    if name and "%~" not in segment:
        decoded = unquote(segment, errors="surrogatepass")
        assert decoded == name


@given(NAMES, NAMES)
@example("", "%empty")
@example("a/b", "a%2Fb")
@example("é" * 600, safe_segment("é" * 600))
def test_distinct_names_never_collide(one: str, two: str) -> None:
    assert (safe_segment(one) == safe_segment(two)) == (one == two)


@given(NAMES)
def test_a_table_never_leaves_its_folder(stream: str) -> None:
    assert table_name("raw/{stream}", stream).count("/") == 1
