"""A load as Mage's targets do it: Singer lines in, STATE out, and words as log lines."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lakeport.loading import run
from lakeport.sources.input.decompression import STDIN, open_input, unpack_limits
from lakeport.sources.singer.state import StateOutput

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.loading.report import LandingReport
    from lakeport.mage.observer import MageObserver
    from lakeport.mage.records import Flags


def land(
    config: DestinationConfig,
    flags: Flags,
    observer: MageObserver,
    source: BinaryIO | None = None,
) -> LandingReport:
    """Land Singer lines; a line that is no JSON object is logged, counted and skipped.

    Args:
        config: where to.
        flags: `state` and `input_file_path` count here.
        observer: is told how the load goes on.
        source: the lines, where no file is named; default: standard input.

    Raises:
        LakeportError: as `lakeport.land` does.
    """
    sink = (
        StateOutput(path=Path(flags.state))
        if flags.state
        else StateOutput(stream=sys.stdout.buffer)
    )
    observer.started()
    with ExitStack() as opened:
        lines: BinaryIO | str = source or STDIN
        if flags.input_file_path:
            lines = opened.enter_context(open_input(flags.input_file_path, unpack_limits(config)))
            observer.reading(flags.input_file_path)
        return run.land(
            lines,
            config,
            source_format="singer",
            stray_lines="skip",
            observer=observer,
            on_state=sink.emit,
        )
