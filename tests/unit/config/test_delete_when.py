"""Conditions that say which records are deletes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from lakeport.config.load import load_target
from lakeport.config.values import DeleteCondition
from lakeport.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "column", "values"),
    [
        ("Op = 'D'", "Op", ("D",)),
        ("Op=='it''s'", "Op", ("it's",)),
        ("`the ``op` in ( 1 ,-2.50)", "the `op", (1, Decimal("-2.50"))),
        ("gone = TRUE", "gone", (True,)),
        ("größe is not  null", "größe", ()),
    ],
)
def test_what_is_read(text: str, column: str, values: Any) -> None:
    assert DeleteCondition.parse(text) == DeleteCondition(column, values)


def test_the_condition_in_sql() -> None:
    found = DeleteCondition.parse("a IN ('it''s', 'b\\c', 1, true)").to_sql("`x`")
    assert found == r"coalesce(`x` IN ('it\'s', 'b\\c', 1, true), false)"
    assert DeleteCondition.parse("a IS NOT NULL").to_sql("`x`") == "`x` IS NOT NULL"


@pytest.mark.parametrize(
    "text", ["Op", "Op <> 'D'", "Op = D", "Op = 'D", "Op IN ()", "a = 1 OR b = 2", "Op = ''D'"]
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not of the form `Op = 'D'`"):
        load_target("./lake", {"hard_delete": True, "delete_when": text})


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"hard_delete": False}, "needs `hard_delete: true`"),
        ({"drop": ["Op"]}, "which `drop` leaves out"),
        ({"rename": {"Op": "x"}}, "which `rename` calls 'x'"),
    ],
)
def test_what_does_not_go_together(keys: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_target("./lake", {"hard_delete": True, "delete_when": "Op = 'D'", **keys})
