"""Templates in config files, as Mage's users write them."""

from __future__ import annotations

import sys
import types
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeport.config.files import expand, parse_text
from lakeport.errors import ConfigError
from tests.unit.config.kit import load_file

ODD = """p'a"ss: {#} \\ %} }} {{ env_var('X') }} ${X} \n- x"""
"""A secret that would end or change most texts it is put into."""


def read(text: str, environ: dict[str, str]) -> Any:
    return expand(parse_text(text, "block.yaml"), environ, "block.yaml")


@pytest.mark.parametrize(
    "written",
    [
        "{{ env_var('KEY') }}",
        "{{env_var('KEY')}}",
        "\"{{ env_var('KEY') }}\"",
        "'{{ env_var('KEY') }}'",
        "'{{ env_var(\"KEY\") }}'",
        '"{{ env_var("KEY") }}"',
        '"{{ env_var(\\"KEY\\") }}"',
    ],
)
def test_a_value_comes_in_whole_however_it_is_quoted(written: str) -> None:
    text = f"destination: amazon_s3\nconfig:\n  bucket: lake\n  aws_secret_access_key: {written}\n"
    found = read(text, {"KEY": ODD})
    assert found["config"] == {"bucket": "lake", "aws_secret_access_key": ODD}


def test_templates_stand_within_text_and_beside_variables() -> None:
    found = read(
        "path: ${HOME}/{{ env_var('A') }}-{{ variables('run') }}",
        {"HOME": "/h", "A": "${B}", "LAKEPORT_VAR_RUN": "7"},
    )
    assert found == {"path": "/h/${B}-7"}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{{ env_var('GONE') or 'x' }}", "x"),
        ("{{ env_var('GONE', 'x') }}", "x"),
        ("{{ env_var('GONE') | default('x') }}", "x"),
        ("{{ env_var('A') | lower }}", "abc"),
        ("{{ json_value(env_var('J'), 'a.b.1') }}", "two"),
        ("""{{ json_value('{"a": {"b": 1}}', 'a.b') }}""", 1),
        ("{{ variables('day') }}", "monday"),
        ("{{ mage_secret_var('db pass') }}", "s3cret"),
        ("{{ '{{' }}", "{{"),
    ],
)
def test_expressions(written: str, expected: Any) -> None:
    environ = {
        "A": "ABC",
        "J": '{"a": {"b": ["one", "two"]}}',
        "LAKEPORT_VAR_DAY": "monday",
        "LAKEPORT_SECRET_DB_PASS": "s3cret",
    }
    assert read(f"key: {written}", environ) == {"key": expected}


def test_a_day_before_today() -> None:
    first, found, last = (
        (datetime.now(UTC) - timedelta(days=2)).date().isoformat(),
        read("key: {{ n_days_ago(2) }}", {})["key"],
        (datetime.now(UTC) - timedelta(days=2)).date().isoformat(),
    )
    assert first <= found <= last


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("{{ env_var('GONE') }}", "'GONE' is not set"),
        ("a-{{ env_var('GONE') }}", "'GONE' is not set"),
        ("{{ env_var('GONE') ~ 'x' }}", "'GONE' is not set"),
        ("{{ variables('gone') }}", "LAKEPORT_VAR_GONE"),
        ("{{ mage_secret_var('gone') }}", "LAKEPORT_SECRET_GONE"),
        ("{{ azure_secret_var('gone') }}", "LAKEPORT_SECRET_GONE"),
        ("{{ env_vra('X') }}", "'env_vra' is undefined"),
        ("{{ env_var( }}", "is no expression"),
        ("{{ ''.__class__.__mro__ }}", ""),
        ("{{ 9 ** (9 ** 9) }}", "is not allowed"),
        ("{{ 'x' * 10 ** 10 }}", "is not allowed"),
        ("{{ [0] * 10 ** 9 }}", "is not allowed"),
        ("{{ json_value(env_var('A'), 'b') }}", "no JSON"),
        ("{{ json_value('{}', 'b') }}", "has no 'b'"),
        ("'{{ env_var('", "does not end"),
    ],
)
def test_what_has_no_value_is_an_error_that_names_it(written: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expand(written, {"A": "canary"}, "block.yaml")
    assert named in caught.value.message and "block.yaml" in caught.value.message
    assert "canary" not in str(caught.value)


def test_statements_are_refused_and_comments_are_not_run() -> None:
    with pytest.raises(ConfigError, match="statement"):
        expand("{% if true %}x{% endif %}", {}, "block.yaml")
    assert read("# {{ env_var('GONE') }}\na: 1", {}) == {"a": 1}


def test_what_mage_stores_is_asked_for_where_mage_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = "mage_ai", "mage_ai.data_preparation", "mage_ai.data_preparation.shared"
    for name in names:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    store = types.ModuleType("secrets")
    store.get_secret_value = {"key": "from mage"}.get  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, f"{names[-1]}.secrets", store)
    assert read("a: {{ mage_secret_var('key') }}", {}) == {"a": "from mage"}
    assert read("a: {{ mage_secret_var('key') }}", {"LAKEPORT_SECRET_KEY": "x"}) == {"a": "x"}


def test_a_block_file_is_a_config(tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text(
        "destination: amazon_s3\n"
        "config:\n"
        "  bucket: {{ variables('bucket') }}\n"
        "  object_key_path: raw\n"
        "  aws_access_key_id: ${ID}\n"
        "  aws_secret_access_key: \"{{ env_var('SECRET') }}\"\n"
        "catalog:\n"
        "  streams:\n"
        "  - {tap_stream_id: users, schema: {properties: {id: {type: integer}}}}\n"
    )
    config: Any = load_file(
        file, environ={"SECRET": ODD, "ID": "AK", "LAKEPORT_VAR_BUCKET": "lake"}
    )
    assert (config.bucket, config.aws_secret_access_key.get_secret_value()) == ("lake", ODD)
    assert list(config.catalog) == ["users"]
    assert config.warnings == ()
