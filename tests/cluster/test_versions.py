"""A driver whose Spark is not the cluster's is refused by both versions, whatever Spark says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakeport.engine.spark.jvm.versions import installed_build
from tests.cluster.standalone import Standalone
from tests.emulators import SPARKS


@pytest.mark.soak
@pytest.mark.parametrize("minor", ["3.5", "4.0", "4.1", "4.3"])
def test_a_cluster_of_another_spark_is_refused(minor: str, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    (tmp_path / "people.csv").write_text("id\n1\n")
    spark = SPARKS[minor].site_packages() / "pyspark"
    with Standalone(tmp_path / "cluster", (None,), spark) as cluster:
        settings = cluster.settings(spark__master__ui__port=str(cluster.ui))
        command = [sys.executable, "-m", "lakeport", "land", str(tmp_path / "people.csv")]
        command += ["--to", str(tmp_path / "lake"), "--set", f"spool_uri={spool.as_uri()}"]
        command += [word for pair in settings.items() for word in ("--spark", "=".join(pair))]
        variables = {**os.environ, "LAKEPORT_ENGINE": "spark"}
        begin = time.monotonic()
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, check=False, timeout=300
        )
        assert time.monotonic() - begin < 50  # Spark itself asks such a master for a minute
    assert done.returncode == 2, done.stderr
    said = f"runs Spark {SPARKS[minor].version}, and this process runs {installed_build().version}"
    assert said in done.stderr
    assert f"pip install 'pyspark=={SPARKS[minor].version}'" in done.stderr
    assert not (tmp_path / "lake" / "people").exists()
