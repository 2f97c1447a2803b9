"""A Python function that takes and gives a Spark DataFrame, found by its name."""

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
    from lakeport.engine.base import DataFrame

_IMPORTING: Final = Lock()
"""Loads run side by side, and `sys.path` is all threads' own."""


def function_named(name: str, folder: Path | None = None) -> Callable[[Any], Any]:
    """The function `module:function`, from a folder or what is installed.

    Args:
        name: the function.
        folder: where the module is looked for first; default: the working folder.

    Raises:
        ConfigError: there is no such module or function, or another module has its name.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError(f"`python`: {name!r} names no function", "write module:function.")
    here = folder or Path.cwd()
    try:
        with _IMPORTING:
            found = getattr(_imported(module, here), attribute, None)
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


def _imported(module: str, here: Path) -> ModuleType:
    """The module, which is the folder's if it has one of that name."""
    first = module.partition(".")[0]
    sys.path.insert(0, str(here))
    invalidate_caches()  # a module may have been written a moment ago
    try:
        found = import_module(module)
    finally:
        sys.path.remove(str(here))
    own = next(filter(Path.exists, (here / first / "__init__.py", here / f"{first}.py")), None)
    place = getattr(sys.modules[first], "__file__", None)
    if own and not (place and Path(place).exists() and own.samefile(place)):
        raise ConfigError(
            f"`python`: {str(own)!r} is not looked at: this process already has a module "
            f"{first!r}, {'of Python itself' if place is None else f'from {place!r}'}",
            "give the module another name.",
        )
    return found


def apply_function(function: Callable[[DataFrame], Any], frame: DataFrame) -> DataFrame:
    """What the function makes of a frame.

    Raises:
        ConfigError: it is no Spark DataFrame.
    """
    found: DataFrame = function(frame)
    if not is_spark_frame(found):
        name = getattr(function, "__name__", "the function")
        raise ConfigError(
            f"`python`: {name} gave a value of type {type(found).__name__!r}",
            "it has to give the Spark DataFrame that is landed.",
        )
    return found
