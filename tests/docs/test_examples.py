"""What the pages show is run: Python blocks, and commands with the output below them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakeport.cli.app import app, run
from lakeport.cli.singer import app as target_app
from tests.docs.pages import ROOT, Block, blocks, commands, pages

os.environ["LAKEPORT_CDS"] = "use"
_OURS = re.compile(r"(|.*?\s)(target-lakeport|lakeport) (.*)", re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One working directory for all pages, emptied between them."""
    return tmp_path_factory.mktemp("examples")


PAGES = [page for page in pages() if any(block.runs for block in blocks(page))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    monkeypatch.chdir(folder)
    names: dict[str, object] = {"__name__": "example"}
    for block in blocks(page):
        if block.runs and block.language == "python":
            exec(compile("\n" * block.line + block.text, str(block.page), "exec"), names)
        elif block.runs:
            _run_commands(block, monkeypatch)


def _run_commands(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    for command, output in _joined(block):
        printed = _run(command, monkeypatch)
        assert _matches(output, printed), f"{block}: {command}\n{printed}\nis not\n{output}"


def _joined(block: Block) -> list[tuple[str, str]]:
    """Commands with their output; lines that begin with `> ` continue a command."""
    found = []
    for command, output in commands(block):
        lines = output.splitlines()
        more = [line[2:] for line in lines if line.startswith("> ")]
        found.append(("\n".join([command, *more]), "\n".join(lines[len(more) :])))
    return found


def _run(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run one command line; lakeport's in this process, where Spark runs already."""
    found = _OURS.match(command)
    if found is None:
        return _shell(command)
    before, name, arguments = found.groups()
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.ExitStack() as stack:
        if before.strip():
            Path("stdin").write_text(_shell(before.strip().removesuffix("|")))
            stdin = stack.enter_context(Path("stdin").open())
            monkeypatch.setattr(sys, "stdin", stdin)
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        program = target_app if name == "target-lakeport" else app
        code = run(program, name, shlex.split(arguments))
    printed, told = (each.buffer.getvalue().decode() for each in (out, err))
    return printed + (told if code else "")


def _shell(command: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout


def _matches(expected: str, printed: str) -> bool:
    """Whether the output is what is shown; `...` stands for anything."""
    pieces = [re.escape(piece) for piece in expected.strip().split("...")]
    pattern = ".*?".join(re.sub(r"(\\ )+", r" +", piece) for piece in pieces)
    return not expected.strip() or re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None
