"""The user's Python function of a transform: import it by its name, and apply it to a frame."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module, invalidate_caches
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from lakeport.errors import ConfigError
from lakeport.sources.frames import is_spark_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.config.lake import Load

_IMPORT_LOCK: Final = Lock()
"""Held while a module is imported: loads run side by side, and all threads share `sys.path`."""


def import_function(name: str, folder: Path | None = None) -> Callable[[Any], Any]:
    """Import `module:function` from a folder, else a package; ConfigError if there is none.

    The folder, by default the working folder, is searched first. ConfigError if there is no such
    module or function, or another module has its name.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError(f"`python`: {name!r} names no function", "write module:function.")
    here = folder or Path.cwd()
    try:
        with _IMPORT_LOCK:
            found = getattr(_import_from(module, here), attribute, None)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`python`: there is no module {error.name!r}",
            f"it is looked for in {here}, and among the packages that are installed.",
        ) from error
    if not callable(found):
        raise ConfigError(
            f"`python`: module {module!r} has no function {attribute!r}",
            "the function takes a Spark DataFrame and gives one.",
        )
    return found  # type: ignore[no-any-return]


def import_transform(load: Load) -> str | Callable[[Any], Any]:
    """Import a load's `python` function from the lake file's folder; return "" for none."""
    return load.python and import_function(load.python, Path(load.folder))


def _import_from(module: str, folder: Path) -> ModuleType:
    """Import a module, from `folder` first; ConfigError if another module has its name."""
    first = module.partition(".")[0]
    sys.path.insert(0, str(folder))
    invalidate_caches()  # a module may have been written a moment ago
    try:
        found = import_module(module)
    finally:
        sys.path.remove(str(folder))
    own = next(filter(Path.exists, (folder / first / "__init__.py", folder / f"{first}.py")), None)
    place = getattr(sys.modules[first], "__file__", None)
    if own and not (place and Path(place).exists() and own.samefile(place)):
        raise ConfigError(
            f"`python`: {str(own)!r} is not looked at: this process already has a module "
            f"{first!r}, {'of Python itself' if place is None else f'from {place!r}'}",
            "give the module another name.",
        )
    return found


def apply_function(function: Callable[[DataFrame], Any], frame: DataFrame) -> DataFrame:
    """Call the function with a frame; ConfigError unless it returns a Spark DataFrame."""
    found: DataFrame = function(frame)
    if not is_spark_frame(found):
        name = getattr(function, "__name__", "the function")
        raise ConfigError(
            f"`python`: {name} gave a value of type {type(found).__name__!r}",
            "it has to give the Spark DataFrame that is landed.",
        )
    return found
