from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any


class Memory:
    """A stage writer that keeps the bytes."""

    def __init__(self) -> None:
        self.file = io.BytesIO()

    def write(self, data: bytes | memoryview, /) -> int:
        return self.file.write(data)

    def finish(self) -> Mapping[str, Any]:
        return {}

    def abort(self) -> None:
        pass
