"""An Airflow DAG: it lands files of a day, then runs a lake file.

Put it into Airflow's folder of DAGs, and set AIRFLOW_CONN_LAKE, or make a connection `lake` of the
type `aws`.
"""

from airflow.sdk import DAG

from lakeport.integrations.airflow import LakeportOperator

with DAG("lake", schedule=None, default_args={"retries": 3}) as dag:
    orders = LakeportOperator(
        task_id="orders",
        source="in/{{ dag_run.conf['day'] }}/*.csv",
        to="s3://orders/airflow",
        conn_id="lake",
        options={"table": "orders", "expect": [{"not_null": "id"}]},
    )
    lake = LakeportOperator(task_id="lake", lake_file="lake.yaml", conn_id="lake")
    orders >> lake

if __name__ == "__main__":
    dag.test(run_conf={"day": "2026-11-27"})
