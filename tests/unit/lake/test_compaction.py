"""What `optimize` would do, partition by partition."""

from __future__ import annotations

from lakeport.lake.maintenance import build_compact_report
from lakeport.writers.delta.optimize import SMALL_FILE_BYTES
from tests.unit.writers.delta.support import contents


def test_partitions_with_the_most_small_files_come_first() -> None:
    small, large = SMALL_FILE_BYTES - 1, SMALL_FILE_BYTES * 8
    one = {"at": "2024-05-01T10:30:00.000000Z", "p": "x"}
    same = {"at": "2024-05-01 10:30:00", "p": "x"}  # as Spark spells it
    found = contents([(one, small), (same, small), (one, large), ({"at": None, "p": ""}, small)])
    told = build_compact_report(found)
    assert (told.would_remove, told.would_add, told.small_files) == (2, 1, 3)
    assert [row.small_files for row in told.partitions] == [2, 1]
    halves = contents([({}, small)] * 3, keys=(), properties={"delta.targetFileSize": str(small)})
    assert build_compact_report(halves).would_remove == 0
