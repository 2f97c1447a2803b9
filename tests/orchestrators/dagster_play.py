"""Played by Dagster's own Python: the example's assets, and what may happen to one."""

import json
import signal

import dagster_assets
from dagster import ExecuteInProcessResult, RetryPolicy, materialize

from lakeport.integrations.dagster import LakeportResource, lakeport_asset
from tests.orchestrators.observers import Interrupted, LostOnce

DAY = "in/2026-11-27"


def facts_of(result: ExecuteInProcessResult) -> dict[str, object]:
    """What became of a run: its materializations, checks, retries and failures."""
    made = [event.materialization for event in result.get_asset_materialization_events()]
    checks = result.get_asset_check_evaluations()
    failures = [one.event_specific_data for one in result.all_events if one.is_step_failure]
    return {
        "ok": result.success,
        "assets": {
            one.asset_key.to_user_string(): {
                name: value.value
                for name, value in one.metadata.items()
                if name in ("rows", "run_id")
            }
            | {"uri": one.metadata["dagster/uri"].value, "report": one.metadata["report"].value}
            for one in made
        },
        "checks": {one.check_name: [one.passed, one.severity.value] for one in checks},
        "retries": sum(one.is_step_up_for_retry for one in result.all_events),
        "failures": [
            one.user_failure_data.description for one in failures if one.user_failure_data
        ],
    }


def play(name: str, source: str = DAY, **given: object) -> dict[str, object]:
    """Materialize one asset of the local lake."""
    asset = lakeport_asset(
        source, key=name, options=given, retry_policy=RetryPolicy(max_retries=1, delay=0)
    )
    target = {"lakeport": LakeportResource(to="lake")}
    return facts_of(materialize([asset], resources=target, raise_on_error=False))


if __name__ == "__main__":
    example = [dagster_assets.orders, dagster_assets.lake]
    target = {"lakeport": dagster_assets.resource}
    facts = {"example": facts_of(materialize(example, resources=target))}
    only = materialize(example, selection="more", resources=target)
    facts["subset"] = facts_of(only)
    facts["again"] = play("again", observer=LostOnce("lost"))
    facts["wrong"] = play("wrong", tabel="wrong")
    facts["few"] = play("few", expect=[{"rows": {"at_least": 100}}, {"not_null": "id"}])
    facts["killed"] = play(
        "killed", "killed.singer", observer=Interrupted(signal.SIGINT), maximum_batch_rows=1
    )
    print("FACTS", json.dumps(facts))
