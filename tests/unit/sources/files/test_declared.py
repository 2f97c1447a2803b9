"""What the user says of a file's columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeport.errors import ConfigError
from lakeport.loading.plan import plan
from lakeport.loading.run import land
from lakeport.sources.files.declared_columns import load_declaration, parse_declared_fields


@pytest.mark.parametrize("named", [str, Path])
def test_a_declaration_may_be_a_file(tmp_path: Path, named: type) -> None:
    path = tmp_path / "s.json"
    path.write_text('{"properties": {"id": {"type": "integer"}}}')
    assert load_declaration(named(path)) == {"properties": {"id": {"type": "integer"}}}
    path.write_text("price: decimal(10, 2)")
    assert load_declaration(named(path)) == {"price": "decimal(10, 2)"}


@pytest.mark.parametrize("call", [land, plan])
@pytest.mark.parametrize("given", ["nope.json", [("id", "integer")], 5, b"s.json"])
def test_what_is_no_declaration_is_refused_at_once(call: Any, given: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"schema|nope\.json") as caught:
        call("a.csv", tmp_path / "lake", schema=given)
    assert caught.value.hint
    assert not (tmp_path / "lake").exists()


def test_columns_are_declared_by_name() -> None:
    wrong: Any = {1: "integer"}
    with pytest.raises(ConfigError, match="name of type int"):
        parse_declared_fields("s", wrong)
