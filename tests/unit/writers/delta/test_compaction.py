"""Which files of a table are small, and which partitions are merged."""

from __future__ import annotations

from lakeport.writers.delta.optimize import (
    MANY_SMALL_FILES,
    SMALL_FILE_BYTES,
    find_crowded_partitions,
    group_by_partition,
    pack_sizes,
    partition_condition,
)
from tests.unit.writers.delta.support import SCHEMA, contents


def test_small_files_are_packed_as_delta_does() -> None:
    assert pack_sizes([200, 90, 5, 5, 60], target=100) == [(5, 5, 60)]
    assert pack_sizes([50, 50, 50], target=100) == [(50, 50)]
    assert pack_sizes([99], target=100) == []
    small, large = SMALL_FILE_BYTES - 1, SMALL_FILE_BYTES * 8
    one = {"at": "2024-05-01T10:30:00.000000Z", "p": "x"}
    same = {"at": "2024-05-01 10:30:00", "p": "x"}  # as Spark spells it
    found = contents([(one, small), (same, small), (one, large), ({"at": None, "p": ""}, small)])
    assert sorted(len(group.sizes) for group in group_by_partition(found)) == [1, 3]


def test_only_touched_partitions_with_a_pile_are_merged() -> None:
    piled = [({"at": None, "p": "x"}, 10)] * MANY_SMALL_FILES
    other = [({"at": None, "p": "y"}, 10)] * MANY_SMALL_FILES
    few = [({"at": None, "p": "z"}, 10)] * (MANY_SMALL_FILES - 1)
    found = contents([*piled, *other, *few])
    touched = [{"at": None, "p": "x"}, {"at": "", "p": "z"}]
    assert [group.values["p"] for group in find_crowded_partitions(found, touched)] == ["x"]
    assert find_crowded_partitions(found, []) == []


def test_a_condition_holds_values_and_nothing_else() -> None:
    evil = "x') OR 1=1 --`\\"
    stamp = "2024-05-01T10:30:00.000000Z"
    text = partition_condition(
        group_by_partition(contents([({"at": stamp, "p": evil}, 1)])), SCHEMA
    )
    assert evil not in text
    assert f"CAST(CAST(X'{stamp.encode().hex()}' AS STRING) AS timestamp)" in text
    assert f"`p` <=> CAST(X'{evil.encode().hex()}' AS STRING)" in text
