"""The runs of a lake: their reports, and the bad records that they have set aside."""

from __future__ import annotations

from lakeport.tables.runs.listing import LakeRun, find_run, list_loads, list_runs, run_named, runs
from lakeport.tables.runs.quarantined import samples

__all__ = ["LakeRun", "find_run", "list_loads", "list_runs", "run_named", "runs", "samples"]
