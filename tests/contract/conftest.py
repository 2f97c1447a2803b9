"""Every target that the suite runs on."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakeport
from tests.contract.targets import LocalFiles, Target

TARGETS = ("local-delta", "local-parquet", "local-csv")


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    """A fresh, empty root on each destination, in each format that it has."""
    place, _, file_type = request.param.rpartition("-")
    yield getattr(_Places, place)(request, tmp_path, file_type)


class _Places:
    """How each destination is set up."""

    @staticmethod
    def local(_: pytest.FixtureRequest, tmp_path: Path, file_type: str) -> Target:
        root = tmp_path / "lake"
        keys = {"destination": "local", "path": str(root), "file_type": file_type}
        return Target(f"local-{file_type}", keys, LocalFiles(root), str(root))


Land = Callable[..., lakeport.LandingReport]


@pytest.fixture
def land(target: Target) -> Land:
    """Land Singer lines (bytes) or any other source; keyword arguments are config keys."""

    def run(source: Any, *, states: list[bytes] | None = None, **keys: Any) -> Any:
        stream = io.BytesIO(source) if isinstance(source, bytes) else source
        collect = None if states is None else states.append
        return lakeport.land(stream, target.config(**keys), on_state=collect)

    return run
