"""A share of the soak: requests of loads fail, on every store, and nothing is lost."""

from __future__ import annotations

import random

import pytest

from tests.faults.requests.faults import KILLS
from tests.faults.requests.scenario import Scenario

SEED = 11
SHARE = {
    "local_delta:append:run-id": 14,
    "local:create:run-id": 12,
    "s3:create:no-run-id": 3,
    "s3:create:run-id": 3,
    "delta_s3:append:run-id": 4,
}
"""How many cases of which scenarios are tried; the others are for the soak."""
SLOW = {*KILLS, "hanging"}


@pytest.mark.timeout(1800)  # loads by the dozen, on a machine that may be busy
@pytest.mark.parametrize("name", SHARE)
def test_nothing_is_lost(found: dict[str, Scenario], name: str) -> None:
    """The cases are drawn from a recording, so a request that is new is among them some day."""
    scenario = found[name]
    cases = sorted((case for case in scenario.cases() if case.fault not in SLOW), key=str)
    broken = []
    for case in random.Random(f"{SEED} {name}").sample(cases, SHARE[name]):
        result = scenario.run(case)
        if result.wrong:
            broken.append(
                f"python -m tests.faults.requests --again --only {str(case)!r}: "
                f"{'; '.join(result.wrong)}; it said: {result.words}"
            )
    assert not broken, "\n".join(broken)
