"""Clustering, properties and merging after runs: what delta-rs reads of it, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaProtocolError
from pyarrow.dataset import dataset

import lakeport
from lakeport.errors import ConfigError, SchemaConflict
from lakeport.html.table import Preview, render_table_page
from lakeport.lake.facts import read_table_facts
from lakeport.storage.local import LocalStorage

ROWS = pa.table({"id": [1, 2], "day": ["a", "b"]})


@pytest.fixture
def lake(tmp_path: Path, driver: Any) -> str:
    return str(tmp_path)


def notes(report: lakeport.LandingReport) -> str:
    return " ".join(text for stream in report.streams for text in stream.warnings)


def test_a_clustered_table_is_read_by_others_and_sorted_by_optimize(lake: str) -> None:
    told = notes(lakeport.land(ROWS, lake, table="t", cluster_by=["DAY", "id"]))
    assert "`clustering`: delta-rs, Trino can read it, but not write to it" in told
    assert notes(lakeport.land(ROWS, lake, table="t", cluster_by=["day", "id"])) == ""
    with pytest.raises(SchemaConflict, match=r"clustered by \(day, id\)"):
        lakeport.land(ROWS, lake, table="t", cluster_by=["id"])
    table = lakeport.Table(f"{lake}/t")
    assert table.describe().cluster_columns == ("day", "id")
    facts = read_table_facts(LocalStorage(lake), "t", "t")[0]
    assert facts.cluster_columns == ("day", "id")
    assert "clustered by" in render_table_page(facts, Preview())
    assert table.optimize().files_removed == 2
    added = DeltaTable(f"{lake}/t")
    assert added.to_pyarrow_table().num_rows == 4
    with pytest.raises(ConfigError, match="clustered by day, id"):
        table.optimize(zorder=["id"])


NAMES = ["p`.q", "né;w", "we`ird", "a.b", "a b"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One name with a backtick, beside which another one is sorted by; or all of them."""
    if "name" in metafunc.fixturenames:
        soak = metafunc.config.getoption("soak")
        metafunc.parametrize("name", NAMES if soak else NAMES[:1])


def test_columns_of_any_name_cluster_a_table_or_sort_it(lake: str, name: str) -> None:
    rows = pa.table({"né;w": [3, 4], name: [1, 2], "a": [{"b": 1, "c`": 2}] * 2})
    for key in ([name], [name], ()):
        lakeport.land(rows, lake, table="t", cluster_by=key)
    table = lakeport.Table(f"{lake}/t")
    assert table.describe().cluster_columns == (name,)
    with pytest.raises(SchemaConflict, match="the batch lacks"):
        lakeport.land(pa.table({"b": [1]}), lake, table="t", mode="overwrite")
    assert table.optimize().files_removed == 3
    # delta-rs reads the log of a table with mapped columns, and refuses its rows.
    assert dataset(DeltaTable(f"{lake}/t").file_uris()).count_rows() == 6

    lakeport.land(rows, lake, table="plain")
    lakeport.land(rows, lake, table="plain")
    plain = lakeport.Table(f"{lake}/plain")
    if "`" in name:
        with pytest.raises(ConfigError, match="no name with a backtick"):
            plain.optimize(zorder=[name])
    by = ["a.b", "né;w"] if "`" in name else [name]
    assert plain.optimize(zorder=by).files_removed == 2
    with pytest.raises(ConfigError, match="no name with a backtick"):
        plain.optimize(zorder=["a.c`"])


def test_properties_of_new_and_known_tables(lake: str) -> None:
    first = {"delta.logRetentionDuration": "interval 60 days", "delta.checkpointinterval": "5"}
    lakeport.land(ROWS, lake, table="t", table_properties=first, target_file_size_mb=64)
    plain = DeltaTable(f"{lake}/t")
    assert plain.to_pyarrow_table().num_rows == 2
    assert plain.metadata().configuration == {
        "delta.checkpointInterval": "5",
        "delta.checkpointPolicy": "classic",
        "delta.dataSkippingNumIndexedCols": "32",
        "delta.enableDeletionVectors": "false",
        "delta.logRetentionDuration": "interval 60 days",
        "delta.targetFileSize": str(64 << 20),
    }
    for wrong, nearest in (("delta.chekpointInterval", "checkpointInterval"), ("delta.x", "")):
        with pytest.raises(ConfigError, match="table_properties") as caught:
            lakeport.land(ROWS, lake, table="t", table_properties={wrong: "5"})
        assert nearest in caught.value.hint
    assert lakeport.Table(f"{lake}/t").describe().version == 0
    more = {"delta.checkpointInterval": "7"}
    assert notes(lakeport.land(ROWS, lake, table="t", table_properties=more)) == ""
    asked = {"delta.enableDeletionVectors": "true"}
    told = notes(lakeport.land(ROWS, lake, table="t", table_properties=asked))
    assert told == "the table now has `deletionVectors`: delta-rs can't read it."
    assert notes(lakeport.land(ROWS, lake, table="new", table_properties=asked)) == told
    facts = lakeport.Table(f"{lake}/t").describe()
    assert facts.properties["delta.checkpointInterval"] == "7"
    assert facts.not_readable_by == {"deletionVectors": "delta-rs"}
    with pytest.raises(DeltaProtocolError, match="deletionVectors"):
        DeltaTable(f"{lake}/t").to_pyarrow_table()


def test_small_files_of_touched_partitions_are_merged_after_a_run(lake: str) -> None:
    many = pa.table({"id": range(40), "day": ["it's \\ a"] * 20 + ["b"] * 20})
    for number in range(19):
        rows = pa.concat_tables([many.slice(number, 1), many.slice(20 + number, 1)])
        if number in {0, 10, 18}:  # the tenth writes a checkpoint
            lakeport.land(rows, lake, table="t", partition_keys=["day"], internal_columns=False)
        else:
            write_deltalake(f"{lake}/t", rows, mode="append")
    table = lakeport.Table(f"{lake}/t")
    lakeport.land(many.slice(20, 1), lake, table="u", auto_optimize=True)  # no pile: no commit
    assert lakeport.Table(f"{lake}/u").describe().version == 0
    plain = {"table": "t", "internal_columns": False}
    done = lakeport.land(many.slice(19, 1), lake, **plain, auto_optimize=True, run_id="last")
    assert done.warnings == ()
    entry = table.history(1)[0]
    assert (entry.operation, entry.files_removed, entry.files_added) == ("OPTIMIZE", 20, 1)
    assert DeltaTable(f"{lake}/t").to_pyarrow_table().num_rows == 39
    assert [row.files for row in table.compact_report().partitions] == [19, 1]
    assert table.undo("last").undone == (19,)  # beyond a checkpoint, and through the merge
    assert sorted(DeltaTable(f"{lake}/t").to_pyarrow_table()["id"].to_pylist()) == [
        *range(19),
        *range(20, 39),
    ]
    assert lakeport.land(many.slice(19, 1), lake, **plain, run_id="last").rows == 1
