"""Calls of lakeport for mypy in `make check`, which has to take the right and refuse the wrong.

Nothing runs them. An `ignore` that mypy has no use for is an error, too.
"""

from __future__ import annotations

from typing import assert_type

import lakeport


def right() -> None:
    report = lakeport.land("a.csv", "./lake", table="t", mode="merge", merge_keys=["id"])
    assert_type(report, lakeport.LandingReport)
    assert_type(report.streams[0].last_version, int | None)
    assert_type(lakeport.plan("a.csv", "./lake", partition_keys="a,b"), lakeport.LandingPlan)
    assert_type(lakeport.check("s3://lake", aws_region="eu-west-1"), lakeport.CheckReport)
    assert_type(lakeport.tables("s3://lake", aws_region="eu-west-1"), list[lakeport.LakeTable])
    assert_type(lakeport.runs("./lake", 3), list[lakeport.LakeRun])
    lakeport.land([{"id": 1}], "./lake", table="t")
    lakeport.land("a.csv", "./lake", run_id=None, give_up_after="2m", spark={"spark.x": 1})


def wrong() -> None:
    lakeport.land("a.csv", "./lake", tabel="t")  # type: ignore[call-arg]
    lakeport.land("a.csv", "./lake", mode="upsurt")  # type: ignore[arg-type]
    lakeport.land("a.csv", "./lake", hard_delete="yes")  # type: ignore[arg-type]
    lakeport.plan("a.csv", "./lake", merge_keys=1)  # type: ignore[arg-type]
    lakeport.check("s3://lake", aws_regoin="eu-west-1")  # type: ignore[call-arg]
    lakeport.tables("s3://lake", aws_regoin="eu-west-1")  # type: ignore[call-arg]
    lakeport.Table("s3://lake/t", aws_regoin="eu-west-1")  # type: ignore[call-arg]
    lakeport.land_stream(str, "./lake", checkpint="c")  # type: ignore[call-arg, arg-type]
