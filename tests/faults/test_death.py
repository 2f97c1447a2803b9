"""The driver dies at every step at which it touches the lake: repeated, the run adds nothing twice.

The death is simulated in this process: from one call on, nothing that the driver does reaches the
disk or the log, not even its cleaning up. `test_kill.py` does the same with real processes at
fewer points.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

import lakeport
from lakeport.engine.spark.delta.transaction import DeltaTransaction
from lakeport.engine.spark.session import DriverSession
from lakeport.errors import InputError, OutcomeUnknown, RunMismatch
from lakeport.storage.local import LocalStorage
from lakeport.writers.delta.commit import TableTransaction
from tests.contract.targets import record, schema, singer, state
from tests.faults.conftest import IN_DELTA
from tests.faults.kit import INTEGER, STRING, Lake, users

ROWS = 20
BATCH = 10
INPUT = users(ROWS, BATCH)
STEPS = (
    (LocalStorage, "publish"),
    (LocalStorage, "put"),
    (LocalStorage, "discard"),
    (LocalStorage, "delete"),
    (TableTransaction, "commit"),
)


class Death(BaseException):
    """The process is no more."""


class Fate:
    """Counts the driver's steps, and ends everything at one of them.

    Args:
        step: ordinal of the last step, from 1; 0 to live.
        after: whether that step is still taken (and its answer lost).
    """

    def __init__(self, step: int = 0, *, after: bool = False) -> None:
        self.step = step
        self.after = after
        self.taken: list[str] = []
        self.dead = False

    def take(self, name: str, step: Callable[[], Any]) -> Any:
        """Take a step, unless dead."""
        if self.dead:
            raise Death
        self.taken.append(name)
        last = len(self.taken) == self.step
        if last and not self.after:
            self.dead = True
            raise Death
        result = step()
        if last:
            self.dead = True
            raise Death
        return result


@contextmanager
def doomed(fate: Fate) -> Iterator[None]:
    """Every step of this process's driver is in the hands of fate."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in STEPS:
            real = getattr(owner, name)

            def step(*arguments: Any, _real: Any = real, _name: str = name, **options: Any) -> Any:
                return fate.take(_name, lambda: _real(*arguments, **options))

            patch.setattr(owner, name, step)
        yield


def land(lake: Lake, given: bytes, fate: Fate, **keys: Any) -> list[Any]:
    """Land in this process; return the STATE values that came out, also when it dies."""
    states: list[Any] = []

    def on_state(value: bytes) -> None:
        fate.take("state", lambda: states.append(json.loads(value)))

    with doomed(fate):
        try:
            lakeport.land(
                io.BytesIO(given),
                lake.root,
                on_state=on_state,
                file_type=lake.format,
                **{"run_id": "night/1", "maximum_batch_rows": BATCH, **keys},
            )
        except Death:
            assert fate.dead
        else:
            assert not fate.dead
    return states


def check_prefix(lake: Lake, states: list[Any]) -> None:
    """Readers see whole batches, and all that the last STATE claims."""
    ids = lake.ids()
    assert ids == list(range(len(ids)))
    assert len(ids) % BATCH == 0
    claimed = states[-1]["bookmarks"]["users"] if states else 0
    assert claimed <= len(ids)


@pytest.mark.usefixtures("engine_of_kills")
@pytest.mark.parametrize("after", [pytest.param(False, marks=pytest.mark.soak), True])
def test_death_at_every_step(spark: DriverSession, lake: Lake, after: bool) -> None:
    for step in count(1):
        fate = Fate(step, after=after)
        one = Lake(lake.root / str(step), lake.format)
        states = land(one, INPUT, fate)
        if not fate.dead:
            break
        check_prefix(one, states)
        again = land(one, INPUT, Fate())
        assert one.ids() == list(range(ROWS)), f"died at {fate.taken}"
        assert again[-1] == {"bookmarks": {"users": ROWS}}
        if lake.format == "delta":
            one.check_log()
        else:
            assert len(one.objects()) == ROWS // BATCH, f"died at {fate.taken}"
    assert step > 6  # a death at each of these was survived


@pytest.mark.usefixtures("engine_of_kills")
@IN_DELTA
def test_death_again_and_again(spark: DriverSession, lake: Lake) -> None:
    """Each attempt dies a little later than the one before, in the same lake."""
    for step in count(1):
        fate = Fate(step, after=step % 2 == 0)
        states = land(lake, INPUT, fate)
        check_prefix(lake, states)
        if not fate.dead:
            break
    assert step > 3
    assert lake.ids() == list(range(ROWS))


@pytest.mark.usefixtures("engine_of_kills")
@IN_DELTA
def test_death_between_the_streams_of_a_batch(spark: DriverSession, lake: Lake) -> None:
    """STATE waits for every stream; what one of them landed stays as it is."""
    lines = users(3, stream="left") + users(3, stream="right") + singer(state(left=3, right=3))
    for step in count(1):
        fate = Fate(step)
        one = Lake(lake.root / str(step), lake.format)
        states = land(one, lines, fate, maximum_batch_rows=None)
        found = {name: one.ids(name) for name in ("left", "right")}
        assert all(ids in ([], [0, 1, 2]) for ids in found.values())
        assert not states or all(found.values())
        if not fate.dead:
            break
        assert land(one, lines, Fate(), maximum_batch_rows=None) == [
            {"bookmarks": {"left": 3, "right": 3}}
        ]
        assert one.ids("left") == one.ids("right") == [0, 1, 2]


@pytest.mark.usefixtures("engine_of_kills")
@IN_DELTA
def test_the_same_run_with_another_column_after_a_death(spark: DriverSession, lake: Lake) -> None:
    """What a batch that landed had taught about undeclared fields holds for the repeated run."""
    rows = [{"id": i, "extra": i if i < BATCH else None} for i in range(ROWS)]
    lines = singer(
        schema("users", {"id": INTEGER, "name": STRING}, "id"),
        *(record("users", **row) for row in rows),
    )
    for step in count(1):
        fate = Fate(step, after=True)
        one = Lake(lake.root / str(step), lake.format)
        land(one, lines, fate)
        land(one, lines, Fate())
        found = sorted((row["id"], row.get("extra")) for row in one.rows())
        assert found == [(row["id"], row["extra"]) for row in rows]
        if not fate.dead:
            break


@pytest.mark.usefixtures("engine_of_kills")
def test_other_cuts_after_a_death_are_refused(spark: DriverSession, lake: Lake) -> None:
    """A run is repeated with the same batches; another size of them adds nothing."""
    for step in count(1):
        fate = Fate(step, after=True)
        land(lake, INPUT, fate)
        if "state" in fate.taken:
            break
    before = lake.ids()
    with pytest.raises(RunMismatch, match="batch"):
        land(lake, INPUT, Fate(), maximum_batch_rows=BATCH - 3)
    assert lake.ids() == before
    land(lake, INPUT, Fate())
    assert lake.ids() == list(range(ROWS))


@pytest.mark.usefixtures("engine_of_kills")
@IN_DELTA
def test_death_with_bad_records(spark: DriverSession, lake: Lake) -> None:
    """Each bad record is set aside once, whenever the run died, and counts against the limit."""
    bad = (3, BATCH + 3)
    rows = [record("users", id="x" if i in bad else i) for i in range(ROWS)]
    lines = singer(schema("users", {"id": INTEGER, "name": STRING}, "id"), *rows)
    keys = {"on_bad_record": "quarantine"}
    for step in count(1):
        fate = Fate(step)
        one = Lake(lake.root / str(step), lake.format)
        land(one, lines, fate, **keys)
        land(one, lines, Fate(), **keys)
        assert one.ids() == [i for i in range(ROWS) if i not in bad]
        kept = [
            json.loads(line)["line"]
            for path in (one.root / "_lakeport" / "quarantine").rglob("*.jsonl")
            for line in path.read_bytes().splitlines()
        ]
        assert sorted(kept) == [line + 2 for line in bad]
        if not fate.dead:
            break


@pytest.mark.usefixtures("engine_of_kills")
def test_a_repeated_run_keeps_its_limit_of_bad_records(spark: DriverSession, lake: Lake) -> None:
    """Batches that are skipped bring their bad records into the count."""
    rows = [record("users", id="x" if i in (3, BATCH + 3) else i) for i in range(ROWS)]
    lines = singer(schema("users", {"id": INTEGER, "name": STRING}, "id"), *rows)
    for _ in range(2):
        with pytest.raises(InputError, match="2 of 20 records are bad"):
            land(lake, lines, Fate(), on_bad_record="quarantine", max_bad_records=1)
    assert len(lake.ids()) == BATCH - 1


class Mute:
    """A transaction of the JVM's whose answer to `commit` gets lost on its way."""

    def __init__(self, txn: Any, *, lands: bool) -> None:
        self._txn = txn
        self._lands = lands

    def __getattr__(self, name: str) -> Any:
        return getattr(self._txn, name)

    def commit(self, *arguments: Any) -> None:
        if self._lands:
            self._txn.commit(*arguments)
        raise Py4JNetworkError("Answer from Java side is empty")


@pytest.mark.parametrize("lands", [True, False])
def test_the_answer_to_a_commit_is_lost(
    spark: DriverSession, delta_lake: Lake, monkeypatch: pytest.MonkeyPatch, lands: bool
) -> None:
    """A commit that is in the log keeps its files; one that is not is an error, and is repeated."""
    real = DeltaTransaction.commit_actions

    def commit(txn: DeltaTransaction, *arguments: Any) -> int:
        txn._txn = Mute(txn._txn, lands=lands)
        return real(txn, *arguments)

    by_delta_spark = '{"delta.enableChangeDataFeed": "true"}'  # which only that knows of
    monkeypatch.setenv("LAKEPORT_TABLE_PROPERTIES", by_delta_spark)
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTransaction, "commit_actions", commit)
        if lands:
            assert land(delta_lake, INPUT, Fate())[-1] == {"bookmarks": {"users": ROWS}}
        else:
            with pytest.raises(OutcomeUnknown, match="Java process"):
                land(delta_lake, INPUT, Fate())
    delta_lake.check_log()
    assert delta_lake.ids() == (list(range(ROWS)) if lands else [])
    land(delta_lake, INPUT, Fate())
    delta_lake.check_log()
    assert delta_lake.ids() == list(range(ROWS))
