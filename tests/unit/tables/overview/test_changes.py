"""What versions did, by the words of many writers."""

from __future__ import annotations

import pytest

from lakeport.delta_log.history import Amount, Version
from lakeport.html.facts import Change
from lakeport.tables.overview import change_of

SAID = [
    ("WRITE", {"mode": "Append"}, Change.APPEND),
    ("WRITE", {"mode": "ErrorIfExists"}, Change.APPEND),
    ("WRITE", {"mode": "Overwrite", "predicate": "[]"}, Change.OVERWRITE),
    ("STREAMING UPDATE", {"outputMode": "Append"}, Change.APPEND),
    ("STREAMING UPDATE", {"outputMode": "Complete"}, Change.OVERWRITE),
    ("CREATE OR REPLACE TABLE AS SELECT", {}, Change.OVERWRITE),
    ("MERGE", {}, Change.MERGE),
    ("UPDATE", {}, Change.MERGE),
    ("DELETE", {}, Change.DELETE),
    ("OPTIMIZE", {}, Change.OPTIMIZE),
    ("RESTORE", {"version": "3"}, Change.RESTORE),
    ("SET TBLPROPERTIES", {}, Change.SCHEMA),
    ("ADD COLUMN", {}, Change.SCHEMA),
    ("VACUUM END", {}, Change.OTHER),
    ("", {}, Change.OTHER),
]


@pytest.mark.parametrize(("operation", "parameters", "change"), SAID)
def test_operations(operation: str, parameters: dict[str, str], change: Change) -> None:
    info = {"operation": operation, "operationParameters": parameters}
    assert change_of(Version(1, info)) is change


@pytest.mark.parametrize("operation", [None, "CREATE TABLE AS SELECT", "something new"])
def test_other_operations_by_what_came_and_went(operation: str | None) -> None:
    info = {} if operation is None else {"operation": operation}
    some = Amount(files=2)
    assert change_of(Version(1, info, added=some)) is Change.APPEND
    assert change_of(Version(1, info, removed=some)) is Change.DELETE
    assert change_of(Version(1, info, added=some, removed=some)) is Change.OTHER
    assert change_of(Version(1, info, changes_metadata=True)) is Change.SCHEMA
