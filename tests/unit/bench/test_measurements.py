"""The measurements' own checks find what they are there to find."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from bench import merge
from bench.growth import landed
from bench.measure import Took
from bench.rounds import figured


def test_a_merge_is_compared_row_by_row(tmp_path: Path) -> None:
    source, changes = merge.write(tmp_path, 500, 50)
    table = tmp_path / "orders"
    write_deltalake(table, pyarrow.dataset.dataset(source).to_table())
    assert merge.differences(table, source, changes) == "500 rows of 510, or other values"
    changed = pq.read_table(changes)
    columns = {name: f"source.{name}" for name in changed.column_names}
    merging = DeltaTable(table).merge(
        changed, "target.id = source.id", source_alias="source", target_alias="target"
    )
    merging.when_matched_update(columns).when_not_matched_insert(columns).execute()
    assert merge.differences(table, source, changes) == ""
    DeltaTable(table).update(updates={"quantity": "quantity + 1"}, predicate="id = 7")
    assert merge.differences(table, source, changes) == "510 rows of 510, or other values"


def test_the_rows_of_a_load_are_counted_over_its_partitions(tmp_path: Path) -> None:
    for part in ("part=1", "part=2"):
        folder = tmp_path / "events" / part
        folder.mkdir(parents=True)
        pq.write_table(merge.orders(merge.np.arange(5), 1), folder / "1.parquet")
    (tmp_path / "events" / "_delta_log").mkdir()
    pq.write_table(merge.orders(merge.np.arange(9), 1), tmp_path / "events/_delta_log/c.parquet")
    took = Took(1.0, 2.0, 3.0, "", "")
    assert landed(took, tmp_path, 10).values == ""
    found = landed(took, tmp_path, 11)
    assert (found.files, found.values) == (3, "10 rows of 11")
    assert landed(Took(1.0, 2.0, 3.0, "stopped", ""), tmp_path, 10).failure == "stopped"


def test_figures_are_the_last_line_that_was_printed() -> None:
    found = figured(Took(1.0, 2.0, 3.0, "", 'a warning\n{"load": 0.5}'))
    assert found.figures == {"load": 0.5}
    assert figured(Took(1.0, 2.0, 3.0, "exit code 1: no", "no")).failure == "exit code 1: no"
