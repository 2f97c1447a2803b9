"""Readers of configs, in an environment of the test's own where `environ` gives one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

from lakeport.config import lake, load, singer
from lakeport.mage import flags


def reading(read: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with the argument `environ`."""

    def call(*given: Any, environ: Mapping[str, str] | None = None, **named: Any) -> Any:
        with patch.dict(os.environ, environ or {}, clear=environ is not None):
            return read(*given, **named)

    return call


load_file = reading(load.load_file)
read_sink_interval = reading(load.read_sink_interval)
load_target = reading(load.load_target)
load_settings = reading(singer.load_settings)
load_flags_config = reading(flags.load_flags_config)
read_lake = reading(lake.read_lake)
