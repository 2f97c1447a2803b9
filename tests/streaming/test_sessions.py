"""Streams in a session that somebody else built, and at the end of a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from deltalake import DeltaTable

from tests.faults.kit import environment
from tests.streaming.kit import Inbox

SCRIPT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
import lakeport
import lakeport.errors
from lakeport.engine.spark.jvm import jars
from lakeport.engine.spark.settings import DELTA_SETTINGS
from tests.cluster.standalone import SHORT_LIVED
from tests.streaming.kit import Inbox

root = Path(sys.argv[1])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.log.level", "OFF")
builder = builder.config("spark.driver.extraJavaOptions", " ".join(SHORT_LIVED))
if known := jars.known_needs({"delta"}):  # no Delta is needed; Spark 4.3 has none
    builder = builder.config("spark.jars", ",".join(map(str, jars.ensure_jars(known))))
    for key, value in DELTA_SETTINGS.items():
        builder = builder.config(key, value)
spark = builder.getOrCreate()
frame = Inbox(root / "in").stream()(spark)
try:
    lakeport.land_stream(frame, root / "lake", table="no", checkpoint="s3a://bucket/progress")
except lakeport.errors.ConfigError as error:
    assert "org.apache.hadoop:hadoop-aws" in error.hint, error.hint
else:
    raise AssertionError("the session has no connector for the checkpoint")
streams = [
    lakeport.land_stream(
        frame, root / "lake", table=kind, file_type=kind, checkpoint=root / kind, trigger=0.2
    )
    for kind in ("delta", "parquet")
]
while any(stream.report.rows < 20 and stream.active for stream in streams):
    streams[0].wait(0.1)
streams[0].query.stop()  # as those do who know nothing of lakeport
assert streams[0].wait(60)
assert streams[1].active
assert lakeport.land(spark.range(3), root / "lake", table="other").rows == 3
print([stream.report.rows for stream in streams])
"""


def test_a_session_of_the_users(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "in")
    inbox.add(range(10))
    inbox.add(range(10, 20))
    path = os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path]))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment({"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}),
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "[20, 20]"
    table = DeltaTable(str(tmp_path / "lake" / "delta")).to_pyarrow_table()
    assert sorted(table["id"].to_pylist()) == list(range(20))
