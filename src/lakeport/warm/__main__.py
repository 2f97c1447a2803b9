"""`python -m lakeport.warm IDLE MEMORY STARTER`: a warm session, begun by `host.warm.start`.

Whoever starts it has it wait at first: while standard input is open, it loads nothing more.
"""

from __future__ import annotations

import select
import sys
from typing import Final

_WAIT_SECONDS: Final = 10.0  # a load of so long does not notice half a second of another core


def main(idle: str, memory: str, starter: str) -> int:
    """Be a warm session until it ends.

    Args:
        idle: seconds.
        memory: such as `2g`.
        starter: number of the process that is to have the cores to itself as long as it runs,
            unless it asks for Spark; 0 for none.
    """
    select.select([sys.stdin], [], [], _WAIT_SECONDS)
    from lakeport.warm.session import serve

    return serve(float(idle), memory, int(starter))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
