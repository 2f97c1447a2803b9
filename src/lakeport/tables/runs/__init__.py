"""The runs of a lake: their reports, and the bad records that they have set aside."""

from __future__ import annotations

from lakeport.tables.runs.listing import LakeRun, list_runs, run_named, runs
from lakeport.tables.runs.quarantined import samples

__all__ = ["LakeRun", "list_runs", "run_named", "runs", "samples"]
