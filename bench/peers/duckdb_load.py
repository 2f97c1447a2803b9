"""DuckDB: read, COPY to Parquet, upload by boto3 where it is S3. `FILE FORM TARGET parquet`.

Its own extension for S3 is fetched from a server of its makers at the first use; boto3 is not.
"""

import os
import sys
import tempfile
from pathlib import Path

import duckdb
from arrow_events import frame

source, form, target = sys.argv[1:4]
ADDRESS = "STRUCT(city VARCHAR, zip VARCHAR, geo STRUCT(lat DOUBLE, lon DOUBLE))"
BASE = {
    "id": "BIGINT",
    "name": "VARCHAR",
    "email": "VARCHAR",
    "amount": "DOUBLE",
    "active": "BOOLEAN",
    "created_at": "TIMESTAMPTZ",
    "day": "DATE",
}
RECORD = {**BASE, "tags": "VARCHAR[]", "address": ADDRESS, "score": "BIGINT"}
FLAT = {
    **BASE,
    "score": "BIGINT",
    "city": "VARCHAR",
    "zip": "VARCHAR",
    "lat": "DOUBLE",
    "lon": "DOUBLE",
}
duckdb.sql("SET TimeZone = 'UTC'")
if form == "singer":
    fields = ", ".join(f'"{name}" {kind}' for name, kind in RECORD.items())
    rows = (
        f"SELECT record.* FROM read_json('{source}', format='newline_delimited', "
        f"columns={{'type': 'VARCHAR', 'record': 'STRUCT({fields})'}}) WHERE type = 'RECORD'"
    )
elif form == "frame":
    arrow = frame(source)
    rows = "SELECT * FROM arrow"
elif form == "csv declared":
    rows = f"SELECT * FROM read_csv('{source}', header=true, columns={FLAT})"
else:
    rows = f"SELECT * FROM read_csv('{source}')"
with tempfile.TemporaryDirectory() as folder:
    remote = target.startswith("s3://")
    place = Path(folder if remote else target)
    place.mkdir(parents=True, exist_ok=True)
    duckdb.sql(f"COPY ({rows}) TO '{place}/events.parquet' (FORMAT parquet)")
    if remote:
        import boto3

        bucket, _, prefix = target.removeprefix("s3://").partition("/")
        client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
        client.upload_file(f"{place}/events.parquet", bucket, f"{prefix}/events.parquet")
