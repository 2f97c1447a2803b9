"""`python -m lakeport`, and the two programs: through a warm session, or in this process."""

from __future__ import annotations

import gc
import os
import sys
from typing import Final, NoReturn

from lakeport.cli.signals import leave
from lakeport.errors import LakeportError
from lakeport.warm import client

_COMPLETE: Final = "_LAKEPORT_COMPLETE"
"""Set by the script that `--install-completion` gives the shell: the line is not to be run."""


def main() -> NoReturn:
    """Run the program `lakeport`, and end the process."""
    _end("lakeport")


def singer() -> NoReturn:
    """Run the program `target-lakeport`, and end the process."""
    _end("target-lakeport")


def _end(program: str) -> NoReturn:
    # A start makes 70,000 objects that stay: Python would look through the new ones 200 times.
    gc.set_threshold(10_000)
    leave(_run(program, sys.argv[1:]))


def _run(program: str, arguments: list[str]) -> int:
    if _COMPLETE in os.environ:
        from lakeport.cli import app

        return app.complete()
    code, arguments, problem = client.run_in_session(program, arguments)
    if code is not None:
        return code
    # Only now: a client of a warm session has no need of it.
    from lakeport.cli.output.progress import begin_early, end

    try:
        if program == "lakeport":
            begin_early(arguments)
        return _here(program, arguments, problem)
    finally:
        end()


def _here(program: str, arguments: list[str], problem: LakeportError | None) -> int:
    from lakeport.cli import app

    if problem is not None:
        return app.fail(arguments, problem)
    return app.start(program, arguments)


if __name__ == "__main__":
    main()
