"""dlt's own source of SQL databases into a filesystem. `URI TABLE TARGET FORMAT BACKEND`."""

import os
import sys
import tempfile
from pathlib import Path

import dlt
from dlt.sources.sql_database import sql_table

uri, table, target, format_, backend = sys.argv[1:6]
os.environ["DATA_WRITER__DISABLE_COMPRESSION"] = "true"
if format_ == "delta":
    os.environ["DATA_WRITER__ROW_GROUP_SIZE"] = "65536"
more = {"conn": uri, "return_type": "arrow_stream"} if backend == "connectorx" else {}
rows = sql_table(
    credentials=uri.replace("postgresql://", "postgresql+psycopg2://"),
    table=table,
    backend=backend,
    chunk_size=100_000,
    reflection_level="full_with_precision",
    **({"backend_kwargs": more} if more else {}),
)
if format_ == "delta":
    rows.apply_hints(table_format="delta")
with tempfile.TemporaryDirectory() as work:
    pipeline = dlt.pipeline(
        "bench",
        destination=dlt.destinations.filesystem(Path(target).as_uri()),
        dataset_name="bench",
        pipelines_dir=work,
    )
    pipeline.run(rows, loader_file_format="parquet", write_disposition="append")
