"""Polars: its streaming engine from a scan to a sink. `FILE FORM TARGET parquet|delta`."""

import os
import sys
from pathlib import Path
from typing import Any

import polars as pl

source, form, target, format_ = sys.argv[1:5]
UTC = pl.Datetime("us", "UTC")
GEO = pl.Struct({"lat": pl.Float64, "lon": pl.Float64})
BASE: dict[str, Any] = {
    "id": pl.Int64,
    "name": pl.String,
    "email": pl.String,
    "amount": pl.Float64,
    "active": pl.Boolean,
}
RECORD = {
    **BASE,
    "created_at": pl.String,
    "day": pl.String,
    "tags": pl.List(pl.String),
    "address": pl.Struct({"city": pl.String, "zip": pl.String, "geo": GEO}),
    "score": pl.Int64,
}
FLAT = {
    **BASE,
    "created_at": pl.String,
    "day": pl.Date,
    "score": pl.Int64,
    "city": pl.String,
    "zip": pl.String,
    "lat": pl.Float64,
    "lon": pl.Float64,
}
AT = pl.col("created_at").str.to_datetime(time_unit="us", time_zone="UTC")
if form == "singer":
    lines = pl.scan_ndjson(source, schema={"type": pl.String, "record": pl.Struct(RECORD)})
    rows = lines.filter(pl.col("type") == "RECORD").select("record").unnest("record")
    rows = rows.with_columns(AT, pl.col("day").str.to_date())
elif form == "frame":
    rows = pl.scan_ipc(source)
elif form == "csv declared":
    rows = pl.scan_csv(source, schema=FLAT).with_columns(AT)
else:
    rows = pl.scan_csv(source, try_parse_dates=True)
options = None
if target.startswith("s3://"):
    options = {
        "aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "aws_endpoint_url": os.environ["AWS_ENDPOINT_URL"],
        "aws_region": os.environ["AWS_REGION"],
        "aws_allow_http": "true",
    }
else:
    Path(target).mkdir(parents=True, exist_ok=True)
if format_ == "delta":
    rows.sink_delta(target, storage_options=options)
else:
    rows.sink_parquet(f"{target}/events.parquet", storage_options=options)
