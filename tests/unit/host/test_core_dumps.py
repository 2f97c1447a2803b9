"""Core dumps: processes that hold secrets leave none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakeport.host.process import forbid_core_dumps


def limit(pid: int | str) -> list[str]:
    """The soft and the hard limit of a process's core files."""
    (line,) = (
        line
        for line in Path(f"/proc/{pid}/limits").read_text().splitlines()
        if line.startswith("Max core file size")
    )
    return line.split()[4:6]


@pytest.mark.parametrize(
    ("module", "argument"), [("lakeport.cli.app", "version"), ("lakeport.cli.singer", "--version")]
)
def test_a_program_and_its_children_leave_none(module: str, argument: str) -> None:
    script = f"""
import contextlib, io, subprocess, sys
from {module} import app
from lakeport.cli.app import run
with contextlib.redirect_stdout(io.StringIO()):
    run(app, "program", ["{argument}"])
child = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
subprocess.run([sys.executable, "-c", child], check=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "(0, 0)\n"


def test_another_process_is_told_too() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        assert limit(other.pid)[1] == limit("self")[1]
        forbid_core_dumps(other.pid)
        assert limit(other.pid) == ["0", "0"]
    forbid_core_dumps(other.pid)  # it has ended: nothing to forbid
