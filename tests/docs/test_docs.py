from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from lakeport.cli.app import app
from lakeport.config.base import config_class
from lakeport.config.files import expand, parse_text
from lakeport.engine.spark.jvm.jars import pinned_jars
from lakeport.engine.spark.jvm.versions import JAVA, SparkBuild
from tests.docs.generate import CONFIGS, command_paths, rendered
from tests.docs.pages import (
    DOCS,
    ROOT,
    Block,
    anchors,
    blocks,
    commands,
    lakeport_arguments,
    links,
    pages,
    pictures,
    slug,
)
from tests.unit.config.kit import load_target, read_lake

BLOCKS = [block for page in pages() for block in blocks(page)]
CONSOLE = [block for block in BLOCKS if block.language == "console"]
COMMANDS = [
    pytest.param(arguments, id=f"{block}: {' '.join(arguments)}"[:90])
    for block in CONSOLE
    for command, _ in commands(block)
    if "lakeport" in command
    for arguments in lakeport_arguments(command)
]
each_page = pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_links_have_targets(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@each_page
def test_pictures_are_there_and_told_in_words(page: Path) -> None:
    for words, name in pictures(page):
        assert (page.parent / name).is_file(), name
        assert len(words.split()) > 3, name


def test_every_picture_is_shown() -> None:
    shown = {(page.parent / name).resolve() for page in pages() for _, name in pictures(page)}
    assert [path for path in DOCS.rglob("*.svg") if path not in shown] == []


def test_every_page_is_on_the_map() -> None:
    index = DOCS / "index.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links(index)}
    missing = [
        page
        for page in DOCS.rglob("*.md")
        if page.parent.name != "adr" and page.resolve() not in linked
    ]
    assert missing == [index]


@each_page
def test_generated_parts_are_up_to_date(page: Path) -> None:
    text = page.read_text("utf-8")
    assert rendered(text) == text, "run `python -m tests.docs.generate`"


def test_every_command_has_its_section() -> None:
    sections = anchors(DOCS / "cli.md")
    assert [path for path in command_paths() if slug(f"lakeport {path}") not in sections] == []


@pytest.mark.parametrize("arguments", COMMANDS)
def test_commands_parse(arguments: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    context = command.make_context("lakeport", list(arguments))
    while hasattr(command, "commands"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
    keys = {key for config in CONFIGS.values() for key in config.model_fields}
    given = context.params.get("set_keys") or ()
    if arguments[0] != "land" or "--set" not in arguments or "modus=append" not in arguments:
        assert {pair.partition("=")[0] for pair in given} <= keys


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "yaml"], ids=str)
def test_configs_are_valid(block: Block, tmp_path: Path) -> None:
    names = re.findall(r"\$\{(\w+)\}|env_var\('(\w+)'\)", block.text)
    names += re.findall(r"(?:(mage)|(aws))_secret_var\('(\w+)'\)", block.text)
    environ = {f"LAKEPORT_SECRET_{n[-1].upper()}": "abcd" for n in names}
    environ |= dict.fromkeys((word for n in names for word in n if word), "abcd")
    if all(line.startswith("#") for line in block.text.splitlines()):
        return  # a line for editors alone
    if "loads:" in block.text:
        (tmp_path / "lake.yaml").write_text(block.text)
        assert read_lake(tmp_path / "lake.yaml", environ=environ).loads
        return
    text = re.sub(r"\$\{[\w-]+:[^}]*\}", "abcd", block.text)  # secrets of stores
    keys = expand(parse_text(text, str(block)), environ, str(block))
    if "connector_type" in keys:
        load_target(keys, environ={})
        return
    inner = keys.pop("config", {})
    destination = keys.pop("destination")
    config_class(destination)(**keys, **inner)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "json"], ids=str)
def test_json_is_json(block: Block) -> None:
    assert json.loads(block.text)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "python"], ids=str)
def test_python_compiles(block: Block) -> None:
    compile(block.text, str(block), "exec")


@pytest.mark.parametrize("page", [p for p in DOCS.rglob("*.md") if p.parent.name != "adr"], ids=str)
def test_a_page_begins_with_an_example(page: Path) -> None:
    first = next(blocks(page))
    assert first.language in {"console", "python", "yaml"}


def test_versions_are_those_of_the_pinned_jars() -> None:
    page = (DOCS / "compatibility.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d\.\d) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|", page, re.M)
    assert [row[0] for row in rows] == list(JAVA)
    for minor, scalas, delta, hadoop, sdk, java in rows:
        for scala in scalas.split(", "):
            spark = SparkBuild(minor, scala)
            pinned = {jar.artifact: jar.version for jar in pinned_jars("s3a", spark)}
            assert pinned["hadoop-aws"] == hadoop
            assert sdk in (pinned.get("s3"), pinned.get("aws-java-sdk-s3"))
            found = [jar.version for jar in pinned_jars("delta", spark)]
            assert set(found or ["none"]) == {delta}
        assert java == ", ".join(map(str, JAVA[minor]))
