"""What the user asked for: frozen, checked before anything is read or written.

`load` turns a folder, a URI, a config file or a mapping into one `DestinationConfig`, and is
the only reader of the environment; each destination has a module with its keys. Names are loaded
when they are used, so that a command line answers before pydantic is there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.destinations.local import LocalConfig
    from lakeport.config.load import load_target

__all__ = ["DestinationConfig", "LocalConfig", "load_target"]

_MODULES = {
    "DestinationConfig": "base",
    "LocalConfig": "destinations.local",
    "load_target": "load",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
