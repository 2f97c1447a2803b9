"""The machine's time zone changes nothing that is landed."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.contract.targets import record, schema, singer
from tests.faults.kit import INTEGER, Lake, land, run

ZONES = ("America/St_Johns", "Asia/Kathmandu", "UTC")
MOMENTS = (
    "2024-03-10T02:30:00",  # within the hour that St John's skips
    "2024-11-03T01:30:00",  # within the hour that it has twice
    "2024-11-03T01:30:00-02:30",
    "2024-03-04T15:30:45.123456+05:45",
    "1900-01-01T00:00:00Z",
    "1969-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
)
DAYS = ("2024-03-10", "1969-12-31", "0001-01-01", "9999-12-31")


def test_the_machine_s_time_zone(tmp_path: Path, soak: bool) -> None:
    columns = {
        "id": INTEGER,
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "hour": {"type": "string", "format": "date-time"},
    }
    rows = [
        {"id": i, "at": at, "day": DAYS[i % len(DAYS)], "hour": MOMENTS[i % 2]}
        for i, at in enumerate(MOMENTS)
    ]
    lines = singer(schema("events", columns), *(record("events", **row) for row in rows))
    found: dict[str, Any] = {}
    for number, zone in enumerate(ZONES if soak else ZONES[:2]):
        lake = Lake(tmp_path / zone, "delta")
        command = land(lake, "--partition-by", "hour", "--set", "internal_columns=false")
        # The first by the engine of the tests, with which threads have to agree.
        env = {"TZ": zone} if soak or number == 0 else {"TZ": zone, "LAKEPORT_ENGINE": "threads"}
        outcome = run(*command, given=lines, env=env)
        assert outcome.code == 0, outcome.err
        table = DeltaTable(str(lake.root / "events"))
        actions = table.get_add_actions(flatten=True)
        kept = [name for name in actions.schema.names if name.split(".")[0] in _COMPARED]
        found[zone] = (
            table.to_pyarrow_table().sort_by("id").to_pylist(),
            sorted(map(str, (actions.column(name).to_pylist() for name in kept))),
        )
    one, *others = found.values()
    assert all(other == one for other in others)
    landed, _ = one
    assert len(landed) == len(MOMENTS)
    assert landed[0]["at"].isoformat() == "2024-03-10T02:30:00+00:00"
    assert landed[0]["hour"].isoformat() == "2024-03-10T02:30:00+00:00"
    assert [row["at"] for row in landed] == [in_utc(row["at"]) for row in rows]
    assert [row["hour"] for row in landed] == [in_utc(row["hour"]) for row in rows]
    assert [row["day"] for row in landed] == [date.fromisoformat(row["day"]) for row in rows]


def in_utc(text: str) -> datetime:
    """A moment; without a zone it is one of UTC's."""
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


_COMPARED = ("num_records", "min", "max", "null_count", "partition")
