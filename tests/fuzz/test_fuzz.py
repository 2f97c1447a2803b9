"""A seeded share of the fuzzing, and proof that the runner finds what it is there for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fuzz import runner, verdict
from tests.fuzz.case import KINDS, Case, made
from tests.fuzz.generate.planted import DEFECTS
from tests.fuzz.runner import Soak, counts_of
from tests.fuzz.shrinking import shrink
from tests.fuzz.verdict import Finding, judge

SHARE = counts_of(1200, list(KINDS))


@pytest.mark.parametrize("kind", KINDS)
def test_a_share_of_all_inputs(kind: str) -> None:
    def found(number: int) -> tuple[int, Finding | None]:
        return number, judge(kind, made(kind, 11, number))

    with ThreadPoolExecutor(1) as executor:  # its stack is as empty as a task's, not pytest's
        findings = dict(executor.map(found, range(SHARE[kind])))
    assert {n: finding for n, finding in findings.items() if finding} == {}


def test_the_same_seed_makes_the_same_inputs() -> None:
    for kind in KINDS:
        assert made(kind, 7, 3) == made(kind, 7, 3) != made(kind, 8, 3)


def test_an_input_is_shrunk_to_what_does_it() -> None:
    case = Case(b"a" * 50 + b"x" + b"b" * 50 + b"y" + b"c" * 50)
    small = shrink(case, lambda c: b"x" in c.data and b"y" in c.data, 500)
    assert small.data == b"xy"


def test_what_takes_too_long_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "LIMIT", 0.02)
    finding = judge("planted", Case(b"busy"))
    assert finding is not None and finding.signature == "planted: slow"


def test_every_planted_defect_is_found_and_the_rest_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_PATIENCE", 10)
    counts = {"planted": 7}
    made_of = {made("planted", 27, number).data for number in range(7)}
    assert made_of >= {defect.encode() for defect in DEFECTS}
    soak = Soak(27, tmp_path, tell=lambda line: None)
    assert not soak.run(counts, 2)
    assert set(soak.findings) == {
        "planted: killed by SIGSEGV",
        "planted: no end",
        "planted: ValueError: row N",
        "planted: a value changed",
        "planted: MemoryError: ",
    }
    kept = {kind: case.data for kind, case in map(Case.read, soak.findings_folder.iterdir())}
    assert set(kept) == {"planted"}
    again = Soak.resumed(tmp_path)
    again.tell = lambda line: None
    assert not again.run(counts, 1) and again.findings == soak.findings
