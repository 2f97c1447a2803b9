"""A Prefect flow: it lands files of a day, then runs a lake file.

The block `lake` has the target and its keys: `LakeportTarget(to="s3://orders/prefect",
secrets={...}).save("lake")`, or Prefect's pages.
"""

from prefect import flow

from lakeport.integrations.prefect import LakeportTarget, land, run


@flow(log_prints=True)
def nightly(day: str) -> None:
    """Land a day's orders, then run the lake file."""
    target = LakeportTarget.load("lake")
    report = land.with_options(retries=3)(f"in/{day}/*.csv", target, table="orders")
    print(report["rows"], "rows")
    run("lake.yaml", target)
