"""Every kind of source lands through a cluster whose machines share nothing with this one."""

from __future__ import annotations

import io
import json
import sys
import urllib.request
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport.engine.spark import workers
from lakeport.engine.spark.session import DriverSession
from lakeport.errors import ConfigError, MissingDependency
from tests.cluster.conftest import Bucket, singer
from tests.cluster.standalone import Standalone, bare_python, contents

HERE = "/proc/self/cwd"
"""This process's folder, by a name that means another folder in every other process."""


@pytest.fixture(autouse=True)
def only_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this process spools or reads from disk, no worker can."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEPORT_SPOOL_DIR", HERE)


def driver() -> DriverSession:
    found = DriverSession._current
    assert found is not None
    return found


def test_a_stream_lands_through_the_store(bucket: Bucket) -> None:
    states: list[bytes] = []
    stream = singer(30_000) + singer(10, stream="few")
    report = bucket.land(io.BytesIO(stream), on_state=states.append, maximum_batch_size_mb=1)
    assert report.rows == 30_010
    assert json.loads(states[-1]) == {"done": 10}
    assert sorted(bucket.rows("people")["id"].to_pylist()) == list(range(30_000))
    assert bucket.rows("few").num_rows == 10
    assert bucket.objects("spool/") == []
    # The same stream again into Delta: bad lines have their numbers from the spooled sidecars.
    broken = singer(5_000).replace(b'"id": 77,', b'"id": "no",') + b'{"type": "RECORD"}\n'
    keys = {"table": "again", "on_bad_record": "quarantine"}
    report = bucket.land(io.BytesIO(broken), "delta_lake_s3", **keys)
    assert report.rows == 4_999
    assert bucket.delta("again").to_pyarrow_table().num_rows == 4_999
    (aside,) = [key for key in bucket.objects("lake/_lakeport/quarantine/") if "people" in key]
    body = bucket.minio.client().get_object(Bucket=bucket.name, Key=aside)["Body"].read()
    assert b'"line":79' in body.replace(b" ", b"")


def test_without_a_spool_nothing_is_read(bucket: Bucket) -> None:
    for source in (io.BytesIO(singer(1)), pd.DataFrame({"id": [1]})):
        with pytest.raises(ConfigError, match="`spool_uri` is not set") as refusal:
            bucket.land(source, table="t", spool_uri=None)
        assert "s3://bucket/spool" in refusal.value.hint
    with pytest.raises(ConfigError, match="there is no such folder"):
        bucket.land(io.BytesIO(singer(1)), spool_uri="/no/such/mount")
    assert [key for key in bucket.objects() if "/_lakeport/" not in key] == []


def test_folders_land_from_the_store_and_from_here(bucket: Bucket, tmp_path: Path) -> None:
    texts = [f'id,name\n{n},a\n{n + 1},"b\nc"\n' for n in (1, 3)]
    (tmp_path / "in").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "in" / f"{number}.csv").write_text(text)
        key = f"in/{number}.csv"
        bucket.minio.client().put_object(Bucket=bucket.name, Key=key, Body=text.encode())
    bucket.land(f"s3://{bucket.name}/in/", table="there", spool_uri=f"s3://{bucket.name}/s")
    bucket.land(f"{HERE}/in", "delta_lake_s3", table="here")
    expected = [(1, "a"), (2, "b\nc"), (3, "a"), (4, "b\nc")]
    for rows in (bucket.rows("there"), bucket.delta("here").to_pyarrow_table()):
        found = [(row["id"], row["name"]) for row in rows.to_pylist()]
        assert sorted(found) == expected
    (tmp_path / "document.json").write_text('[{"id": 1}, {"id": 2}]')
    bucket.land(f"{HERE}/document.json", table="documents")
    assert bucket.rows("documents")["id"].to_pylist() == [1, 2]
    pq.write_table(bucket.rows("there").select(["id"]), tmp_path / "rows.parquet")
    bucket.land(f"{HERE}/rows.parquet", table="parquet")
    assert sorted(bucket.rows("parquet")["id"].to_pylist()) == [1, 2, 3, 4]
    assert bucket.objects("spool/") == []


def test_frames_land_and_uneven_work_is_said(bucket: Bucket) -> None:
    bucket.land(pd.DataFrame({"id": range(1000)}), "delta_lake_s3", table="pandas")
    assert sorted(bucket.delta("pandas").to_pyarrow_table()["id"].to_pylist()) == list(range(1000))
    from pyspark.sql import functions as f

    session = driver().spark
    text = f.sha2(f.col("id").cast("string"), 256)
    even = session.range(200_000, numPartitions=4).withColumn("text", text)
    report = bucket.land(
        even.withColumn("country", f.lit("xx")),
        "delta_lake_s3",
        table="even",
        partition_keys=["country"],
    )
    assert report.streams[0].warnings == (), "a value that all rows have is no uneven work"
    files = bucket.delta("even").file_uris()
    assert len(files) == 4
    assert all("country=xx" in uri for uri in files)
    uneven = even.where("id < 100").union(even.coalesce(1))
    report = bucket.land(uneven, table="uneven")
    (said,) = report.streams[0].warnings
    assert "of the bytes while 2 cores were there" in said
    assert bucket.rows("uneven").num_rows == 200_100


def test_credentials_of_this_machine_serve_the_workers(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", bucket.keys.pop("aws_access_key_id"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", bucket.keys.pop("aws_secret_access_key"))
    assert bucket.land(io.BytesIO(singer(100))).rows == 100
    for _ in range(2):
        assert bucket.land(io.BytesIO(singer(100)), "delta_lake_s3", table="delta").rows == 100
    assert bucket.delta("delta").to_pyarrow_table().num_rows == 200


def test_what_workers_lack_is_said_first(
    bucket: Bucket, cluster: Standalone, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.land(io.BytesIO(singer(1)), table="before")
    with pytest.raises(MissingDependency, match="lack the Python package no_such_sdk") as lack:
        workers.check_packages(driver(), ["no_such_sdk"])
    assert "spark.archives = env.tar.gz#environment" in lack.value.hint
    monkeypatch.setattr(driver().context, "pythonExec", str(cluster.python))
    with pytest.raises(MissingDependency, match="lack the Python package lakeport ") as lack:
        bucket.land(io.BytesIO(singer(1)), table="after")
    assert "--py-files lakeport.zip" in lack.value.hint
    monkeypatch.setattr(driver().context, "pythonExec", "/no/such/python")
    with pytest.raises(ConfigError, match="have no Python where they look for it"):
        bucket.land(io.BytesIO(singer(1)), table="after")
    assert bucket.files("after") == []


def test_workers_of_other_versions_are_refused_by_both_versions(
    bucket: Bucket, cluster: Standalone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.land(io.BytesIO(singer(1)), table="before")

    def refusal(line: str) -> str:
        """What a worker's Python leads to that does one thing first."""
        python = bare_python(tmp_path / f"other-{next(numbers)}")
        site = next((python.parents[1] / "lib").glob("*/site-packages"))
        (site / "lakeport").mkdir()
        (site / "lakeport" / "__init__.py").write_text('__version__ = "0.0.9"\n')
        (site / "first.pth").write_text(f"import sys; {line}\n")
        monkeypatch.setattr(driver().context, "pythonExec", str(python))
        with pytest.raises(ConfigError) as refused:
            bucket.land(io.BytesIO(singer(1)), table="after")
        assert "spark.archives = env.tar.gz#environment" in refused.value.hint
        return refused.value.message

    numbers = count()
    own = lakeport.__version__
    assert f"workers have lakeport 0.0.9, and this process has {own} (host " in refusal("")
    own = "{}.{}".format(*sys.version_info)
    other = "type('Version', (tuple,), {'major': 3, 'minor': 77})((3, 77, 0))"
    said = refusal(f"sys.version_info = {other}")
    assert said == f"Spark's workers run Python 3.77, and this process runs Python {own}"
    assert bucket.files("after") == []


def test_no_credential_shows_anywhere(bucket: Bucket, cluster: Standalone, events: Path) -> None:
    bucket.land(io.BytesIO(singer(2_000)), "delta_lake_s3")
    bucket.land(io.BytesIO(singer(2_000)), table="files")
    secret = bucket.minio.secret_key.encode()
    context: Any = driver().context
    application, ui = context.applicationId, context.uiWebUrl
    shown: dict[str, bytes] = {}
    for path in ("environment", "executors", "jobs", "stages"):
        with urllib.request.urlopen(f"{ui}/api/v1/applications/{application}/{path}") as answer:
            shown[path] = answer.read()
    with urllib.request.urlopen(f"{ui}/environment/") as answer:
        shown["page"] = answer.read()
    shown["master"] = json.dumps(cluster.state()).encode()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            shown[str(entry)] = entry.read_bytes()
        except OSError:
            continue  # it has ended
    for folder in (cluster.folder, events):
        shown |= {path: text for path, text in contents(folder).items() if path[-4:] != ".jar"}
    text = b"".join(shown.values())
    assert b"spark.speculation" in shown["environment"], "the pages were read"
    assert any(b"SparkListenerJobStart" in shown[n] for n in shown if n.startswith(str(events)))
    assert b"launch command" in text.lower(), "the workers' logs were read"
    assert [name for name, found in shown.items() if secret in found] == []


def test_a_singer_file_of_the_mounted_folder_is_read_where_it_lies(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "people.singer"
    file.write_bytes(singer(150_000))
    assert file.stat().st_size > 8 << 20, "runs that are worth it"

    def spooled(path: Path, *_: Any, **__: Any) -> None:
        raise AssertionError(path)

    monkeypatch.setattr("lakeport.sources.spool._append_to_file", spooled)
    report = bucket.land(str(file), spool_uri=tmp_path.as_uri())
    assert report.rows == 150_000
    assert sorted(bucket.rows("people")["id"].to_pylist()) == list(range(150_000))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.singer"]
