"""One input of the fuzzer, and the files in which inputs are kept to be repeated."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

KINDS: dict[str, float] = {
    "records": 0.25,
    "csv": 0.2,
    "lines": 0.1,
    "schemas": 0.1,
    "configs": 0.1,
    "parquet": 0.1,
    "names": 0.075,
    "partitions": 0.075,
}
"""Kind of input -> its share of all inputs."""


class Changed(Exception):
    """Lakeport and the independent reader disagree, or something that must hold does not."""


@dataclass(frozen=True)
class Case:
    """An input: bytes that are shrunk when they are a finding, and options that stay."""

    data: bytes
    options: Mapping[str, Any] = field(default_factory=dict)

    def with_data(self, data: bytes) -> Case:
        return Case(data, self.options)

    def write(self, path: Path, **more: Any) -> None:
        body = {"data": base64.b64encode(self.data).decode(), "options": self.options, **more}
        path.write_text(json.dumps({**body, "shown": repr(self.data[:2000])}, indent=1))

    @classmethod
    def read(cls, path: Path) -> tuple[str, Case]:
        """The kind and the input of a file that `write` made."""
        found = json.loads(path.read_text())
        return found["kind"], cls(base64.b64decode(found["data"]), found["options"])


def made(kind: str, seed: int, number: int) -> Case:
    """The `number`-th input of a kind: the same for the same seed, on any machine."""
    generate: Callable[[random.Random], Case] = import_module(f"tests.fuzz.generate.{kind}").case
    return generate(random.Random(f"{seed}/{kind}/{number}"))


def check(kind: str, case: Case) -> None:
    """Read an input with lakeport and compare.

    Raises:
        Changed: the values differ.
        Exception: anything else is a crash: lakeport raises nothing but its own errors.
    """
    import_module(f"tests.fuzz.oracle.{kind}").check(case)
