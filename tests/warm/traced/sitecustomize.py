"""Has the processes of a warm session measure what they run, where the tests are measured."""

import os
import sys
from pathlib import Path

if "lakeport.warm.session" in sys.orig_argv:
    import coverage

    _tracer = coverage.Coverage(
        config_file=Path(__file__).parents[3] / "pyproject.toml",
        data_file=os.environ["PYTHON_LAKEPORT_TRACE"],
        data_suffix=True,
    )
    _tracer.set_option("run:patch", ["_exit", "fork"])
    _tracer.start()
