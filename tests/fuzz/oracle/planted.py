"""Does what an input says."""

from __future__ import annotations

import os
import signal
import time

from tests.fuzz.case import Case, Changed


def check(case: Case) -> None:
    match case.data:
        case b"crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case b"hang":
            time.sleep(600)
        case b"busy":
            end = time.process_time() + 0.05
            while time.process_time() < end:
                pass
        case b"error":
            raise ValueError("row 17")
        case b"change":
            raise Changed("a value changed", 1, 2)
        case b"memory":
            bytearray(1 << 40)
