"""Played by Prefect's own Python: the example's flow, and what may happen to a task."""

import json
import os
import signal
from contextlib import suppress

from prefect import flow
from prefect_flow import nightly

import lakeport
from lakeport.integrations.prefect import LakeportTarget, land
from tests.orchestrators.observers import Interrupted, LostOnce

DAY = "in/2026-11-27"
facts = {}


@flow(retries=1)
def tries() -> None:
    """A flow that is run again, as its process was lost; and an error that no retry mends."""
    with suppress(lakeport.ConfigError):
        land.with_options(retries=5)(DAY, "lake", tabel="wrong")
    facts.setdefault("again", []).append(land(DAY, "lake", table="again"))
    land(DAY, "lake", table="lost", observer=LostOnce("lost"))


@flow
def ended() -> None:
    """A flow that Ctrl-C ends."""
    land("killed.singer", "lake", observer=Interrupted(signal.SIGINT), maximum_batch_rows=1)


if __name__ == "__main__":
    keys = {"aws_access_key_id": os.environ["LAKE_KEY"]}
    keys["aws_secret_access_key"] = os.environ.pop("LAKE_SECRET")
    LakeportTarget(to="s3://orders/prefect", secrets=keys).save("lake")
    nightly("2026-11-27")
    tries()
    try:
        ended()
    except KeyboardInterrupt:
        facts["killed"] = True
    print("FACTS", json.dumps(facts))
