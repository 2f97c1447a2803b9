"""Random files: their order, their lines, and that nothing but a `ConfigError` comes of them."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from lakeport.config.lake import LakeFile
from lakeport.config.lake.model import find_query_tables
from lakeport.errors import ConfigError
from tests.unit.config.kit import read_lake

NAMES = [f"t{number}" for number in range(8)]
GRAPHS = st.fixed_dictionaries(
    {name: st.sets(st.sampled_from(NAMES), max_size=3) for name in NAMES}
)


def read(text: str) -> LakeFile | str:
    """What is read, or what is told instead."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "lake.yaml")
        path.write_text(text, "utf-8", newline="")
        try:
            return read_lake(path, environ={})
        except ConfigError as error:
            return error.message


def lines(graph: dict[str, set[str]]) -> list[str]:
    found = ["target: ./lake", "loads:"]
    for name, used in graph.items():
        joins = "".join(f" JOIN {other} USING (id)" for other in sorted(used))
        found += [f"  {name}:", "    from: {files: x}", f"    sql: SELECT * FROM source{joins}"]
    return found


@given(GRAPHS)
def test_loads_are_in_order_or_real_cycles_are_told(graph: dict[str, set[str]]) -> None:
    text = lines(graph)
    lake = read("\n".join(text))
    if isinstance(lake, LakeFile):
        order = list(lake.loads)
        assert sorted(order) == NAMES
        assert all(set(order[: order.index(name)]) >= used for name, used in graph.items())
        return
    rings = [re.findall(r"(t\d) \(line (\d+)\)", line) for line in lake.splitlines()]
    rings = [ring for ring in rings if ring]
    assert rings
    assert {name for name in NAMES if name in graph[name]} <= {ring[0][0] for ring in rings}
    for ring in rings:
        assert len(ring) > 1 and ring[0] == ring[-1]
        for (name, line), (following, _) in pairwise(ring):
            assert following in graph[name]
            assert text[int(line) - 1] == f"  {name}:"


@given(st.permutations(NAMES), st.integers(0, 7), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_mistake_is_told_where_it_stands(
    names: list[str], wrong: int, end: str, templates: bool
) -> None:
    text = lines({name: set() for name in names})
    if templates:
        text[0] = 'target: {{ json_value(\'{"a": "x"}\', ' + end + "'a') }}"
    at = 2 + 3 * wrong + 2
    text.insert(at, "    mod: append")
    found = read(end.join(text))
    assert f"line {at + 1 + templates}, column 5: load {names[wrong]!r}: there is no key" in str(
        found
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["files", "a", "./x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["from", "sql", "python", "expect", "tags", "mode", "table", "config", "columns", "_streams"]
LOADS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4)


@given(VALUES, VALUES | LOADS, st.dictionaries(st.sampled_from(NAMES) | st.text(), VALUES | LOADS))
def test_what_is_no_lake_is_refused_in_words(
    target: object, defaults: object, loads: object
) -> None:
    file = {"target": target, "defaults": defaults, "loads": loads}
    read(json.dumps(file, ensure_ascii=True))


@given(st.text(alphabet="SELECTFROMJOIN()'\"`;,.*-/ \nabc$1"))
def test_any_text_names_some_tables_or_none(text: str) -> None:
    assert isinstance(find_query_tables(text), tuple)
