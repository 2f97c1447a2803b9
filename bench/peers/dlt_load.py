"""dlt into a filesystem destination, by rows or by Arrow. `FILE FORM TARGET FORMAT rows|arrow`."""

import csv
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dlt
from arrow_events import frame, tables

source, form, target, format_, way = sys.argv[1:6]
HINTS = {
    "id": {"data_type": "bigint"},
    "amount": {"data_type": "double"},
    "active": {"data_type": "bool"},
    "created_at": {"data_type": "timestamp"},
    "day": {"data_type": "date"},
    "score": {"data_type": "bigint"},
}
FLAT_HINTS = {**HINTS, "lat": {"data_type": "double"}, "lon": {"data_type": "double"}}


def rows() -> Iterator[Any]:
    """The records as dicts."""
    if form == "singer":
        with open(source, encoding="utf-8") as lines:
            for line in lines:
                message = json.loads(line)
                if message["type"] == "RECORD":
                    yield message["record"]
    elif form == "frame":
        for batch in frame(source).to_batches():
            yield batch.to_pylist()
    else:
        with open(source, encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                yield {name: value or None for name, value in row.items()}


options: dict[str, Any] = {}
if format_ == "delta":
    options["table_format"] = "delta"
    # Bigger row groups are read back in slices, and slices of nested arrays make delta-rs abort.
    os.environ["DATA_WRITER__ROW_GROUP_SIZE"] = "65536"
if way == "rows" and form != "csv":
    options["columns"] = FLAT_HINTS if form == "csv declared" else HINTS


@dlt.resource(name="events", write_disposition="append", **options)
def events() -> Iterator[Any]:
    """What dlt takes: dicts, or Arrow tables."""
    yield from rows() if way == "rows" else tables(source, form)


credentials = None
if target.startswith("s3://"):
    credentials = {
        "aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "endpoint_url": os.environ["AWS_ENDPOINT_URL"],
        "region_name": os.environ["AWS_REGION"],
    }
else:
    target = Path(target).as_uri()
with tempfile.TemporaryDirectory() as work:
    pipeline = dlt.pipeline(
        "bench",
        destination=dlt.destinations.filesystem(target, credentials=credentials),
        dataset_name="bench",
        pipelines_dir=work,
    )
    pipeline.run(events(), loader_file_format="parquet")
