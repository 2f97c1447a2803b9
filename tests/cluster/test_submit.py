"""Any PySpark job can land, in Delta tables too: what its session lacks is told where needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from deltalake import DeltaTable

from lakeport.engine.spark.jvm.gateway import find_spark_home
from tests.cluster.conftest import Bucket
from tests.cluster.standalone import SHORT_LIVED, Standalone, contents, zipped_package

JOB = Path(__file__).with_name("job.py")


def test_a_submitted_job_lands_everything(
    bucket: Bucket, cluster: Standalone, tmp_path: Path
) -> None:
    client = bucket.minio.client()
    client.put_object(Bucket=bucket.name, Key="in/a.csv", Body=b"id\n1\n2\n")
    client.put_object(Bucket=bucket.name, Key="in/b.csv", Body=b"id\n3\n")
    settings = {**cluster.settings(), "spark.eventLog.enabled": "true"}
    settings |= {"spark.pyspark.driver.python": sys.executable, "spark.app.name": "orders"}
    for side in ("driver", "executor"):
        settings[f"spark.{side}.extraJavaOptions"] = " ".join(SHORT_LIVED)
    settings |= {"spark.eventLog.dir": tmp_path.as_uri(), "spark.eventLog.compress": "false"}
    confs = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    submit = [Path(sys.executable).with_name("spark-submit"), *confs]
    submit += ["--py-files", zipped_package(tmp_path), JOB]
    variables = {
        **os.environ,
        "SPARK_HOME": str(find_spark_home()),
        "JOB_BUCKET": bucket.name,
        "AWS_ACCESS_KEY_ID": bucket.minio.access_key,
        "AWS_SECRET_ACCESS_KEY": bucket.minio.secret_key,
        "LAKEPORT_AWS_ENDPOINT": bucket.minio.endpoint,
        "PYTHONPATH": "",
    }
    done = subprocess.run(submit, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["frame"], found["stream"], found["files"], found["after"]) == (1000, 5, 3, 7)
    assert found["name"] == "orders"
    assert sorted(bucket.rows("frame")["number"].to_pylist()) == list(range(1000))
    assert sorted(bucket.rows("files")["id"].to_pylist()) == [1, 2, 3]
    for named in (
        '.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")',
        '"spark.sql.catalog.spark_catalog"',
        "io.delta:delta-spark_4.2_2.13",
        "org.apache.hadoop:hadoop-aws",
    ):
        assert named in found["lacks"]
    table = DeltaTable(f"s3://{bucket.name}/lake/delta", storage_options=bucket.minio.delta_options)
    assert (found["delta"], table.to_pyarrow_table().num_rows) == (1000, 1000)
    assert bucket.objects("lake/mine/") == []
    assert bucket.objects("spool/") == []
    secret = bucket.minio.secret_key.encode()
    texts = contents(tmp_path) | contents(cluster.folder)
    assert any(b"SparkListenerJobStart" in text for text in texts.values())
    assert [path for path, text in texts.items() if secret in text] == []
