"""delta-rs: a frame into Delta, without the seconds of the imports. `FILE FOLDER`.

Prints the seconds of the load as JSON.
"""

import json
import sys
import time

from arrow_events import frame
from deltalake import write_deltalake

source, target = sys.argv[1:3]
rows = frame(source)
write_deltalake(f"{target}/before", rows.slice(0, 100))
begin = time.monotonic()
write_deltalake(f"{target}/events", rows)
print(json.dumps({"load": time.monotonic() - begin}))
