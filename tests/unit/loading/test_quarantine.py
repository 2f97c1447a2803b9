from __future__ import annotations

import base64
import itertools
import json
import os
from pathlib import Path

import pytest

from lakeport.errors import BadRecord, InputError
from lakeport.loading.quarantine import (
    Quarantine,
    RejectedKind,
    Rejections,
    check_limit,
    encode_record,
    quarantine_key,
)
from lakeport.model import Rejection
from lakeport.storage.local import LocalStorage


def quarantine(lake: Path) -> Quarantine:
    return Quarantine(LocalStorage(str(lake)), "run 1")


def files(lake: Path) -> list[Path]:
    return [path for path in lake.rglob("*") if path.is_file()]


A = BadRecord("orders", 7, "price", "not a number", b'{"price": "\xc3\xa9\xe2\x80\xa8"}')
B = BadRecord("orders", 9, "", "not UTF-8", b"\xff\x00{")
C = BadRecord("users", 8, "a.b", "too deep", b"")
STRAY = BadRecord("", 3, "", "not JSON", b"hello")


def test_each_stream_has_its_file(tmp_path: Path) -> None:
    uris = quarantine(tmp_path).write([A, C, B], 0)
    folder = tmp_path / "_lakeport/quarantine/run%201"
    assert uris == (str(folder / "orders.jsonl"), str(folder / "users.jsonl"))
    lines = (folder / "orders.jsonl").read_bytes().splitlines()
    first, second = (json.loads(line) for line in lines)
    assert first == {
        "stream": "orders",
        "line": 7,
        "column": "price",
        "reason": "not a number",
        "run_id": "run 1",
        "raw": A.raw.decode(),
    }
    assert "raw" not in second
    assert base64.b64decode(second["raw_base64"]) == B.raw


def test_nothing_bad_writes_nothing(tmp_path: Path) -> None:
    assert quarantine(tmp_path).write([], 0) == ()
    assert files(tmp_path) == []


def test_lines_and_records_of_one_stream_do_not_meet(tmp_path: Path) -> None:
    store = quarantine(tmp_path)
    uris = {
        *store.write([A], 0),
        *store.write([A], 1),
        *store.write([A, STRAY], 0, RejectedKind.LINES),
        *store.write([STRAY], 1),
    }
    assert len(uris) == len(files(tmp_path)) == 5


def test_a_repeated_run_finds_its_file(tmp_path: Path) -> None:
    assert quarantine(tmp_path).write([A], 0) == quarantine(tmp_path).write([A], 0)
    assert len(files(tmp_path)) == 1


def test_a_corrected_attempt_replaces_what_never_landed(tmp_path: Path) -> None:
    quarantine(tmp_path).write([A, B], 0)
    quarantine(tmp_path).write([A], 0)
    (file,) = files(tmp_path)
    assert file.read_bytes() == encode_record(A, "run 1")


def test_no_two_names_share_a_key() -> None:
    names = ["a", "a-1", "a-10", "a%2D1", "..", ".", "_a", "A/b", "a~lines", "é", "x" * 300]
    names += ["x" * 301, "a.jsonl", "\ud800", " ", "a\n"]
    keys = [
        quarantine_key("r", name, sequence, of)
        for name, sequence, of in itertools.product(names, (0, 1, 10), RejectedKind)
    ]
    keys += [quarantine_key("r", "", sequence, RejectedKind.LINES) for sequence in (0, 1)]
    assert len(set(keys)) == len(keys)
    for key in keys:
        folder, name = key.rsplit("/", 1)
        assert folder == "_lakeport/quarantine/r"
        assert name.isascii() and name.isprintable() and len(name) < 255
        assert not name.startswith(".")


@pytest.mark.parametrize("run_id", ["..", ".", "a/../..", "/etc", "_delta_log"])
def test_a_run_id_can_not_climb(run_id: str) -> None:
    parts = quarantine_key(run_id, "s", 0).split("/")
    assert len(parts) == 4 and not parts[2].startswith(".")


@pytest.mark.parametrize(
    ("bad", "total", "limit"),
    [
        (5, 9, None),
        (0, 0, 0),
        (10, 10, 10),
        (29, 100, 0.29),
        (7, 100, 0.07),
        (10, 10, 1.0),
        (0, 0, 0.0),
    ],
)
def test_within_the_limit(bad: int, total: int, limit: float | None) -> None:
    check_limit(bad, total, limit)


@pytest.mark.parametrize(
    ("bad", "total", "limit", "shown"),
    [
        (1, 9, 0, "max_bad_records: 0`"),
        (11, 99, 10, "max_bad_records: 10`"),
        (30, 100, 0.29, "max_bad_records: 29%`"),
        (1, 1000, 0.0005, "max_bad_records: 0.05%`"),
        (1, 9, 0.0, "max_bad_records: 0%`"),
    ],
)
def test_over_the_limit(bad: int, total: int, limit: float, shown: str) -> None:
    with pytest.raises(InputError) as caught:
        check_limit(bad, total, limit)
    assert shown in caught.value.message
    assert f"{bad} of {total}" in caught.value.message


def test_on_a_disk_only_the_owner_reads_them(tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        for attempt in (A, B):  # an earlier attempt's file is replaced
            quarantine(tmp_path).write([attempt], 0)
    finally:
        os.umask(umask)
    file = tmp_path / quarantine_key("run 1", "orders", 0)
    assert json.loads(file.read_bytes())["line"] == B.line
    modes = [path.stat().st_mode & 0o777 for path in (file, file.parent, file.parent.parent)]
    assert modes == [0o600, 0o700, 0o755]


def test_bad_records_are_counted_by_their_reasons() -> None:
    found = Rejections()
    found.add([BadRecord("a", 1, "n", "no number"), BadRecord("", 2, "", "no message")])
    found.add([BadRecord("a", 3, "d", "no date", b"canary")] * 3)
    found.add([BadRecord("a", 9, "n", "no number")])
    assert found.most_frequent() == (
        Rejection("a", "d", "no date", 3),
        Rejection("a", "n", "no number", 2),
        Rejection("", "", "no message", 1),
    )


def test_of_many_reasons_the_most_frequent_are_told_and_the_others_summed() -> None:
    found, expected = Rejections(), 0
    for number in range(1_000):
        count = 500 if number in (3, 150) else 1 + number % 3
        expected += count
        found.add([BadRecord("a", 1, f"c{number}", "no number")] * count)
    told = found.most_frequent()
    assert len(told) == 21 and sum(one.count for one in told) == expected
    assert [(one.column, one.count) for one in told[:2]] == [("c3", 500), ("c150", 500)]
    assert told[-1] == Rejection("a", "", "other reasons", told[-1].count)
    assert found.most_frequent() == told
