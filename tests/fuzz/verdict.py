"""What became of one input: nothing, or a finding with a signature that tells it from others."""

from __future__ import annotations

import re
import time
import traceback
from dataclasses import dataclass

from tests.fuzz.case import Case, Changed, check

LIMIT = 1.0
"""Seconds of CPU that one input may take."""


@dataclass(frozen=True)
class Finding:
    """What went wrong; findings of one cause have one signature."""

    signature: str
    detail: str


def judge(kind: str, case: Case) -> Finding | None:
    """Check one input."""
    begin = time.process_time()
    finding = _checked(kind, case)
    if finding is None and time.process_time() - begin > LIMIT:
        begin = time.process_time()  # again: the first time imports, or reads files for others
        _checked(kind, case)
        if (took := time.process_time() - begin) > LIMIT:
            return Finding(f"{kind}: slow", f"{took:.1f} s")
    return finding


def _checked(kind: str, case: Case) -> Finding | None:
    try:
        check(kind, case)
    except Changed as error:
        return Finding(f"{kind}: {error.args[0]}", "\n".join(map(str, error.args[1:])))
    except (Exception, RecursionError) as error:
        return Finding(f"{kind}: {_signature(error)}", traceback.format_exc(limit=-12))
    return None


def _signature(error: BaseException) -> str:
    places = [f for f in traceback.extract_tb(error.__traceback__) if "/lakeport/" in f.filename]
    place = f" in {places[-1].filename.rpartition('/')[2]}:{places[-1].name}" if places else ""
    what = re.sub(r"\d+", "N", str(error).partition("\n")[0])[:60]
    return f"{type(error).__name__}{place}: {what}"
