"""Delta tables on Azure, through the real ABFS connector on Azurite's Blob service."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError

import lakeport
from lakeport.errors import ConfigError, DestinationError, PermissionRefused
from lakeport.storage.azure.hadoop import hadoop_settings
from lakeport.storage.azure.settings import AzureSettings
from tests.emulators import Azurite


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with Azurite(tmp_path_factory.mktemp("azurite")) as server:
        server.create_container("lake")
        yield server


@pytest.fixture(autouse=True)
def with_spark(driver: Any) -> None:
    """One session for the module; `land` takes it up."""


def keys(azurite: Azurite, table: str, **more: Any) -> dict[str, Any]:
    return {
        "destination": "delta_lake_azure",
        "table_uri": azurite.uri("lake", f"silver/{table}"),
        **azurite.config,
        **more,
    }


def opened(azurite: Azurite, table: str, version: int | None = None) -> DeltaTable:
    options = {"account_name": azurite.account, "account_key": azurite.account_key}
    options |= {"endpoint": azurite.blob_endpoint, "allow_http": "true"}
    return DeltaTable(f"az://lake/silver/{table}", version=version, storage_options=options)


def ids(azurite: Azurite, table: str, version: int | None = None) -> list[int]:
    found = opened(azurite, table, version).to_pyarrow_table()
    return sorted(found.column("id").to_pylist())


def sizes(azurite: Azurite, start: str) -> dict[str, int]:
    blobs = azurite.client().get_container_client("lake").list_blobs(name_starts_with=start)
    return {blob.name: blob.size for blob in blobs}


def names(azurite: Azurite, start: str) -> list[str]:
    return list(sizes(azurite, start))


def parquet(azurite: Azurite, start: str) -> dict[str, int]:
    found = sizes(azurite, start)
    return {name: size for name, size in found.items() if name.endswith(".parquet")}


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": list(numbers), "day": [f"d {number % 3}" for number in numbers]})


def test_append_and_overwrite_are_one_commit_each(azurite: Azurite) -> None:
    config = keys(azurite, "t")
    lakeport.land(rows(1, 2), config, partition_keys=["day"])
    lakeport.land(rows(3), config, partition_keys=["day"])
    assert ids(azurite, "t") == [1, 2, 3]
    lakeport.land(rows(4), config, partition_keys=["day"], mode="overwrite")
    assert ids(azurite, "t") == [2, 3, 4]
    assert ids(azurite, "t", version=1) == [1, 2, 3]
    lakeport.land(rows(9), keys(azurite, "t_events"))
    assert ids(azurite, "t") == [2, 3, 4]


@pytest.mark.soak
def test_what_is_ours_lies_beside_the_table(azurite: Azurite) -> None:
    lakeport.land(rows(1), {**keys(azurite, "clean"), "table": "a label"})
    assert any(name.startswith("silver/_lakeport/reports/") for name in names(azurite, "silver/_"))
    assert not any("_lakeport" in name for name in names(azurite, "silver/clean/"))
    assert not names(azurite, "silver/a label")


@pytest.mark.soak
def test_partitions_that_end_with_a_dot_are_kept_in_order(azurite: Azurite) -> None:
    config = keys(azurite, "dots", partition_keys=["day"])
    table = lakeport.Table("dots", config)
    for number in (1, 2):
        lakeport.land(pa.table({"id": [number], "day": ["a b."]}), config)
    with pytest.raises(DestinationError, match="ends with a dot") as refused:
        table.optimize()
    name = refused.value.hint.split("`")[1]
    lakeport.land(pa.table({"id": [3], "day": ["a b."]}), config, table_properties={name: "true"})
    assert table.optimize().files_added == 1
    assert ids(azurite, "dots") == [1, 2, 3]
    assert set(opened(azurite, "dots").to_pyarrow_table()["day"].to_pylist()) == {"a b."}
    replaced = parquet(azurite, "silver/dots/day=")
    gone = table.vacuum(retain_hours=0, force=True)
    # The folder counts, too, when Delta could remove it, which is not so in each run.
    assert len(replaced) == 3 and gone.deleted in (3, 4)
    assert gone.bytes == sum(replaced.values())
    assert len(parquet(azurite, "silver/dots/")) == 1
    assert ids(azurite, "dots") == [1, 2, 3]
    assert table.restore(table.describe().version - 1).version == table.describe().version


@pytest.mark.soak
def test_a_repeated_run_adds_nothing_twice(azurite: Azurite) -> None:
    config = keys(azurite, "repeated", run_id="r1")
    lakeport.land(rows(1, 2), config)
    assert lakeport.land(rows(1, 2), config).rows == 0
    assert ids(azurite, "repeated") == [1, 2]


@pytest.mark.soak
def test_each_stream_needs_a_table_of_its_own(azurite: Azurite) -> None:
    lines: list[dict[str, Any]] = []
    for stream in ("users", "orders"):
        properties = {"id": {"type": "integer"}}
        schema = {"type": "object", "properties": properties}
        lines.append({"type": "SCHEMA", "stream": stream, "schema": schema, "key_properties": []})
        lines.append({"type": "RECORD", "stream": stream, "record": {"id": len(stream)}})
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    with pytest.raises(ConfigError, match="would both land in table 'one'"):
        lakeport.land(io.BytesIO(text), keys(azurite, "one"))
    lakeport.land(io.BytesIO(text), keys(azurite, "raw_{stream}"))
    assert (ids(azurite, "raw_users"), ids(azurite, "raw_orders")) == ([5], [6])


def test_a_sas_token_is_enough(azurite: Azurite) -> None:
    token = azurite.sas("lake")
    lakeport.land(rows(1), keys(azurite, "shared", access_key=None, sas_token=token))
    lakeport.land(rows(2), keys(azurite, "shared"))
    assert ids(azurite, "shared") == [1, 2]


def test_a_wrong_key_and_container_are_named(azurite: Azurite) -> None:
    wrong = "Y2FuYXJ5LWNhbmFyeS1jYW5hcnk="
    with pytest.raises(PermissionRefused) as caught:
        lakeport.land(rows(1), keys(azurite, "wrong", access_key=wrong))
    assert wrong not in str(caught.value)
    uri = azurite.uri("lagoon", "t")
    with pytest.raises(DestinationError, match="container"):
        lakeport.land(rows(1), keys(azurite, "x", table_uri=uri))
    lakeport.land(rows(1), keys(azurite, "right"))
    assert ids(azurite, "right") == [1]


def test_one_of_several_writers_wins_each_version(azurite: Azurite, driver: Any) -> None:
    """Delta's own log store is enough on Azure: it renames, which never overwrites, unlocked."""
    settings = AzureSettings(azurite.account, azurite.account_key, endpoint=azurite.endpoint)
    driver.set_hadoop_settings(hadoop_settings(settings))
    jvm, conf = driver.spark._jvm, driver.spark._jsc.hadoopConfiguration()
    root = f"abfs://lake@{azurite.account}.dfs.core.windows.net/race/_delta_log"
    make_path = jvm.org.apache.hadoop.fs.Path
    make_path(root).getFileSystem(conf).mkdirs(make_path(root))
    store = jvm.io.delta.storage.AzureLogStore(conf)
    together = threading.Barrier(3)

    def write(version: int, who: str) -> bool:
        actions = jvm.java.util.ArrayList()
        actions.add(who * 1000)
        together.wait()
        try:
            store.write(make_path(f"{root}/{version:020d}.json"), actions.iterator(), False, conf)
        except Py4JJavaError as error:
            assert "FileAlreadyExistsException" in str(error)
            return False
        return True

    blobs = azurite.client().get_container_client("lake")
    with ThreadPoolExecutor(3) as pool:
        for version in range(6):
            won = list(pool.map(write, [version] * 3, "abc"))
            assert won.count(True) == 1
            body = blobs.download_blob(f"race/_delta_log/{version:020d}.json").readall()
            assert body.decode() == "abc"[won.index(True)] * 1000 + "\n"
