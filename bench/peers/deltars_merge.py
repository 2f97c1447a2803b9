"""delta-rs: MERGE of a Parquet file's rows by `id`. `CHANGES TABLE_FOLDER`."""

import sys

import pyarrow.parquet as pq
from deltalake import DeltaTable

changes = pq.read_table(sys.argv[1])
merge = DeltaTable(sys.argv[2]).merge(
    changes, "target.id = source.id", source_alias="source", target_alias="target"
)
columns = {name: f"source.{name}" for name in changes.column_names}
merge.when_matched_update(columns).when_not_matched_insert(columns).execute()
