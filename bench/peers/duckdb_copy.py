"""DuckDB: read_json with declared columns, COPY to Parquet. `FILE TARGET_FOLDER`."""

import sys
from pathlib import Path

import duckdb

COLUMNS = (
    "STRUCT(id BIGINT, name VARCHAR, email VARCHAR, amount DOUBLE, active BOOLEAN, "
    'created_at TIMESTAMPTZ, "day" DATE, tags VARCHAR[], '
    "address STRUCT(city VARCHAR, zip VARCHAR, geo STRUCT(lat DOUBLE, lon DOUBLE)), score BIGINT)"
)
source, target = sys.argv[1], Path(sys.argv[2])
target.mkdir(parents=True, exist_ok=True)
duckdb.sql(
    f"COPY (SELECT record.* FROM read_json('{source}', format='newline_delimited', "
    f"columns={{'type': 'VARCHAR', 'record': '{COLUMNS}'}}) WHERE type = 'RECORD') "
    f"TO '{target}/events.parquet' (FORMAT parquet)"
)
