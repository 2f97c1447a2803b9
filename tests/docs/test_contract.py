"""Exit codes, JSON documents, config keys and options change only with a line of the changelog."""

from __future__ import annotations

import pytest

from tests.docs.contract import CHANGELOG, CONTRACT, current, headings, recorded

TEXT = "# Released\nexit 2 ConfigError\nkey local.path: text\n"


def test_contract_is_what_the_code_has() -> None:
    told, now = recorded(CONTRACT.read_text("utf-8")), set(current())
    assert now == told, 'tell it in CHANGELOG.md, then `python -m tests.docs.contract "THAT LINE"`'


def test_changes_are_in_the_changelog() -> None:
    changelog = CHANGELOG.read_text("utf-8")
    assert [line for line in headings(CONTRACT.read_text("utf-8")) if line not in changelog] == []


def test_changes_since_the_release_are_added_and_removed() -> None:
    text = TEXT + "\n## A key is new\n+ key local.new: text\n- key local.path: text\n"
    assert recorded(text) == {"exit 2 ConfigError", "key local.new: text"}
    assert headings(text) == ["A key is new"]


def test_only_what_was_there_can_go() -> None:
    with pytest.raises(KeyError):
        recorded(TEXT + "\n## Gone\n- key local.unknown: text\n")
