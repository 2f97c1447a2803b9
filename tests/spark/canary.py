"""Loads in a process of its own that print every view of Spark; no secret may be in any of them.

The configs come on standard input as JSON, the folder for the event log as an argument. No secret
may lie in a temporary file either while Spark runs: in spools, logs, and files of Spark's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyarrow as pa

import lakeport
from lakeport.cli.app import main as program
from lakeport.config.load import load_target
from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.session import DriverSession


def shown(configs: Sequence[Mapping[str, Any]], folder: Path, programs: int) -> str:
    """Whatever loads with these configs in one session show, the event log included.

    So many of the configs are loaded with by the command line, too.
    """
    events, scratch = folder / "events", folder / "scratch"
    events.mkdir()
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.canary", str(events), str(programs)],
        input=json.dumps(configs),
        cwd=Path(__file__).parents[2],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "TMPDIR": str(scratch),
        },
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    logged = [path.read_text(errors="replace") for path in events.rglob("*") if path.is_file()]
    assert "cmdline" in done.stdout
    assert "Traceback" in done.stdout
    assert any("SparkListenerApplicationStart" in text for text in logged)
    return "\n".join([done.stdout, done.stderr, *logged])


def main(events: str, programs: int, configs: Sequence[dict[str, Any]]) -> None:
    """Land twice, read, and fail to read; print settings, pages, command line and log."""
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": "false",
    }
    driver = DriverSession.acquire(SessionRequest({"delta", "s3a", "azure"}, settings))
    for config in configs:
        land_and_read(driver, config, settings)
    show_views(driver)
    for config in configs[:programs]:
        use_the_program(config, settings)
    known = {secret for config in configs for secret in load_target(config).secrets()}
    search_the_disk({*driver.secrets, *known})
    driver.stop(fast=False)


def land_and_read(driver: DriverSession, config: dict[str, Any], settings: dict[str, str]) -> None:
    """Two loads, and what Spark says of their table and of one that is not there."""
    lakeport.land(pa.table({"id": [1]}), config, spark=settings)
    report = lakeport.land(pa.table({"id": [2]}), config, spark=settings, mode="overwrite")
    print(report.to_json())
    spark, root = driver.spark, str(report.streams[0].table)
    root = root.replace("s3://", "s3a://")
    print(spark.read.format("delta").load(root).count())
    print(spark.sql(f"DESCRIBE HISTORY delta.`{root}`").collect())
    try:
        spark.read.parquet(f"{root}/nothing")
    except Exception as error:
        from lakeport.engine.failures import translate

        print(translate(error, driver.secrets))


def show_views(driver: DriverSession) -> None:
    """Settings, the JVM's command line and log, and the pages that Spark serves."""
    spark = driver.spark
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    print(driver.context.getConf().getAll())
    print(spark.sql("SET -v").collect(), spark.sql("SET").collect())
    assert driver._launch is not None
    jvm = driver._launch.jvm
    assert jvm is not None
    print("cmdline", Path(f"/proc/{jvm.process.pid}/cmdline").read_text())
    web, app = driver.context.uiWebUrl, driver.context.applicationId
    for page in (f"api/v1/applications/{app}/environment", "environment/", "jobs/", "SQL/"):
        print(urlopen(f"{web}/{page}").read().decode())
    print(jvm.log.read_text())


def use_the_program(config: dict[str, Any], settings: dict[str, str]) -> None:
    """Loads of the command line, whose secrets come from the environment; a failure's traceback."""
    hidden = type(load_target(config)).secret_keys() & config.keys()
    os.environ.update({f"LAKEPORT_{key.upper()}": config[key] for key in hidden})
    folder = Path(tempfile.mkdtemp())
    target, source = folder / "target.json", folder / "source.jsonl"
    target.write_text(json.dumps({k: v for k, v in config.items() if k not in hidden}))
    source.write_text('{"id": 3}\n{"id": \n')
    spark = [text for key, value in settings.items() for text in ("--spark", f"{key}={value}")]
    land = ["land", str(source), "--to", str(target), "--debug", *spark]
    assert program([*land, "--json"]) == 3
    assert program([*land, "--on-bad-record", "quarantine", "--run-id", "canary"]) == 0
    try:
        lakeport.land(pa.table({"id": ["text"]}), config, spark=settings)
    except lakeport.LakeportError as error:
        print(*traceback.format_exception(error))


def search_the_disk(secrets: set[str]) -> None:
    """Look for secrets in the files that a kill would leave."""
    files = [path for path in Path(tempfile.gettempdir()).rglob("*") if path.is_file()]
    assert any(path.name == "jvm.log" for path in files)
    for path in files:
        assert not leaks(path.read_bytes().decode("latin-1"), secrets), path


def leaks(text: str, secrets: Iterable[str]) -> list[int]:
    """The positions among the secrets of those that the text holds."""
    return [number for number, secret in enumerate(secrets) if secret in text]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), json.load(sys.stdin))
