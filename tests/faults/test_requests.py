"""A share of the soak: requests of loads fail, on every store, and nothing is lost."""

from __future__ import annotations

import hashlib

import pytest

from tests.faults.requests.case import Case
from tests.faults.requests.faults import KILLS
from tests.faults.requests.scenario import Scenario

SEED = 11
SHARE = {
    "delta_azure:append:run-id": 3,
    "delta_azure:merge:no-run-id": 2,
    "delta_azure:overwrite:no-run-id": 1,
    "delta_azure:undo:no-run-id": 1,
    "delta_s3:append:no-run-id": 1,
    "delta_s3:append:run-id": 2,
    "delta_s3:merge:run-id": 2,
    "delta_s3:stream:no-run-id": 2,
    "s3:create:no-run-id": 2,
    "s3:create:run-id": 3,
    "gcs:create:run-id": 3,
    "local_delta:append:run-id": 4,
    "local_delta:partition-overwrite:run-id": 1,
    "local:create:run-id": 4,
}
"""How many cases of which scenarios are tried; the others are for the soak."""
SLOW = {*KILLS, "hanging"}
NAMES = [
    pytest.param(name, marks=pytest.mark.spark)
    if name.split(":")[1] in ("stream", "undo")
    else name
    for name in SHARE
]


def drawn(case: Case) -> bytes:
    """Where a case stands in the draw, whatever others there are."""
    return hashlib.sha256(f"{SEED} {case}".encode()).digest()


@pytest.mark.timeout(1800)  # loads by the dozen, on a machine that may be busy
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost(found: dict[str, Scenario], name: str) -> None:
    """The cases are drawn from a recording: by their names, as no two recordings are the same."""
    scenario = found[name]
    cases = sorted((case for case in scenario.cases() if case.fault not in SLOW), key=drawn)
    broken = []
    for case in cases[: SHARE[name]]:
        result = scenario.run(case)
        if result.wrong:
            broken.append(
                f"python -m tests.faults.requests --again --only {str(case)!r}: "
                f"{'; '.join(result.wrong)}; it said: {result.words}"
            )
    assert not broken, "\n".join(broken)
