"""The engine Spark: what it is told of a load, who may use a session, whose session will do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError

import lakeport
from lakeport.engine.spark.jvm.calls import iterate_seq
from lakeport.engine.spark.session import DriverSession
from tests.spark.test_session import run_script


def test_a_load_says_what_ran_it(driver: DriverSession, tmp_path: Path) -> None:
    source = tmp_path / "people.csv"
    source.write_text("id,name\n1,Ada\n2,Bob\n")
    report = lakeport.land(str(source), tmp_path / "lake")
    told = report.engine
    assert (told.name, told.version) == ("spark", str(driver.context.version))
    assert told.master == f"local[{driver.cores}]"
    assert told.application == str(driver.context.applicationId)
    assert (told.jobs, told.tasks) == (1, 1)
    assert report.to_dict()["engine"]["application"] == told.application
    (entry,) = lakeport.Table(tmp_path / "lake/people").history()
    assert entry.engine == f"lakeport/{lakeport.__version__} Apache-Spark/{told.version}"
    (run,) = lakeport.runs(tmp_path / "lake")
    assert run.engine == f"spark {told.version}"
    log = (tmp_path / "lake/people/_delta_log/00000000000000000000.json").read_text()
    parameters = json.loads(log.splitlines()[0])["commitInfo"]["operationParameters"]
    assert parameters["engine"] == "spark" and parameters["application"] == told.application


def test_jobs_have_descriptions_in_words_and_a_group_a_run(
    driver: DriverSession, tmp_path: Path
) -> None:
    context = driver.context._jsc.sc()
    store = context.statusStore()  # what Spark's UI shows

    def jobs() -> dict[int, Any]:
        context.listenerBus().waitUntilEmpty()
        return {job.jobId(): job for job in iterate_seq(store.jobsList(None))}

    before = jobs()
    rows = [{"id": 1}, {"id": 2}]
    lakeport.land(rows, tmp_path, table="t", run_id="nightly")
    lakeport.land(rows, tmp_path, table="u", sql="SELECT id FROM source", run_id="second")
    table = lakeport.TablesSource(tables={"t": str(tmp_path / "t")})
    lakeport.land(table, tmp_path, table="copy")
    fed = {"delta.enableChangeDataFeed": "true"}
    for _ in range(2):
        lakeport.land(
            rows, tmp_path, table="m", mode="merge", merge_keys="id", table_properties=fed
        )
    lakeport.Table(tmp_path / "t").optimize()
    new = [job for number, job in jobs().items() if number not in before]
    described = {job.jobGroup().get(): job.description().get() for job in new}
    words = f"lakeport: write t, batch 0, to {tmp_path / 't'}, run nightly"
    assert described["lakeport nightly"] == words
    assert "write u, batch 0" in described["lakeport second"]

    def stages(job: Any) -> set[str]:
        """Names of a job's stages; of more than a thousand, Spark forgets skipped ones first."""
        names = set()
        for number in iterate_seq(job.stageIds()):
            try:
                names.add(store.lastStageAttempt(number).name())
            except Py4JJavaError as error:
                assert "NoSuchElementException" in str(error.java_exception)
        assert names
        return names

    (first,) = (job for job in new if job.jobGroup().get() == "lakeport nightly")
    assert stages(first) == {words}
    for job in new:  # those of delta-spark, and of looking at tables, too
        assert "lakeport: " in job.description().get(), job.name()
        assert job.jobGroup().get().startswith("lakeport"), job.name()
        assert job.name().startswith("lakeport: "), job.name()
        assert not [stage for stage in stages(job) if ".py:" in stage]


def test_a_load_waits_for_loads_of_other_settings_and_never_for_itself(tmp_path: Path) -> None:
    """The JVM is one a process: who needs another waits for the others' end, and breaks nothing.

    Shells and notebooks keep the last error, and with it everything that the load had.
    """
    out = run_script(f"""
    import threading
    import lakeport

    ended = {{}}
    def land(name, **keys):
        try:
            rows = ({{"id": number}} for number in range(1000))
            ended[name] = lakeport.land(rows, {str(tmp_path)!r}, table=name, **keys).rows
        except BaseException as error:
            ended[name] = repr(error)

    settings = {{"spark.sql.shuffle.partitions": "7"}}
    threads = [
        threading.Thread(target=land, args=("a",)),
        threading.Thread(target=land, args=("b",), kwargs={{"spark": settings}}),
        threading.Thread(target=land, args=("c",), kwargs={{"sql": "SELECT id FROM source"}}),
        threading.Thread(target=land, args=("d",), kwargs={{"engine": "threads"}}),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sorted(ended.items()))

    other = {{"spark.sql.shuffle.partitions": "5"}}
    def rows():
        yield {{"id": 1}}
        try:
            lakeport.land([{{"id": 2}}], {str(tmp_path)!r}, table="inner", spark=other)
        except lakeport.ConfigError as error:
            print("refused" if "in this thread uses Spark" in str(error) else error)
        lakeport.land([{{"id": 2}}], {str(tmp_path)!r}, table="inner")

    lakeport.land(rows(), {str(tmp_path)!r}, table="outer")
    kept = []
    for keys in ({{"expect": [{{"check": "id >"}}]}}, {{"sql": "SELECT"}}, {{"mode": "merge"}}):
        try:
            lakeport.land([{{"id": 1}}], {str(tmp_path)!r}, table="t", **keys)
        except lakeport.LakeportError as error:
            kept.append(error)
    print(len(kept), lakeport.land([{{"id": 1}}], {str(tmp_path)!r}, table="t", spark=other).rows)
    """)
    assert out.splitlines() == [str([(name, 1000) for name in "abcd"]), "refused", "3 1"]
    for name, rows in {**dict.fromkeys("abcd", 1000), "inner": 1}.items():
        assert DeltaTable(tmp_path / name).to_pyarrow_table().num_rows == rows


@pytest.mark.soak  # three processes of Spark
def test_a_forked_process_leaves_its_parents_spark_alone(tmp_path: Path) -> None:
    """Both would write to one connection; the child has a Spark of its own."""
    out = run_script(
        f"""
    import multiprocessing
    import lakeport
    from pyspark.sql import SparkSession

    def land(name):
        for _ in range(4):
            report = lakeport.land([{{"id": 1}}] * 50, {str(tmp_path)!r}, table=name)
        return report.engine.application

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
    spark = builder.getOrCreate()
    land("ours")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        theirs = pool.apply_async(land, ["theirs"])
        ours = land("ours")
        assert ours == spark.sparkContext.applicationId != theirs.get()
    print(spark.range(7).count())
    """,
        quiet=False,
    )
    assert out.split() == ["7"]
    for name, rows in {"ours": 400, "theirs": 200}.items():
        assert DeltaTable(tmp_path / name).to_pyarrow_table().num_rows == rows


@pytest.mark.parametrize("command", ["query", "optimize"])
def test_tables_commands_say_that_they_take_spark(tmp_path: Path, command: str) -> None:
    lakeport.land([{"id": 1}], tmp_path, table="t", engine="threads")
    table = lakeport.Table(tmp_path / "t", engine="threads")
    with pytest.raises(lakeport.ConfigError, match="takes Spark, and `engine` is `threads`"):
        table.query("SELECT * FROM t") if command == "query" else table.optimize()


def test_plain_tables_land_where_deltas_jars_cannot_be_had(tmp_path: Path) -> None:
    out = run_script(f"""
    import os
    os.environ["LAKEPORT_CACHE"] = {str(tmp_path / "cache")!r}
    os.environ["LAKEPORT_MAVEN_URL"] = "http://127.0.0.1:9/"
    os.environ["LAKEPORT_CDS"] = "off"
    import lakeport

    print(lakeport.land([{{"id": 1}}], {str(tmp_path)!r}, table="t").rows)
    print(lakeport.land([{{"id": 2}}], {str(tmp_path)!r}, table="t").rows)
    properties = {{"delta.enableChangeDataFeed": "true"}}
    try:
        lakeport.land([{{"id": 1}}], {str(tmp_path)!r}, table="u", table_properties=properties)
    except lakeport.MissingDependency as error:
        assert "can't be downloaded" in str(error), error
        print("told")
    print(lakeport.land([{{"id": 3}}], {str(tmp_path)!r}, table="t").rows)
    """)
    assert out.split() == ["1", "1", "told", "1"]
    assert DeltaTable(tmp_path / "t").to_pyarrow_table().num_rows == 3
