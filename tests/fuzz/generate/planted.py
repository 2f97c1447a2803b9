"""Inputs that each have a defect of their own, to see that the runner finds it."""

from __future__ import annotations

import random

from tests.fuzz.case import Case

DEFECTS = ("crash", "hang", "error", "change", "memory")


def case(rng: random.Random) -> Case:
    return Case(rng.choice([*DEFECTS, "", ""]).encode())
