from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from lakeport.storage.local.store import LocalStorage
from lakeport.writers.delta.log.snapshot import STATE_COLUMNS, LogFiles, replay


def test_the_state_is_told_by_a_checkpoint_and_the_commits_after_it(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    write_deltalake(place, pa.table({"k": [1, 2, 3], "v": [1, 1, 1]}), partition_by=["k"])
    DeltaTable(place).create_checkpoint()
    more = pa.table({"k": [1], "v": [2], "w": ["new"]})
    write_deltalake(place, more, mode="append", schema_mode="merge")
    storage = LocalStorage(str(tmp_path))
    log = LogFiles.of(storage, "t")
    assert (log.newest, list(log.checkpoints)) == (1, [0])
    for version, names in ((0, ["k", "v"]), (1, ["k", "v", "w"])):
        whole = replay(storage, log, version)
        part = replay(storage, log, version, STATE_COLUMNS)
        assert whole is not None and part is not None
        assert part.state == whole.state
        assert sorted(part.state.schema.names) == names  # delta-rs moves partition columns
        assert len(whole.files) == 3 + version


def test_a_checkpoint_that_names_sidecars_does_not_tell_the_files(tmp_path: Path) -> None:
    place = tmp_path / "t"
    write_deltalake(place, pa.table({"k": [1]}))
    DeltaTable(place).create_checkpoint()
    (path,) = (place / "_delta_log").glob("*.checkpoint.parquet")
    whole = pq.read_table(path)
    whole = whole.drop_columns([name for name in ["sidecar"] if name in whole.column_names])
    type_ = pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64())])
    for sidecar, known in (({"path": "s.parquet", "sizeInBytes": 1}, False), (None, True)):
        column = pa.array([sidecar, *[None] * (len(whole) - 1)], type_)
        pq.write_table(whole.append_column("sidecar", column), path)
        storage = LocalStorage(str(tmp_path))
        assert (replay(storage, LogFiles.of(storage, "t"), 0) is not None) == known
