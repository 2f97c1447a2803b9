"""A Python function that takes and gives a Spark DataFrame, found by its name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeport.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["applied", "function_named"]


def function_named(name: str) -> Callable[[Any], Any]:
    """The function `module:function`, from the working folder or what is installed.

    Raises:
        ConfigError: there is no such module or function.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError(f"`python`: {name!r} names no function", "write module:function.")
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`python`: there is no module {error.name!r}",
            f"it is looked for in {here}, and among the packages that are installed.",
        ) from error
    finally:
        if added:
            sys.path.remove(here)
    if not callable(found):
        raise ConfigError(
            f"`python`: module {module!r} has no function {attribute!r}",
            "the function takes a Spark DataFrame and gives one.",
        )
    return found  # type: ignore[no-any-return]


def applied(function: Callable[[DataFrame], Any], frame: DataFrame) -> DataFrame:
    """What the function makes of a frame.

    Raises:
        ConfigError: it is no Spark DataFrame.
    """
    from pyspark.sql import DataFrame

    found = function(frame)
    if not isinstance(found, DataFrame):
        name = getattr(function, "__name__", "the function")
        raise ConfigError(
            f"`python`: {name} gave a value of type {type(found).__name__!r}",
            "it has to give the Spark DataFrame that is landed.",
        )
    return found
