"""The two programs by their names, in this process."""

from __future__ import annotations

from collections.abc import Sequence

from lakeport.cli import app
from lakeport.errors import LakeportError
from lakeport.host.pandas import pandas_hidden


def run(program: str, arguments: Sequence[str]) -> int:
    """Run a program.

    Args:
        program: `lakeport` or `target-lakeport`.
        arguments: what stands behind its name.

    Returns:
        The exit code; see `app.run`.
    """
    commands = app.app
    if program != app.NAME:
        from lakeport.cli import singer  # brings all that a load needs

        commands = singer.app
    with pandas_hidden():
        return app.run(commands, program, arguments)


def complete() -> int:
    """Answer a shell that completes a command line of `lakeport`."""
    return app.complete()


def fail(arguments: Sequence[str], error: LakeportError) -> int:
    """Tell an error as a program's commands do; the exit code is the error's."""

    def tell() -> int:
        raise error

    return app.guarded(arguments, tell)
