"""Tables that get commits by their log's files and by delta-spark, in turn and at the same time."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakeport.config.load import load_target
from lakeport.delta_log import transactions
from lakeport.destinations import delta_session, open_storage
from lakeport.engine.spark.delta.transaction import delta_log
from lakeport.engine.spark.jvm.calls import java_class
from lakeport.engine.spark.session import DriverSession
from lakeport.writers.delta.commit import TableTransaction
from lakeport.writers.delta.writer import DeltaWriter
from lakeport.writers.naming import table_folder, table_name
from tests.spark.delta_support import engine, land, session, writer

Target = tuple[dict[str, Any], str, dict[str, str]]
"""A table's config, its place for delta-rs, and what that needs to reach it."""


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": [f"p{number % 2}" for number in ids]})


def ids(place: str, options: dict[str, str] | None = None) -> list[int]:
    found = DeltaTable(place, storage_options=options).to_pyarrow_table()
    return sorted(found["id"].to_pylist())


def alone(into: DeltaWriter) -> DeltaWriter:
    """The same table, written to by its log's files."""
    return replace(into, by_log=True)


def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The transactions from now on that may commit by the log's files."""
    found: list[Any] = []
    begin = TableTransaction.begin

    def told(*about: Any, by_log: bool) -> TableTransaction:
        made = begin(*about, by_log=by_log)
        found.extend([made] * by_log)
        return made

    monkeypatch.setattr(TableTransaction, "begin", told)
    return found


def test_delta_spark_goes_on_with_such_a_table(
    tmp_path: Path, driver: DriverSession, monkeypatch: pytest.MonkeyPatch, soak: bool
) -> None:
    made = begun(monkeypatch)
    for number in range(12):
        land(alone(writer(tmp_path)), rows(number), keys=["p"])
    assert len(made) == 12 and all(one._session is None for one in made)
    place, log = str(tmp_path / "t"), tmp_path / "t" / "_delta_log"
    for version in range(10):
        (log / f"{version:020d}.json").unlink()  # as their time comes; the checkpoint has it all
    spark = session()
    assert spark.read.format("delta").load(place).count() == 12
    assert land(writer(tmp_path), rows(12)).version == 12
    sql = [
        f"MERGE INTO delta.`{place}` t USING (SELECT 3L AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE",
        f"UPDATE delta.`{place}` SET p = p WHERE id = 4",
        f"OPTIMIZE delta.`{place}`",
    ]
    for command in sql if soak else sql[:1]:
        spark.sql(command)
    rest = [number for number in range(13) if number != 3]
    assert ids(place) == rest
    land(alone(writer(tmp_path)), rows(13, 14), mode="overwrite", keys=["p"])
    land(alone(writer(tmp_path)), rows(3))
    assert all(one._session is None for one in made)
    assert ids(place) == [3, 13, 14]
    assert spark.read.format("delta").load(place).count() == 3
    history = spark.sql(f"DESCRIBE HISTORY delta.`{place}`").collect()
    assert history[0]["operation"] == "WRITE" and history[0]["operationMetrics"]["numFiles"] == "1"
    spark.sql(f"RESTORE delta.`{place}` TO VERSION AS OF 12")
    assert ids(place) == list(range(13))


def test_checkpoints_keep_what_vacuum_has_to_know(tmp_path: Path, driver: DriverSession) -> None:
    place = tmp_path / "t"
    for number in range(11):
        land(alone(writer(tmp_path)), rows(number), mode="overwrite")
    old = {path.name for path in place.glob("*.parquet")}
    assert len(old) == 11
    session().sql(f"VACUUM delta.`{place}`")  # all of them were removed a moment ago
    assert {path.name for path in place.glob("*.parquet")} == old
    assert session().read.format("delta").option("versionAsOf", 3).load(str(place)).count() == 1


def test_delta_spark_knows_what_checkpoints_leave_out(
    tmp_path: Path, driver: DriverSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_KEPT", 3)
    mark = {"sequence": 0, "digest": "d"}
    for number in range(11):
        land(alone(writer(tmp_path)), rows(number), run_id=f"r{number}", **mark)
    place, log = str(tmp_path / "t"), tmp_path / "t" / "_delta_log"
    spark = session()
    snapshot = delta_log(spark, f"file:{place}").update(False, *2 * [none(spark)])
    assert snapshot.setTransactions().size() == 4  # three runs, and that there are others
    for number in (0, 10):
        again = land(writer(tmp_path), rows(number), run_id=f"r{number}", **mark)
        assert again.skipped
    for number in range(11, 22):  # delta-spark's own checkpoint takes these along
        land(writer(tmp_path), rows(number), run_id=f"r{number}", **mark)
    assert (log / f"{20:020d}.checkpoint.parquet").exists()
    assert land(alone(writer(tmp_path)), rows(0), run_id="r0", **mark).skipped
    assert land(alone(writer(tmp_path)), rows(12), run_id="r12", **mark).skipped
    assert ids(place) == list(range(22))


def none(spark: Any) -> Any:
    return java_class(spark._jvm, "scala.Option").apply(None)


def test_a_cleaned_log_is_read_by_all(
    tmp_path: Path, driver: DriverSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = begun(monkeypatch)
    log = tmp_path / "t" / "_delta_log"
    for number in range(31):
        land(alone(writer(tmp_path)), rows(number), keys=["p"])
        if number == 25:
            hint = log / "_last_checkpoint"
            hint.write_text(json.dumps({**json.loads(hint.read_text()), "tags": {}}))
            for version in range(26):
                os.utime(log / f"{version:020d}.json", (0, 0))
    assert all(one._session is None for one in made)
    assert sorted(int(path.stem) for path in log.glob("*.json")) == list(range(20, 31))
    place = str(tmp_path / "t")
    spark = session()
    assert ids(place) == list(range(31))
    assert spark.read.format("delta").load(place).count() == 31
    assert spark.read.format("delta").option("versionAsOf", 26).load(place).count() == 27
    assert spark.sql(f"DESCRIBE HISTORY delta.`{place}`").count() == 11


def test_a_table_that_is_no_longer_plain_is_delta_sparks(
    tmp_path: Path, driver: DriverSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = begun(monkeypatch)
    land(alone(writer(tmp_path)), rows(1))
    place = tmp_path / "t"
    session().sql(
        f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    land(alone(writer(tmp_path)), rows(2))
    assert [one._session is not None for one in made] == [False, True]
    assert session().read.format("delta").load(str(place)).count() == 2


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All places with `--soak`, else one store."""
    if "target" in metafunc.fixturenames:
        places = ["minio", "local", "azurite"]
        soak = metafunc.config.getoption("soak")
        metafunc.parametrize("target", places if soak else places[:1], indirect=True)


@pytest.fixture
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """A table in one of the places."""
    if request.param == "local":
        keys: dict[str, Any] = {"destination": "local", "path": str(tmp_path), "file_type": "delta"}
        return {**keys, "table": "t"}, str(tmp_path / "t"), {}
    server: Any = request.getfixturevalue(request.param)
    if request.param == "minio":
        bucket = server.create_bucket("writers-of-two-kinds")
        keys = {"destination": "delta_lake_s3", "bucket": bucket, "table": "t", **server.config}
        return keys, f"s3://{bucket}/t", server.delta_options
    container = server.create_container("writers-of-two-kinds")
    keys = {"destination": "delta_lake_azure", "table_uri": server.uri(container, "t")}
    return {**keys, **server.config}, f"az://{container}/t", server.delta_options


def test_writers_of_two_kinds_at_once(target: Target, driver: DriverSession, soak: bool) -> None:
    keys, place, options = target
    each = 20 if soak else 3
    config = load_target(keys)
    storage = open_storage(config)
    session = delta_session(config, storage, engine(), "")
    folder = table_folder(config.table_folder_name(table_name(config.table_pattern, "t")))
    by_spark = DeltaWriter(session, storage, folder, "t", config, run="race")
    land(by_spark, rows(0))

    def write(number: int) -> list[int]:
        into = by_spark if number % 2 else alone(by_spark)
        return [
            land(into, rows(100 * number + one), run_id=f"r{number}-{one}").version or 0
            for one in range(each)
        ]

    with ThreadPoolExecutor(4) as pool:
        versions = sorted(version for made in pool.map(write, range(1, 5)) for version in made)
    assert versions == list(range(1, 4 * each + 1))
    assert ids(place, options) == sorted(
        [0, *(100 * number + one for number in range(1, 5) for one in range(each))]
    )
