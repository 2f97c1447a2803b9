"""The wheel holds the documentation, and the native kernel where that loads on its machine.

Such a wheel is for this platform, and for every Python from 3.11 on. Any other wheel is for all
platforms, and does without the kernel; `LAKEPORT_NATIVE=off` builds that one anywhere.
"""

from __future__ import annotations

import os
import platform
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNEL = "lakeport/native/_kernel.abi3.so"


class KernelHook(BuildHookInterface[Any]):
    """Adds the pages, and the kernel that the settings leave out; names the platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is made."""
        kernel = Path(self.root, "src", KERNEL)
        if version == "editable":
            return
        # For `lakeport docs` and `lakeport explain`; in a checkout they read the pages there.
        docs = Path(self.root, "docs")
        for page in docs.rglob("*.md"):  # a terminal shows no pictures
            place = page.relative_to(docs).as_posix()
            build_data["force_include"][str(page)] = f"lakeport/docs/{place}"
        if loads(kernel):
            build_data["force_include"][str(kernel)] = KERNEL
            build_data["pure_python"] = False
            build_data["tag"] = f"cp311-abi3-{platform_tag()}"


def loads(kernel: Path) -> bool:
    """Whether the kernel is for this platform."""
    if os.environ.get("LAKEPORT_NATIVE", "").lower() == "off":
        return False
    spec = spec_from_file_location(
        "_kernel", kernel, loader=ExtensionFileLoader("_kernel", str(kernel))
    )
    assert spec is not None
    try:
        module_from_spec(spec)
    except ImportError:
        return False
    return True


def platform_tag() -> str:
    """As `scripts/build_native.py` builds for it."""
    machine = platform.machine()
    return (
        f"macosx_11_0_{machine}" if platform.system() == "Darwin" else f"manylinux_2_17_{machine}"
    )
