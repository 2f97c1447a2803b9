"""Played by Airflow's own Python: the example's DAG, and one of what may happen to a task."""

import json
import signal
from datetime import timedelta

from airflow.sdk import DAG
from airflow.utils.db import initdb
from airflow_dag import dag

from lakeport.integrations.airflow import LakeportHook, LakeportOperator
from tests.orchestrators.observers import Interrupted, LostOnce

DAY = "in/2026-11-27"
SETTINGS = {"retries": 1, "retry_delay": timedelta(0), "trigger_rule": "all_done"}

with DAG("tries", schedule=None, default_args=SETTINGS) as tries:
    lost, ended = LostOnce("lost"), Interrupted(signal.SIGTERM)
    again = LakeportOperator(
        task_id="again", source=DAY, to="lake", options={"table": "again", "observer": lost}
    )
    wrong = LakeportOperator(task_id="wrong", source=DAY, to="lake", options={"tabel": "wrong"})
    absent = LakeportOperator(task_id="absent", source="absent.csv", to="lake")
    killed = LakeportOperator(
        task_id="killed",
        source="killed.singer",
        to="lake",
        options={"observer": ended, "maximum_batch_rows": 1},
    )
    each = LakeportOperator.partial(task_id="each", to="lake", options={"table": "each"}).expand(
        source=[f"{DAY}/a.csv", f"{DAY}/b.csv"]
    )

if __name__ == "__main__":
    initdb()
    facts = {}
    for run in (dag.test(run_conf={"day": "2026-11-27"}), tries.test()):
        for ti in run.get_task_instances():
            report = ti.xcom_pull(task_ids=ti.task_id, map_indexes=ti.map_index)
            name = ti.task_id if ti.map_index < 0 else f"{ti.task_id}{ti.map_index}"
            facts[name] = [ti.state, ti.try_number, report]
    names = ("gcs", "azure", "keys")
    facts["connections"] = {name: LakeportHook(name).get_conn() for name in names}
    shop = LakeportOperator(task_id="shop", source={"table": "orders"}, source_conn_id="shop")
    source = shop._open_source()
    facts["database"] = [source.database.get_secret_value(), str(source)]
    print("FACTS", json.dumps(facts))
