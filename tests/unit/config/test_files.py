from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lakeport.config.files import collect_texts, expand, parse_text, read_text
from lakeport.errors import ConfigError


def test_values_keep_the_text_they_were_written_as() -> None:
    text = """
    run_id: 2024-03-04
    stamp: 2024-03-04T12:00:00Z
    ordinal: 010
    under: 1_000
    minutes: 12:30
    switch: yes
    whole: 12
    share: 0.01
    none: null
    empty:
    flag: true
    compression: none
    """
    assert parse_text(text, "f") == {
        "run_id": "2024-03-04",
        "stamp": "2024-03-04T12:00:00Z",
        "ordinal": "010",
        "under": "1_000",
        "minutes": "12:30",
        "switch": "yes",
        "whole": 12,
        "share": 0.01,
        "none": None,
        "empty": None,
        "flag": True,
        "compression": "none",
    }


def test_json_with_tabs_is_json() -> None:
    assert parse_text('{\n\t"path": "x",\n\t"n": [1, null]\n}', "f") == {
        "path": "x",
        "n": [1, None],
    }


def test_a_flow_mapping_is_yaml() -> None:
    assert parse_text("{path: x, table: t}", "f") == {"path": "x", "table": "t"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3", ["'a'", "twice", "1", "3"]),
        ('{"a": 1,\n "b": 2,\n "a": 3}', ["'a'", "twice", "line 3"]),
        ("x:\n  a: 1\n  a: 2", ["'a'", "twice", "2", "3"]),
        ("a: !!python/object/apply:os.system [ls]", ["line 1", "tags"]),
        ("a: !!str 1", ["line 1", "tags"]),
        ("a: !custom x", ["tags"]),
        ("[1, 2]", ["no keys"]),
        ("", ["no keys"]),
        ("just text", ["no keys"]),
        ("a: [1", ["line"]),
        ("a: 1\n---\nb: 2", ["line 2"]),
        ("? [a, b]\n: 1", ["line 1", "key is not text"]),
        ("a: " + "[" * 5000, ["nested"]),
        ("a: " + "9" * 5000, ["4300 digits"]),
        ('{"a": ' + "9" * 5000 + "}", ["4300 digits"]),
        ('{"a": ' + "[" * 100000, ["nested"]),
    ],
)
def test_what_is_no_config_is_told(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_text(text, "lake.yaml")
    for word in ["lake.yaml", *words]:
        assert word in str(caught.value)


def test_an_alias_bomb_is_capped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    with pytest.raises(ConfigError, match="too many aliases"):
        parse_text("\n".join(lines), "bomb.yaml")


def test_deep_nesting_is_refused_before_all_of_it_is_read() -> None:
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        with pytest.raises(ConfigError, match="nested too deeply"):
            parse_text("a: " + "[" * 20_000 + "]" * 20_000, "x")
    finally:
        sys.setprofile(None)
    assert calls < 10_000  # of the parser's, one of which looks at all that is open


def test_an_alias_of_itself_ends() -> None:
    with pytest.raises(ConfigError, match="recursive"):
        parse_text("a: &a [*a]", "f")


def test_depth_is_capped() -> None:
    values: list[object] = ["x"]
    for _ in range(40):
        values = [values]
    assert collect_texts(values) == set()
    assert collect_texts({"a": [["x"]]}) == {"x"}
    with pytest.raises(ConfigError, match="nested too deeply"):
        expand(values, {}, "f")


def test_a_broken_file_does_not_show_its_values() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_text("password: 'canary-5f3a\nb: ]", "f")
    assert "canary" not in str(caught.value)


def test_expansion_happens_once_and_in_values_only() -> None:
    environ = {"A": "${B}", "B": "b"}
    assert expand({"${B}": ["x${A}y", 1, None]}, environ, "f") == {"${B}": ["x${B}y", 1, None]}


def test_escapes_and_other_dollars_stay() -> None:
    assert expand("$${A} $A $ $$ {A}", {"A": "x"}, "f") == "${A} $A $ $$ {A}"


def test_an_unset_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="'NOT_THERE'"):
        expand({"a": "${NOT_THERE}"}, {}, "f")


def test_an_empty_variable_is_set() -> None:
    assert expand("[${A}]", {"A": ""}, "f") == "[]"


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    with pytest.raises(ConfigError, match="No such file"):
        read_text(path)
    path.write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 3"):
        read_text(path)
    path.write_bytes(b"a" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        read_text(path)
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"a": 1}).encode())
    assert parse_text(read_text(path), "f") == {"a": 1}
