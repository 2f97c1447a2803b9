"""Entry points of `lakeport` and `target-lakeport`: they run in a warm session or this process."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from lakeport.cli.signals import exit_on_signals, exit_process
from lakeport.errors import LakeportError
from lakeport.host.process import command_name
from lakeport.warm import client

_COMPLETE: Final = "_LAKEPORT_COMPLETE"
"""Set by the completion script in the shell: complete the command line, don't run it."""
_LOADS: Final = client.LOADS | {"run"}
_NO_LOAD: Final = client.SELF_SUFFICIENT | {"--plan", "--version"}
_THREADS: Final = "threads"
_OTHER_SPARK: Final = (_THREADS, "spark.")
"""Words in a command line or config without the default Spark: threads, or Spark settings."""
_CONFIG_BYTES: Final = 1 << 16


def main() -> NoReturn:
    """Run the program `lakeport`, and end the process."""
    _end("lakeport")


def singer() -> NoReturn:
    """Run the program `target-lakeport`, and end the process."""
    _end("target-lakeport")


def _end(program: str) -> NoReturn:
    """Run a program with the process's arguments, and end the process."""
    # Imports make 70,000 objects that stay: Python would search the new ones 200 times.
    gc.set_threshold(10_000)
    with exit_on_signals():
        code = _run(program, sys.argv[1:])
    exit_process(code)


def _run(program: str, arguments: list[str]) -> int:
    """Run a program in a warm session or this process, or complete a line; return the exit code."""
    if _COMPLETE in os.environ:
        from lakeport.cli import app

        return app.complete()
    code, arguments, problem = client.run_in_session(program, arguments)
    if code is not None:
        return code
    if problem is None and _loads_by_spark(program, arguments):
        from lakeport.engine.spark.jvm.launch import start_jvm_ahead

        start_jvm_ahead()
    # Only now: a client of a warm session has no need of it.
    from lakeport.cli.output.progress import begin_early, end

    try:
        if program == "lakeport":
            begin_early(arguments)
        return _run_here(program, arguments, problem)
    finally:
        end()


def _loads_by_spark(program: str, arguments: list[str]) -> bool:
    """Whether a command line will likely start Spark's JVM with default settings.

    A wrong guess costs a third of a second of a core's time.
    """
    loads = program != "lakeport" or command_name(arguments) in _LOADS
    if not loads or not _NO_LOAD.isdisjoint(arguments):
        return False
    if "SPARK_REMOTE" in os.environ:
        return False
    if _THREADS in map(str.lower, os.environ.values()):  # a config may refer to any of them
        return False
    texts = [*arguments, *filter(None, map(_read_start, arguments))]
    return not any(word in each.lower() for each in texts for word in _OTHER_SPARK)


def _read_start(argument: str) -> str:
    """Return the first 64 KiB of the config file that an argument names; else empty."""
    path = Path(argument.rpartition("=")[2])
    with suppress(OSError):
        if path.suffix in (".yaml", ".yml", ".json") and path.is_file():  # a pipe is read once
            with path.open("rb") as config:
                return config.read(_CONFIG_BYTES).decode(errors="replace")
    return ""


def _run_here(program: str, arguments: list[str], problem: LakeportError | None) -> int:
    """Run a program in this process, or print a warm session's problem; return the exit code."""
    from lakeport.cli import app

    if problem is not None:
        return app.fail(arguments, problem)
    return app.start(program, arguments)


if __name__ == "__main__":
    main()
