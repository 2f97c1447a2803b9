"""The messages that the pages quote are those that the code has."""

from __future__ import annotations

import ast
import io
import json
import re
from pathlib import Path

import pytest

from lakeport.config.destinations.local import LocalConfig
from lakeport.errors import BadRecord
from lakeport.model import Flush, Split
from lakeport.schema.jsonschema import parse_schema
from lakeport.sources.json.reader import JsonReader
from lakeport.sources.singer.singer_source import SingerSource
from lakeport.sources.spool import SpoolWriter
from tests.docs.pages import DOCS, ROOT, blocks

_ROW = re.compile(r"^\| `(?P<reason>.+?)` \| `(?P<example>.+?)` \|$", re.M)
_VARIES = re.compile(r"[…`]|(?:s3|kms|storage\.objects)[:.]\w+|4\.2|17, 21 or 25")
_FOREIGN = {"No space left on device", "Permission denied", "File name too long"}
_BAD = (DOCS / "bad-records.md").read_text("utf-8")


def section(name: str) -> str:
    """The text below a heading, up to the next one."""
    return re.split(r"^#+ ", _BAD.split(f"### {name}\n")[1], flags=re.M)[0]


def rows(*names: str) -> list[tuple[str, str]]:
    """Reason and example of the tables below these headings."""
    return [(m["reason"], m["example"]) for name in names for m in _ROW.finditer(section(name))]


@pytest.mark.parametrize(("reason", "example"), rows("The record as a whole", "A column"))
def test_reasons_of_records(reason: str, example: str, tmp_path: Path) -> None:
    schema = next(b for b in blocks(DOCS / "bad-records.md") if b.language == "json")
    path = tmp_path / "records.jsonl"
    path.write_text(f"{example}\n")
    reader = JsonReader("s", parse_schema("s", json.loads(schema.text)), envelope=False)
    assert [bad.reason for bad in reader.scan(Split(str(path))).bad] == [reason]


@pytest.mark.parametrize(("reason", "example"), rows("Singer lines"))
def test_reasons_of_lines(reason: str, example: str, tmp_path: Path) -> None:
    source = SingerSource(
        io.BytesIO(f"{example}\n".encode()),
        SpoolWriter(tmp_path, 1 << 20),
        LocalConfig(path="lake", on_bad_record="quarantine"),
    )
    bad: list[BadRecord] = [record for flush in _flushes(source) for record in flush.bad]
    assert [record.reason for record in bad] == [reason]


def _flushes(source: SingerSource) -> list[Flush]:
    return list(source)


def test_the_tables_were_found() -> None:
    assert len(rows("The record as a whole", "A column")) > 20
    assert len(rows("Singer lines")) > 5


def quoted() -> list[str]:
    """The messages of the troubleshooting page."""
    page = (DOCS / "troubleshooting.md").read_text("utf-8")
    found = re.findall(r"^\| `(.+?)` \|", page, re.M)
    assert len(found) > 70
    return found


def literals() -> str:
    """Every string literal of the package, one after another."""
    texts = []
    for path in sorted((ROOT / "src" / "lakeport").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


def test_messages_are_the_codes_own() -> None:
    """Whatever stands between two values is a part of one literal, or of a table of actions."""
    known = literals()
    missing = []
    for message in quoted():
        for piece in _VARIES.split(message):
            text = piece.strip(" :;,.()?")
            if len(text) > 3 and text not in known and text not in _FOREIGN:
                missing.append(f"{text!r} of {message!r}")
    assert missing == []
