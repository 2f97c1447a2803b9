"""lakeport: a frame into Delta in a process that has landed before. `FILE FOLDER`.

Prints the seconds of the load as JSON, without those of the start.
"""

import json
import sys
import time

import pyarrow as pa

import lakeport

source, target = sys.argv[1:3]
frame = pa.ipc.open_file(pa.memory_map(source)).read_all()
lakeport.land(frame.slice(0, 100), target, table="before", file_type="delta")
begin = time.monotonic()
lakeport.land(frame, target, table="events", file_type="delta")
print(json.dumps({"load": time.monotonic() - begin}))
