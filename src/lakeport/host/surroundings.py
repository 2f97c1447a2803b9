"""What a process finds around it: taken along where another process does its work."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

# Spark's own to its workers, and what Python and the C library have read when they started.
_WORKERS: Final = ("SPARK_", "PYSPARK_", "PYTHON", "MALLOC_")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A process's environment variables and working folder.

    Attributes:
        environment: the variables.
        folder: the working folder; empty if it is gone.
    """

    environment: Mapping[str, str]
    folder: str

    @classmethod
    def here(cls) -> Surroundings:
        """Those of this process."""
        folder = ""
        with suppress(OSError):
            folder = os.getcwd()  # noqa: PTH109  # a text, for a process that may not import pathlib
        return cls(dict(os.environ), folder)

    def take(self) -> None:
        """Have this process, a worker of Spark's, be surrounded so."""
        for name in os.environ.keys() - self.environment.keys():
            if not name.startswith(_WORKERS):
                del os.environ[name]
        for name, value in self.environment.items():
            if not name.startswith(_WORKERS) and os.environ.get(name) != value:
                os.environ[name] = value
        if self.folder:
            with suppress(OSError):
                os.chdir(self.folder)
