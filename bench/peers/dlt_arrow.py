"""dlt yielding Arrow tables into a filesystem destination. `FILE BUCKET_URL [delta]`."""

import os
import sys
import tempfile

import dlt
from arrow_events import tables

source, bucket = sys.argv[1], sys.argv[2]
delta = {"table_format": "delta"} if len(sys.argv) > 3 else {}
if delta:
    # Bigger row groups are read back in slices, and slices of nested arrays make delta-rs abort.
    os.environ["DATA_WRITER__ROW_GROUP_SIZE"] = "65536"


@dlt.resource(name="events", write_disposition="append", **delta)
def events():  # type: ignore[no-untyped-def]  # dlt's decorator wants a plain generator
    yield from tables(source)


credentials = None
if bucket.startswith("s3://"):
    credentials = {
        "aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "endpoint_url": os.environ["BENCH_ENDPOINT"],
        "region_name": "us-east-1",
    }
with tempfile.TemporaryDirectory() as work:
    pipeline = dlt.pipeline(
        "bench",
        destination=dlt.destinations.filesystem(bucket, credentials=credentials),
        dataset_name="bench",
        pipelines_dir=work,
    )
    pipeline.run(events(), loader_file_format="parquet")
