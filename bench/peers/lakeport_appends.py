"""lakeport: small appends to one Delta table in one process. `FILE FOLDER TIMES`.

The file is an Arrow file; its first rows are what is appended, a hundred each time. Prints, as
JSON, the seconds of the first append, the median of all, and medians of twenty around the tenth and
at the end.
"""

import json
import statistics
import sys
import time

import pyarrow as pa

import lakeport

source, target, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
rows = pa.ipc.open_file(pa.memory_map(source)).read_all()
seconds = []
for number in range(times):
    part = rows.slice(number * 100 % (rows.num_rows - 99), 100)
    begin = time.monotonic()
    lakeport.land(part, target, table="events", file_type="delta")
    seconds.append(time.monotonic() - begin)
figures = {
    "first": seconds[0],
    "median": statistics.median(seconds),
    "tenth": statistics.median(seconds[2:22]),
    "last": statistics.median(seconds[-20:]),
    "slowest": max(seconds[1:]),
}
print(json.dumps(figures))
