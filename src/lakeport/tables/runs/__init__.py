"""The runs of a lake: their reports, and the bad records that they have set aside."""

from __future__ import annotations

from lakeport.tables.runs.listing import LakeRun, run_named, runs
from lakeport.tables.runs.quarantined import BadSample, samples

__all__ = ["BadSample", "LakeRun", "run_named", "runs", "samples"]
