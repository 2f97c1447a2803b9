"""Errors of Spark's way to a store say which table it was on its way to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from lakeport.engine.spark.failures import of_spark
from lakeport.errors import DestinationError, PermissionRefused, Unreachable

_PLACELESS = (DestinationError, PermissionRefused, Unreachable)


@contextmanager
def placed(table: str) -> Iterator[None]:
    """Have an error of Spark's way to a store say which table it was on its way to, and how long.

    Raises:
        DestinationError: the store refused, or was given up.
    """
    begin = time.monotonic()
    try:
        yield
    except DestinationError as error:
        if type(error) not in _PLACELESS or not of_spark(error):
            raise
        message = f"{table}: {error.message}"
        if isinstance(error, Unreachable):
            message += f"; Spark gave it up after {time.monotonic() - begin:.0f} s"
        raise type(error)(message, error.hint) from error.__cause__
