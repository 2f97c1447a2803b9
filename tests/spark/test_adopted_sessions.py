"""Sessions that a user built without a setting of lakeport's: what they land, whose keys serve."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.cluster.standalone import SHORT_LIVED
from tests.emulators import Azurite, FakeGcs, Minio

# Neither credentials nor an interpreter in the environment.
_AMBIENT = ("AWS_", "AZURE_", "GOOGLE_", "STORAGE_", "PYSPARK_", "PYTHON", "LAKEPORT_")

_BUILD = """
import sys, lakeport
from pyspark.sql import SparkSession

COMMON = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "JAVA_OPTIONS",
}

def start_builder(**settings):
    builder = SparkSession.builder
    for name, value in {**COMMON, **settings}.items():
        builder = builder.config(name, value)
    return builder

def build(**settings):
    return start_builder(**settings).getOrCreate()

def refused(function, *arguments, **keys):
    try:
        function(*arguments, **keys)
    except lakeport.LakeportError as error:
        return f"{type(error).__name__}: {error}"
    raise SystemExit("it was not refused")
""".replace("JAVA_OPTIONS", " ".join(SHORT_LIVED))


def run_alone(script: str, folder: Path) -> list[str]:
    """Run a script in a process whose `python3` is another interpreter; return its last lines."""
    other = folder / "bin" / "python3"
    other.parent.mkdir()
    base = getattr(sys, "_base_executable", sys.executable)
    other.write_text(f'#!/bin/sh\nexec {base} -S "$@"\n')  # the same version, without packages
    other.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_AMBIENT)}
    paths = os.pathsep.join((str(other.parent), os.environ["PATH"]))
    home = {"HOME": str(folder), "XDG_CACHE_HOME": str(Path.home() / ".cache")}
    with_cache = {k: v for k, v in os.environ.items() if k in ("LAKEPORT_CACHE", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", _BUILD + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        env={**kept, "PATH": paths, "AWS_EC2_METADATA_DISABLED": "true", **home, **with_cache},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


def s3a_options(minio: Minio, at: str = "fs.s3a.") -> dict[str, str]:
    return {
        f"{at}access.key": minio.access_key,
        f"{at}secret.key": minio.secret_key,
        f"{at}endpoint": minio.endpoint,
        f"{at}path.style.access": "true",
    }


def hadoop(options: dict[str, str]) -> dict[str, str]:
    return {f"spark.hadoop.{name}": value for name, value in options.items()}


def kept_text(folder: Path) -> bytes:
    """All that loads have left in a folder."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_plain_session_lands_everywhere_with_its_own_keys(
    tmp_path: Path, minio: Minio, fake_gcs: FakeGcs, azurite: Azurite
) -> None:
    plain, other = minio.create_bucket("adopted-plain"), minio.create_bucket("adopted-other")
    fake_gcs.create_bucket("adopted")
    azurite.create_container("adopted")
    lake, table = tmp_path / "lake", azurite.uri("adopted", "t")
    keys = minio.of_folder(other, "mine")
    host = f"{azurite.account}.dfs.core.windows.net"
    options = {
        **s3a_options(minio),
        f"fs.azure.account.key.{host}": azurite.account_key,
        "fs.azure.abfs.endpoint": azurite.endpoint.removeprefix("http://"),
        "fs.azure.always.use.https": "false",
        "fs.gs.storage.root.url": f"{fake_gcs.endpoint}/",
    }
    theirs = {
        f"fs.s3a.bucket.{other}.access.key": keys.access_key,
        f"fs.s3a.bucket.{other}.secret.key": keys.secret_key,
        f"fs.s3a.bucket.{other}.session.token": keys.token,
    }
    found = run_alone(
        f"""
        spark = build(**{hadoop(options)!r})
        rows = [{{"id": n, "day": n % 3}} for n in range(1000)]
        frame, to = spark.range(1000), {str(lake)!r}
        context = spark.sparkContext
        users = context.parallelize([0], 1).map(lambda _: sys.flags.no_site)

        context.setJobGroup("mine", "my jobs")
        local = lakeport.land(spark.range(10), to, table="named", run_id="nightly")
        assert local.engine.application == context.applicationId
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert context.getLocalProperty("callSite.short") is None
        tracker = context.statusTracker()  # what is asked of the frame first, and the tasks
        assert all(tracker.getJobIdsForGroup(group) for group in ("mine", "lakeport nightly"))

        lakeport.land(rows, to, table="t")
        more = frame.selectExpr("id + 1 AS id")
        lakeport.land(more, to, table="t", mode="merge", merge_keys="id")
        lakeport.land(rows, to, table="p", file_type="parquet")
        for _ in range(2):
            lakeport.land(frame, "s3://{plain}/lake", table="p")
            lakeport.land(rows, "s3://{plain}/lake", table="d", destination="delta_lake_s3")
        keys = {{"destination": "delta_lake_s3", **{minio.config!r}}}  # a config's, too
        lakeport.land(frame, "s3://{plain}/lake", table="d", **keys)
        lakeport.land(frame, "gs://adopted/lake", table="p")
        lakeport.land(rows, {{"destination": "delta_lake_azure", "table_uri": {table!r}}})

        conf = context._jsc.hadoopConfiguration()  # as notebooks set it
        for name, value in {theirs!r}.items():
            conf.set(name, value)
        lakeport.land(rows, "s3://{other}/mine", table="p")
        said = refused(lakeport.land, rows, "s3://{other}/others", table="p")
        assert "AccessDenied" in said or "PermissionRefused" in said, said

        items = {{item.name: item for item in lakeport.check(
            "s3://{plain}/lake", destination="delta_lake_s3").items}}
        print(items["spark"].status, items["credentials"].detail)
        table = lakeport.Table("s3://{plain}/lake/d")
        assert table.describe().version == 2
        print(refused(table.optimize).replace("\\n", " "))
        wrong = {{"aws_access_key_id": "none", "aws_secret_access_key": "none"}}
        wrong["aws_endpoint"] = {minio.endpoint!r}
        print(refused(lakeport.land, rows, "s3://{plain}/lake", table="w", **wrong).split(":")[0])
        endpoint = "http://127.0.0.1:9"
        given = {{"aws_endpoint": endpoint, "give_up_after": 1}}
        print(refused(lakeport.land, rows, "s3://{plain}/lake", table="w", **given).splitlines()[0])
        spark.conf.set("spark.databricks.delta.properties.defaults.appendOnly", "true")
        said = refused(lakeport.land, rows, to, table="a")  # delta-spark alone keeps to it
        assert "lacks DeltaSpark" in said, said
        spark.conf.unset("spark.databricks.delta.properties.defaults.appendOnly")
        keys = {{"table": "a", "table_properties": {{"delta.appendOnly": "true"}}}}
        said = refused(lakeport.land, frame, to, **keys)
        assert "the active Spark session lacks" in said, said
        assert spark.range(3).count() == 3
        print(users.first(), context.pythonExec)
        """,
        tmp_path,
    )
    check, optimize, wrong, elsewhere, users = found[-5:]
    assert users == "1 python3"  # their own jobs run as before
    assert check.startswith("skipped found in ")
    assert check.endswith("as the active Spark session has it")
    assert optimize.startswith("ConfigError: the active Spark session lacks DeltaSpark")
    assert "`single_writer: true`" in optimize
    assert wrong == "PermissionRefused"  # the config's keys come first
    assert "no usable AWS credentials" in elsewhere  # the session's go to no other endpoint
    merged = DeltaTable(lake / "t").to_pyarrow_table()["id"].to_pylist()
    assert sorted(merged) == list(range(1001))
    assert pq.ParquetDataset(lake / "p").read().num_rows == 1000
    there = DeltaTable(f"s3://{plain}/lake/d", storage_options=minio.delta_options)
    assert there.to_pyarrow_table().num_rows == 3000
    names = [o["Key"] for o in minio.client().list_objects_v2(Bucket=plain)["Contents"]]
    assert len([name for name in names if name.startswith("lake/p/")]) >= 2
    away = DeltaTable(table, storage_options=azurite.delta_options)
    assert away.to_pyarrow_table().num_rows == 1000
    written = kept_text(lake)
    for bucket in (plain, other):
        for row in minio.client().list_objects_v2(Bucket=bucket)["Contents"]:
            written += minio.client().get_object(Bucket=bucket, Key=row["Key"])["Body"].read()
    for secret in (minio.secret_key, azurite.account_key, keys.secret_key, keys.token):
        assert secret.encode() not in written


def test_a_session_with_delta_as_its_manual_says(tmp_path: Path, minio: Minio) -> None:
    """With another catalog's settings beside it, and the log store of AWS Glue's manual."""
    from lakeport.engine.spark.jvm.jars import ensure_jars
    from lakeport.engine.spark.settings import DELTA_SETTINGS

    bucket = minio.create_bucket("adopted-delta")
    jars = [str(jar) for jar in ensure_jars({"delta", "s3a"}) if "logstore" not in jar.name]
    settings = {
        **DELTA_SETTINGS,
        **hadoop(s3a_options(minio)),
        "spark.jars": ",".join(jars),
        "spark.delta.logStore.class": "io.delta.storage.S3SingleDriverLogStore",
    }
    found = run_alone(
        f"""
        import contextlib
        spark = build(**{settings!r})
        to, keys = "s3://{bucket}/lake", {{"destination": "delta_lake_s3"}}
        for n in range(3):
            lakeport.land([{{"id": n}}], to, table="d", **keys)
        read = spark.read.format("delta").load("s3a://{bucket}/lake/d").count()
        table = lakeport.Table(to + "/d")
        asked = table.query("SELECT count(*) AS n FROM d").to_pylist()[0]["n"]
        feed = {{"table_properties": {{"delta.enableChangeDataFeed": "true"}}}}
        said = refused(lakeport.land, [{{"id": 1}}], to, table="f", **keys, **feed)
        assert "`single_writer: true`" in said and "safe for two writers" in said, said
        assert "Keep the jars" in said and "delta-spark_" not in said, said  # a short list
        said = refused(table.optimize)
        assert "`single_writer: true`" in said, said
        alone = lakeport.Table(to + "/d", single_writer=True)
        done = alone.optimize()
        lakeport.land([{{"id": 1}}], to, table="f", single_writer=True, **keys, **feed)
        copy = lakeport.TablesSource(tables={{"d": to + "/d"}})
        lakeport.land(copy, {str(tmp_path / "lake")!r}, table="copy")
        print(read, asked, done.files_removed, done.files_added)
        """,
        tmp_path,
    )
    assert found[-1] == "3 3 3 1"
    for name, rows in (("d", 3), ("f", 1)):
        there = DeltaTable(f"s3://{bucket}/lake/{name}", storage_options=minio.delta_options)
        assert there.to_pyarrow_table().num_rows == rows
    assert DeltaTable(tmp_path / "lake" / "copy").to_pyarrow_table().num_rows == 3


def test_a_session_of_ours_is_the_users_from_then_on(tmp_path: Path, minio: Minio) -> None:
    bucket = minio.create_bucket("lake-session")
    keys = {
        "aws_access_key_id": minio.access_key,
        "aws_secret_access_key": minio.secret_key,
        "aws_endpoint": minio.endpoint,
    }
    found = run_alone(
        f"""
        import os, subprocess, urllib.request
        to, table = "s3://{bucket}/lake", "s3://{bucket}/lake/users"
        spark = lakeport.spark(to=to, **{keys!r}, spark={{**COMMON, "spark.ui.enabled": "true"}})
        context = spark.sparkContext
        frame = spark.range(100).selectExpr("id AS user_id", "date'2026-01-01' AS event_date")
        for _ in range(2):
            frame.write.format("delta").mode("append").save(table)
        frame.write.parquet(to + "/files")
        name = f"delta.`{{table}}`"
        print(spark.sql(f"OPTIMIZE {{name}} ZORDER BY (user_id, event_date)").first().path)
        spark.sql(f"OPTIMIZE {{name}}")
        spark.sql(f"VACUUM {{name}} RETAIN 168 HOURS")
        print(*(row.operation for row in spark.sql(f"DESCRIBE HISTORY {{name}}").collect()))
        print(spark.sql(f"SELECT count(*) FROM {{name}} VERSION AS OF 1").first()[0])
        print(spark.read.parquet(to + "/files").count(), spark.read.parquet(
            "s3a://{bucket}/lake/files").count())

        # Loads use it, with its credentials, and other settings and jars replace it never.
        landed = lakeport.land(frame, to, table="landed")
        lakeport.land([{{"id": 1}}], {str(tmp_path / "lake")!r}, table="t",
                      spark={{"spark.sql.shuffle.partitions": "3"}})
        assert landed.engine.application == context.applicationId
        assert lakeport.spark(to={str(tmp_path)!r}) is spark
        print(spark.read.parquet(to + "/landed").count())

        context.addFile({str(Path(__file__))!r})  # sends the options of Hadoop to the page
        shown = [context.getConf().getAll(), spark.sql("SET -v").collect()]
        pages = "/environment/", f"/api/v1/applications/{{context.applicationId}}/environment"
        for page in pages:
            with urllib.request.urlopen(context.uiWebUrl + page) as answer:
                shown.append(answer.read().decode())
        assert "fs.s3a.bucket.{bucket}.endpoint" in shown[-1]
        lines = subprocess.run(["ps", "axww", "-o", "ppid=,args="], capture_output=True, text=True)
        ours = [line for line in lines.stdout.splitlines() if line.split()[0] == str(os.getpid())]
        assert any("spark" in line for line in ours)
        assert {minio.secret_key!r} not in str(shown) + str(ours)

        spark.stop()
        lakeport.land([{{"id": 1}}], {str(tmp_path / "lake")!r}, table="t")
        ps = ["ps", "ax", "-o", "ppid=,stat=,comm="]
        found = subprocess.run(ps, capture_output=True, text=True).stdout.splitlines()
        found = [line.split() for line in found]
        print(sum(parent == str(os.getpid()) and stat[0] != "Z" and name == "java"
                  for parent, stat, name, *_ in found))

        # That session of ours lacks Google's jar.
        away, keys = "gs://lake-session/lake", {{"google_endpoint": "http://127.0.0.1:9"}}
        builder = lakeport.configure_spark(SparkSession.builder, away, **keys)
        print(refused(builder.getOrCreate).replace("\\n", " "))
        print(refused(lakeport.spark, away, engine="threads").splitlines()[0])
        """,
        tmp_path,
    )
    path, history, old, counts, landed, machines, said, threads = found[-8:]
    assert path == f"s3://{bucket}/lake/users"
    assert history == "OPTIMIZE WRITE WRITE"
    assert (old, counts, landed, machines) == ("200", "100 100", "100", "1")
    assert said.startswith("ConfigError: the active Spark session lacks the class com.google.cloud")
    assert '.config("spark.jars", "https://repo1.maven.org/' in said
    assert "packages" not in said
    assert threads.startswith("ConfigError: a session for a lake takes Spark, and `engine` is")


def test_a_builder_gets_jars_settings_and_credentials(
    tmp_path: Path, minio: Minio, fake_gcs: FakeGcs, azurite: Azurite
) -> None:
    bucket = minio.create_bucket("lake-builder")
    fake_gcs.create_bucket("lake-builder")
    azurite.create_container("lake-builder")
    keys = {
        "aws_access_key_id": minio.access_key,
        "aws_secret_access_key": minio.secret_key,
        "aws_endpoint": minio.endpoint,
    }
    table = azurite.uri("lake-builder", "t")
    away = {
        "destination": "delta_lake_azure",
        "table_uri": table,
        "access_key": azurite.account_key,
        "azure_endpoint": azurite.endpoint,
    }
    found = run_alone(
        f"""
        import os, subprocess
        builder = start_builder(**{{"spark.redaction.regex": "(?i)mine|secret|key"}})
        same = lakeport.configure_spark(builder, to="s3://{bucket}/lake", **{keys!r})
        assert same is builder
        lakeport.configure_spark(builder, to={away!r})
        lakeport.configure_spark(
            builder, to="gs://lake-builder/lake", google_endpoint={fake_gcs.endpoint!r})
        assert {minio.secret_key!r} not in str(builder._options)
        spark = builder.getOrCreate()
        assert spark.conf.get("spark.redaction.regex") == "(?i)mine|secret|key"
        lines = subprocess.run(["ps", "axww", "-o", "ppid=,args="], capture_output=True, text=True)
        ours = [line for line in lines.stdout.splitlines() if line.split()[0] == str(os.getpid())]
        assert "lakeport-logstore.jar" in str(ours)
        for secret in ({minio.secret_key!r}, {azurite.account_key!r}):
            assert secret not in str(ours)
        frame = spark.range(100)
        for place in ("s3://{bucket}/lake/t", "gs://lake-builder/lake/t", {table!r}):
            frame.write.format("delta").save(place.replace("abfss:", "abfs:"))
        frame.write.parquet("gs://lake-builder/lake/files")
        to = {{"destination": "delta_lake_s3", "bucket": "{bucket}", "object_key_path": "lake"}}
        lakeport.land(frame, to, table="landed", **{keys!r})  # which stay the session's own
        lakeport.land(frame, to, table="landed")
        lakeport.land(frame, "gs://lake-builder/lake", table="landed")
        lakeport.land(frame, {{"destination": "delta_lake_azure", "table_uri": {table!r}}})
        print(
            spark.sql("SELECT count(*) FROM delta.`s3://{bucket}/lake/t`").first()[0],
            spark.sql("SELECT count(*) FROM delta.`s3://{bucket}/lake/landed`").first()[0],
            spark.sql("SELECT count(*) FROM delta.`gs://lake-builder/lake/t`").first()[0],
            spark.read.format("delta").load({table!r}.replace("abfss:", "abfs:")).count(),
            spark.read.parquet("gs://lake-builder/lake/files").count(),
            spark.read.parquet("gs://lake-builder/lake/landed").count(),
        )
        spark.sql("OPTIMIZE delta.`s3://{bucket}/lake/landed`")
        assert builder.getOrCreate() is spark
        """,
        tmp_path,
    )
    assert found[-1] == "100 200 100 200 100 100"


@pytest.mark.soak  # the builder's session has the same jars, settings and credentials
def test_a_session_for_google(tmp_path: Path, fake_gcs: FakeGcs) -> None:
    fake_gcs.create_bucket("lake-session")
    found = run_alone(
        f"""
        to, keys = "gs://lake-session/lake", {{"google_endpoint": {fake_gcs.endpoint!r}}}
        spark = lakeport.spark(to=to, spark=COMMON, **keys)
        spark.range(10).write.parquet(to + "/t")
        lakeport.land(spark.range(5), to, table="u")
        print(spark.read.parquet(to + "/t").count(), spark.read.parquet(to + "/u").count())
        """,
        tmp_path,
    )
    assert found[-1] == "10 5"


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Options of a session of the user's, as the configs read them."""
    known: dict[str, str] = {}

    def read(names: Any) -> dict[str, str]:
        return {name: known[name] for name in names if name in known}

    for cloud in ("s3", "azure", "gcs"):
        monkeypatch.setattr(f"lakeport.config.destinations.{cloud}.read_session_options", read)
    return known


def test_a_tables_session_reads_the_options_once(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeport.config.destinations import s3
    from lakeport.destinations import delta_session

    options |= {"fs.s3a.access.key": "A", "fs.s3a.secret.key": "B"}
    config = s3.DeltaLakeS3Config(bucket="lake", engine="spark")
    engine: Any = SimpleNamespace(name="spark", is_local=True, secrets=set())
    engine.delta_session = lambda *_, **__: None
    open_session = delta_session(config, config.storage(), engine, "t", probes=False)
    reads = Mock(wraps=s3.read_session_options)
    monkeypatch.setattr(s3, "read_session_options", reads)
    for _ in range(3):
        open_session()
    assert reads.call_count == 1
    assert engine.secrets == {"A", "B"}


def test_a_load_reads_the_options_once(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeport.config.destinations import s3
    from lakeport.loading.prepare import prepare

    options |= {"fs.s3a.access.key": "A", "fs.s3a.secret.key": "B"}
    config = s3.DeltaLakeS3Config(bucket="lake", engine="spark")
    reads = Mock(wraps=s3.read_session_options)
    monkeypatch.setattr(s3, "read_session_options", reads)
    monkeypatch.setattr("lakeport.loading.prepare.choose_engine", lambda *_: SimpleNamespace())
    monkeypatch.setattr("lakeport.destinations.check_engine", lambda *_: None)
    prepared = prepare(config, start_engine=False).for_full_refresh()
    assert prepared.storage.settings.from_session
    assert set(prepared.config.secrets()) == {"A", "B"}
    assert prepared.config.storage().settings.access_key_id == "A"
    assert reads.call_count == 1
    assert "aws_secret_access_key" not in prepared.config.model_fields_set
    assert "B" not in repr(prepared.config) and "'B'" not in str(prepared.config.model_dump())


def test_s3_options_become_keys(options: dict[str, str]) -> None:
    from lakeport.config.destinations.s3 import AmazonS3Config

    options |= {"fs.s3a.access.key": "A", "fs.s3a.secret.key": "B", "fs.s3a.session.token": "T"}
    options |= {"fs.s3a.endpoint": "s3.eu-west-1.amazonaws.com"}
    config = AmazonS3Config(bucket="lake", engine="spark")
    settings = config.storage().settings
    assert (settings.access_key_id, settings.session_token) == ("A", "T")
    assert (settings.endpoint, settings.region) == ("", "eu-west-1")
    assert config.storage().hadoop_settings() == {}  # the session's connector has them
    assert {"A", "B", "T"} <= set(config.secrets())
    assert "B" not in repr(config) and config.aws_secret_access_key is None

    own = "fs.s3a.bucket.lake."
    options |= {f"{own}access.key": "C", f"{own}secret.key": "D", f"{own}endpoint": "minio:9000"}
    options |= {f"{own}connection.ssl.enabled": "false", f"{own}path.style.access": "true"}
    settings = config.storage().settings
    assert (settings.access_key_id, settings.session_token) == ("C", "")
    assert (settings.endpoint, settings.addressing_style) == ("http://minio:9000", "path")
    elsewhere = AmazonS3Config(bucket="lake", aws_endpoint="https://r2.example", engine="spark")
    assert elsewhere.storage().settings.access_key_id == ""
    assert AmazonS3Config(bucket="more", aws_region="us-east-2").storage().settings.region == (
        "us-east-2"
    )
    given = AmazonS3Config(bucket="lake", aws_access_key_id="X", aws_secret_access_key="Y")
    assert (given.storage().settings.access_key_id, given.storage().settings.endpoint) == ("X", "")
    threads = AmazonS3Config(bucket="lake", engine="threads")
    assert threads.storage().settings.access_key_id == ""


def test_azure_options_become_keys(options: dict[str, str]) -> None:
    from lakeport.config.destinations.azure import DeltaLakeAzureConfig

    host = "acme.dfs.core.windows.net"
    config = DeltaLakeAzureConfig(table_uri=f"abfss://lake@{host}/t", engine="spark")
    options["fs.azure.account.key.other.dfs.core.windows.net"] = "b3RoZXI="
    assert config.storage().settings.access_key == ""
    options[f"fs.azure.account.key.{host}"] = "a2V5"
    assert config.storage().settings.access_key == "a2V5"
    options[f"fs.azure.account.auth.type.{host}"] = "SAS"
    assert config.storage().settings.access_key == ""
    options[f"fs.azure.sas.fixed.token.{host}"] = "?sv=1&sig=abc"
    assert config.storage().settings.sas_token == "sv=1&sig=abc"
    options["fs.azure.account.oauth2.client.id"] = "app"
    options["fs.azure.account.oauth2.client.secret"] = "word"
    login = "https://login.microsoftonline.com/directory/oauth2/token"
    options["fs.azure.account.oauth2.client.endpoint"] = login
    options[f"fs.azure.account.auth.type.{host}"] = "OAuth"
    settings = config.storage().settings
    assert (settings.tenant_id, settings.client_id) == ("directory", "app")
    assert settings.client_secret == "word" and "word" in config.secrets()
    del options["fs.azure.account.oauth2.client.secret"]
    provider = "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider"
    options["fs.azure.account.oauth.provider.type"] = provider
    assert config.storage().settings.managed_identity
    given = DeltaLakeAzureConfig(table_uri=f"abfss://lake@{host}/t", access_key="b3Vycw==")
    assert given.storage().settings.managed_identity is False


def test_gcs_options_become_keys(options: dict[str, str], tmp_path: Path) -> None:
    from lakeport.config.destinations.gcs import GoogleCloudStorageConfig

    config = GoogleCloudStorageConfig(bucket="lake", engine="spark")
    file = tmp_path / "key.json"
    file.write_text(json.dumps({"type": "service_account", "private_key": "p1"}))
    options["fs.gs.auth.service.account.json.keyfile"] = str(file)
    options["fs.gs.storage.root.url"] = "https://gcs.example/"
    settings = config.storage().settings
    assert json.loads(settings.credentials)["private_key"] == "p1"
    assert settings.endpoint == "https://gcs.example" and "p1" in config.secrets()
    del options["fs.gs.auth.service.account.json.keyfile"]
    options["fs.gs.auth.service.account.email"] = "a@b.example"
    options["fs.gs.auth.service.account.private.key"] = "p2"
    info = json.loads(config.storage().settings.credentials)
    assert (info["client_email"], info["private_key"]) == ("a@b.example", "p2")
