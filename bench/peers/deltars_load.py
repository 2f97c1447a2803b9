"""delta-rs: write_deltalake from an Arrow reader. `FILE FORM TARGET delta`."""

import sys

from arrow_events import reader
from deltalake import write_deltalake

source, form, target = sys.argv[1:4]
write_deltalake(target, reader(source, form))
