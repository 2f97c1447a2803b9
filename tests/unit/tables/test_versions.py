"""Rules about tables that need no Spark: what is small, what a run did, where a table is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport.config.destinations.delta_lake_s3 import DeltaLakeS3Config
from lakeport.config.load import load_target
from lakeport.errors import CommitConflict, ConfigError, SchemaConflict, SourceError
from lakeport.model import Mode
from lakeport.storage.local.store import LocalStorage
from lakeport.tables.compaction import report
from lakeport.tables.location import locate
from lakeport.tables.maintenance import hours, sort_columns
from lakeport.tables.undo import find_run
from lakeport.writers.delta.compaction import (
    MANY_SMALL_FILES,
    SMALL_FILE_BYTES,
    condition,
    crowded,
    groups,
    packed,
)
from lakeport.writers.delta.features import feature_notes, lacking_readers
from lakeport.writers.delta.log.actions import clustering_action
from lakeport.writers.delta.log.commits import Commit, CommitLog, Mark
from lakeport.writers.delta.log.snapshot import Contents
from lakeport.writers.delta.plan import DEFAULT_PROPERTIES, TableRequest, plan_table
from lakeport.writers.delta.schema import grow_schema
from lakeport.writers.delta.state import TableState

SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("p", pa.string())])


def contents(
    files: list[tuple[dict[str, str | None], int]], keys: tuple[str, ...] = ("at", "p"), **more: Any
) -> Contents:
    metadata = {
        "schemaString": json.dumps(grow_schema(None, SCHEMA)),
        "partitionColumns": list(keys),
        "configuration": more.pop("properties", {}),
    }
    state = TableState(7, metadata, {"minReaderVersion": 1, "minWriterVersion": 2})
    added = [{"path": f"f{n}", "partitionValues": v, "size": s} for n, (v, s) in enumerate(files)]
    return Contents(state, tuple(added), **more)


def commit(number: int, run: str = "", operation: str = "WRITE", **parameters: Any) -> Commit:
    info: dict[str, Any] = {"operation": operation, "operationParameters": parameters}
    info["engineInfo"] = "delta-rs:1"
    if run:
        info["userMetadata"] = Mark(run, "s", 0, "", run, "c").text()
    return Commit(number, info, 1, 0, 1, 1, {})


def newest_first(*commits: Commit) -> list[Commit]:
    return sorted(commits, key=lambda commit: -commit.version)


def test_a_run_is_found_when_nothing_else_changed_the_table() -> None:
    kept = [commit(2, "", "OPTIMIZE"), commit(4, "", "VACUUM END")]
    log = newest_first(commit(0, "a"), commit(1, "b"), *kept, commit(3, "b"))
    assert find_run(log, "b", "t") == (1, 3)
    with pytest.raises(CommitConflict, match=r"version 3 \(WRITE by run b\), version 1"):
        find_run(log, "a", "t")
    foreign = newest_first(*log, commit(5, "", "DELETE"))
    with pytest.raises(CommitConflict, match=r"version 5 \(DELETE by delta-rs:1\)"):
        find_run(foreign, "b", "t")
    with pytest.raises(SourceError, match="no commit of a run 'x'") as caught:
        find_run(log, "x", "t")
    assert "b, a" in caught.value.hint


def test_a_version_that_was_brought_back_stands_for_itself() -> None:
    log = [commit(0, "a"), commit(1, "b"), commit(2, "c"), commit(3, "", "RESTORE", version=1)]
    assert find_run(newest_first(*log), "b", "t") == (1,)  # c is void
    with pytest.raises(SourceError, match="undone already, by version 3"):
        find_run(newest_first(*log), "c", "t")
    again = [*log, commit(4, "c")]
    assert find_run(newest_first(*again), "c", "t") == (4,)
    untold = [commit(0, "a"), commit(1, "b"), commit(2, "", "RESTORE", timestamp="2024-01-01")]
    with pytest.raises(CommitConflict, match="RESTORE"):
        find_run(newest_first(*untold), "b", "t")


def test_how_far_a_run_had_come_at_a_version_is_not_what_a_later_checkpoint_says(
    tmp_path: Path,
) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    for version, count in enumerate((0, 4, 5)):
        action = {"txn": {"appId": "lakeport:r:s", "version": count}}
        (log / f"{version:020d}.json").write_text(json.dumps(action if version else {"x": {}}))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 2}))
    commits = CommitLog(LocalStorage(str(tmp_path)), "")
    assert commits.last_transaction(1, "lakeport:r:s") == 4
    assert commits.last_transaction(0, "lakeport:r:s") == -1


def test_small_files_are_packed_as_delta_does() -> None:
    assert packed([200, 90, 5, 5, 60], target=100) == [(5, 5, 60)]
    assert packed([50, 50, 50], target=100) == [(50, 50)]
    assert packed([99], target=100) == []
    small, large = SMALL_FILE_BYTES - 1, SMALL_FILE_BYTES * 8
    one = {"at": "2024-05-01T10:30:00.000000Z", "p": "x"}
    same = {"at": "2024-05-01 10:30:00", "p": "x"}  # as Spark spells it
    found = contents([(one, small), (same, small), (one, large), ({"at": None, "p": ""}, small)])
    assert sorted(len(group.sizes) for group in groups(found)) == [1, 3]
    told = report(found)
    assert (told.would_remove, told.would_add, told.small_files) == (2, 1, 3)
    assert [row.small_files for row in told.partitions] == [2, 1]
    halves = contents([({}, small)] * 3, keys=(), properties={"delta.targetFileSize": str(small)})
    assert report(halves).would_remove == 0


def test_only_touched_partitions_with_a_pile_are_merged() -> None:
    piled = [({"at": None, "p": "x"}, 10)] * MANY_SMALL_FILES
    other = [({"at": None, "p": "y"}, 10)] * MANY_SMALL_FILES
    few = [({"at": None, "p": "z"}, 10)] * (MANY_SMALL_FILES - 1)
    found = contents([*piled, *other, *few])
    touched = [{"at": None, "p": "x"}, {"at": "", "p": "z"}]
    assert [group.values["p"] for group in crowded(found, touched)] == ["x"]
    assert crowded(found, []) == []


def test_a_condition_holds_values_and_nothing_else() -> None:
    evil = "x') OR 1=1 --`\\"
    stamp = "2024-05-01T10:30:00.000000Z"
    text = condition(groups(contents([({"at": stamp, "p": evil}, 1)])), SCHEMA)
    assert evil not in text
    assert f"CAST(CAST(X'{stamp.encode().hex()}' AS STRING) AS timestamp)" in text
    assert f"`p` <=> CAST(X'{evil.encode().hex()}' AS STRING)" in text


def test_sort_columns_are_the_tables_own() -> None:
    assert sort_columns(contents([]), ["ID"]) == ["`id`"]
    with pytest.raises(ConfigError, match="no column 'idd'; did you mean 'id'"):
        sort_columns(contents([]), ["idd"])
    with pytest.raises(ConfigError, match="partition column"):
        sort_columns(contents([]), ["p"])
    action = json.loads(clustering_action([["id"]]))["domainMetadata"]
    clustered = contents([], keys=(), domains={action["domain"]: action["configuration"]})
    assert clustered.cluster_columns == ("id",)
    assert report(clustered).note
    with pytest.raises(ConfigError, match="clustered by id"):
        sort_columns(clustered, ["p"])
    for text in ("soon", "1.5h", "-1h", ""):
        with pytest.raises(ConfigError, match="no retention"):
            hours(text)


def test_a_table_is_found_by_uri_or_by_name(tmp_path: Path) -> None:
    keys = {"bucket": "lake", "object_key_path": "raw", "aws_region": "eu-west-1"}
    for to in ({"destination": "amazon_s3", **keys}, DeltaLakeS3Config(**keys)):
        place = locate("users", to)
        assert place.uri == "s3://lake/raw/users"
        assert place.config.destination == "delta_lake_s3"
        assert getattr(place.config, "aws_region", "") == "eu-west-1"
    assert locate("s3a://other/a/b/users", DeltaLakeS3Config(**keys)).uri == "s3://other/a/b/users"
    account = "abfss://lake@acme.dfs.core.windows.net"
    azure = {"destination": "delta_lake_azure", "table_uri": f"{account}/silver/{{stream}}"}
    place = locate("users", {**azure, "access_key": "a2V5"})
    assert (place.uri, place.folder) == (f"{account}/silver/users", "users")
    assert locate("users", str(tmp_path)).uri == str(tmp_path / "users")
    assert locate(tmp_path / "x y").uri == str(tmp_path / "x y")
    for wrong in ("", "ftp://x/y"):
        with pytest.raises(ConfigError):
            locate(wrong)
    with pytest.raises(ConfigError, match="not in a store of the kind"):
        locate("gs://lake/t", DeltaLakeS3Config(**keys))
    with pytest.raises(ConfigError, match=r"has the part '\.\.'"):
        locate("../users", str(tmp_path))


def test_clustering_and_properties_are_checked_before_anything_is_written() -> None:
    asked = {"delta.checkpointInterval": "50"}
    plan = plan_table(None, SCHEMA, TableRequest(cluster_by=("ID",), properties=asked))
    assert plan.cluster_by == ("id",)
    assert plan.properties == {
        **DEFAULT_PROPERTIES,
        "delta.checkpointInterval": "50",
        "delta.feature.clustering": "supported",
    }
    with pytest.raises(ConfigError, match="no column 'x' to cluster by"):
        plan_table(None, SCHEMA, TableRequest(cluster_by=("x",)))
    with pytest.raises(ConfigError, match="can't be clustered"):
        plan_table(None, SCHEMA, TableRequest(cluster_by=("id",), partition_keys=("p",)))
    with pytest.raises(ConfigError, match="by which no table can be clustered"):
        plan_table(None, pa.schema([("a", pa.list_(pa.int64()))]), TableRequest(cluster_by=("a",)))
    wide = pa.schema([(f"c{n}", pa.int64()) for n in range(40)])
    with pytest.raises(ConfigError, match="first 32"):
        plan_table(None, wide, TableRequest(cluster_by=("c35",)))

    known = contents([], keys=()).state
    with pytest.raises(SchemaConflict, match=r"not clustered, and `cluster_by` names \(id\)"):
        plan_table(known, SCHEMA, TableRequest(cluster_by=("id",)))
    assert not plan_table(known, SCHEMA).metadata_changes
    changed = plan_table(known, SCHEMA, TableRequest(properties={"delta.appendOnly": "true"}))
    assert changed.metadata_changes
    assert changed.properties == {"delta.appendOnly": "true"}
    clustered = TableState(
        3,
        {**known.metadata, "configuration": {}},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["clustering"]},
        ("id",),
    )
    properties = {"delta.feature.clustering": "supported", "delta.minWriterVersion": "7"}
    same = plan_table(clustered, SCHEMA, TableRequest(cluster_by=("id",), properties=properties))
    assert (same.metadata_changes, same.cluster_by) == (False, ())
    with pytest.raises(SchemaConflict, match="lacks 'id', by which the table is clustered"):
        plan_table(clustered, SCHEMA.remove(0), TableRequest(mode=Mode.OVERWRITE))
    with pytest.raises(ConfigError, match="columnMapping"):
        plan_table(known, SCHEMA, TableRequest(properties={"delta.columnMapping.mode": "name"}))


def test_keys_that_exclude_each_other() -> None:
    for keys, what in (
        ({"cluster_by": "a", "partition_keys": "b"}, "exclude each other"),
        ({"cluster_by": "a", "file_type": "parquet"}, "`cluster_by` needs"),
        ({"auto_optimize": True, "file_type": "csv"}, "`auto_optimize` needs"),
        ({"cluster_by": ["a", "b", "c", "d", "e"]}, "cluster_by"),
    ):
        with pytest.raises(ConfigError, match=what):
            load_target("/lake", keys)
    assert load_target("/lake", {"cluster_by": "a,b"}).cluster_by == ("a", "b")


def test_features_are_told_when_they_are_new() -> None:
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors", "someday"],
        "writerFeatures": ["deletionVectors", "clustering", "someday"],
    }
    assert lacking_readers(protocol)["someday"] == ("most others",)
    assert len(feature_notes((), protocol)) == 3
    assert feature_notes(["deletionVectors", "clustering", "someday"], protocol) == ()
    assert feature_notes((), {}) == ()
