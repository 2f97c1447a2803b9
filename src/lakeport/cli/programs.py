"""The two programs by their names, in this process."""

from __future__ import annotations

from collections.abc import Sequence

from lakeport.cli import app, singer
from lakeport.errors import LakeportError
from lakeport.host.pandas import pandas_hidden

__all__ = ["fail", "run"]


def run(program: str, arguments: Sequence[str]) -> int:
    """Run a program.

    Args:
        program: `lakeport` or `target-lakeport`.
        arguments: what stands behind its name.

    Returns:
        The exit code; see `app.run`.
    """
    commands = singer.app if program == singer.NAME else app.app
    with pandas_hidden():
        return app.run(commands, program, arguments)


def fail(arguments: Sequence[str], error: LakeportError) -> int:
    """Tell an error as a program's commands do; the exit code is the error's."""

    def tell() -> int:
        raise error

    return app.guarded(arguments, tell)
