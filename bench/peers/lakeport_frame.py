"""lakeport: a frame that the process has in hand. `FILE TARGET FORMAT`."""

import sys

import pyarrow as pa

import lakeport

source, target, format_ = sys.argv[1:4]
frame = pa.ipc.open_file(pa.memory_map(source)).read_all()
lakeport.land(frame, target, table="events", file_type=format_)
