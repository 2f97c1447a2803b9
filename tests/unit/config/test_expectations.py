"""Expectations as users write them: what each kind takes, is called, and refuses."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from lakeport.config.expectations import Expectation, parse_expectations
from lakeport.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "title", "columns"),
    [
        ({"not_null": "id"}, "not_null(id)", ("id",)),
        ({"unique": ["a", "b", "a"]}, "unique(a, b)", ("a", "b")),
        ({"in": {"size": ["S", "M"]}}, "in(size)", ("size",)),
        ({"between": {"price": [0, None]}}, "between(price)", ("price",)),
        ({"matches": {"code": "[A-Z]+"}}, "matches(code)", ("code",)),
        ({"check": "a\n  > b"}, "check(a > b)", ()),
        ({"rows": {"at_least": 1, "at_most": 9}}, "rows(at_least 1, at_most 9)", ()),
        ({"fresh": {"column": "at", "within": "2 days"}}, "fresh(at)", ("at",)),
        ({"references": {"c": "t.id"}}, "references(c in t.id)", ("c",)),
        ({"not_null": ["id"], "name": "has a key"}, "has a key", ("id",)),
    ],
)
def test_each_kind_has_a_title_and_its_columns(
    given: dict[str, Any], title: str, columns: tuple[str, ...]
) -> None:
    made = Expectation(**given)
    assert made.title == title
    assert made.columns == columns
    assert made.kind == next(iter(given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "the expectation needs one of `not_null`"),
        ({"not_null": "a", "check": "b"}, "not `not_null` and `check`"),
        ({"nott_null": "a"}, "did you mean `not_null`?"),
        ({"not_null": []}, "`not_null` names no column"),
        ({"in": {"a": ["x", None]}}, "`in.a` has to list values, none of them null"),
        ({"in": {"a": "x"}}, "`in.a` has to list values"),
        ({"between": {"a": [None, None]}}, "`between.a` has to be [lowest, highest]"),
        ({"between": {"a": [1]}}, "`between.a` has to be [lowest, highest]"),
        ({"between": {"a": [5, 2]}}, "`between.a` has the lowest value 5 above the highest 2"),
        ({"check": " "}, "the expectation has an empty `check`"),
        ({"rows": {}}, "`rows` needs `at_least`, `at_most` or both"),
        ({"rows": {"at_least": 3, "at_most": 2}}, "`rows` asks for more rows than it permits"),
        ({"rows": {"at_least": 1}, "otherwise": "quarantine"}, "none can be set aside"),
        (
            {"fresh": {"column": "a", "within": "1h"}, "otherwise": "quarantine"},
            "none can be set aside",
        ),
        ({"references": {"a": "id"}}, "such as customers.id"),
        ({"references": {"a": "t.id", "b": "u.id"}}, "columns of one table"),
        ({"check": "a", "otherwise": "wrn"}, "`otherwise` has to be"),
    ],
)
def test_what_is_wrong_is_told_by_its_key(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Expectation(**given)
    assert words in caught.value.message


def test_values_keep_their_types() -> None:
    made = Expectation(**{"in": {"a": [1, 1.5, True, "1", Decimal("1.10")]}})
    assert [type(value).__name__ for value in made.one_of["a"]] == [
        "int",
        "float",
        "bool",
        "str",
        "Decimal",
    ]


def test_references_tell_the_table_and_its_columns_in_order() -> None:
    made = Expectation(references={"a": "t.x", "b": "t.y"})
    assert (made.references_table, made.references_columns) == ("t", ("x", "y"))


def test_expectations_of_one_name_are_numbered() -> None:
    made = parse_expectations([{"not_null": "id"}, Expectation(not_null=["id"]), {"unique": "id"}])
    assert [one.title for one in made] == ["not_null(id)", "not_null(id) 2", "unique(id)"]


def test_the_schema_offers_each_kind_by_its_key() -> None:
    schema = Expectation.model_json_schema(by_alias=True)
    assert {next(iter(one["required"])) for one in schema["oneOf"]} <= set(schema["properties"])
    assert all("description" in field for field in schema["properties"].values())
