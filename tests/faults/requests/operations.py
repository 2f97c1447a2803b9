"""What is done to a table while its store fails, and what the table may then hold.

Contents are known from the input alone: `Operation.contents` lists what readers may see one after
another, from what was there before to what is there in the end.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import lakeport
from lakeport.errors import OutcomeUnknown, SourceError
from lakeport.loading.report import LandingReport
from tests.contract.targets import INTEGER, STRING, record, schema, singer, state
from tests.faults.requests.sites import Place
from tests.streaming.kit import Inbox

TABLE = "t"
BATCH = 10
Row = tuple[int, str, str]
Contents = Counter[Row]


@dataclass
class Said:
    """What an operation told.

    Attributes:
        error: why it failed; None if it says that all went well.
        rows: how many rows it says it has landed; -1 where it says nothing of rows.
        states: numbers of input rows that each STATE claims, in the order in which they went out.
    """

    error: BaseException | None = None
    rows: int = -1
    states: list[int] = field(default_factory=list)

    @property
    def unknown(self) -> bool:
        """Whether it says that it does not know what became of it."""
        return isinstance(self.error, OutcomeUnknown)

    # What `lakeport.loading.report.Observer` asks for; the report is all that counts here.

    def on_progress(self, stream: str, records: int, size: int) -> None:
        pass

    def on_landed(self, landed: Any) -> None:
        pass

    def on_state(self, state: bytes) -> None:
        self.states.append(int(state.split(b":")[-1].strip(b" }")))

    def on_warning(self, text: str) -> None:
        pass

    def on_finished(self, report: LandingReport) -> None:
        self.rows = max(self.rows, 0) + report.rows  # streams tell of each micro-batch


def row(number: int, name: str = "") -> Row:
    return (number, name or f"n{number}", f"d{number % 2}")


def contents_of(rows: Iterable[Row]) -> Contents:
    return Counter(rows)


def lines(rows: Sequence[Row], start: int = 0) -> bytes:
    """Singer lines of rows; a STATE behind each half of a batch tells how many are behind it."""
    text = {"id": INTEGER, "name": STRING, "day": STRING}
    messages: list[dict[str, Any] | bytes] = [schema(TABLE, text, "id")]
    for number, (id_, name, day) in enumerate(rows, start + 1):
        messages.append(record(TABLE, id=id_, name=name, day=day))
        if number % (BATCH // 2) == 0:
            messages.append(state(**{TABLE: number}))
    return singer(*messages)


RIVAL = row(1_000_001, "rival")
BASE = tuple(row(n) for n in range(2 * BATCH))
MORE = tuple(row(n) for n in range(2 * BATCH, 4 * BATCH))


Run = Callable[[Place, Said, int, str], None]


@dataclass(frozen=True)
class Operation:
    """One thing that is done to a table.

    Attributes:
        name: part of a case's id.
        run: does it: into a place, of the input from a row on, with a run id or none.
        contents: what readers may see, in order.
        base: makes the table that it is done to.
        resumes: a repeat without a run id takes up the input behind what has landed.
        delta: only Delta tables have it.
        run_ids: whether it can have a run id.
        continues: it knows by itself what of it has landed, and a repeat goes on there.
        rows: how many rows it lands; -1 where it tells none.
        forgets: files of earlier versions go.
        other: the same with other content, which a repeat of a run must not land.
        rivals: another writer's append must not get lost beside it.
    """

    name: str
    run: Run
    contents: tuple[Contents, ...]
    base: Callable[[Place], None]
    resumes: bool = False
    delta: bool = True
    run_ids: bool = False
    continues: bool = False
    rows: int = -1
    forgets: bool = False
    other: Run | None = None
    rivals: bool = False


def perform(run: Run, place: Place, run_id: str, start: int = 0) -> Said:
    """Do something to a table, and return what it said."""
    said = Said()
    try:
        run(place, said, start, run_id)
    except BaseException as error:
        said.error = error
    return said


def _land(rows: Sequence[Row], **keys: Any) -> Run:
    def run(place: Place, said: Said, start: int, run_id: str) -> None:
        config = place.config(table=TABLE, maximum_batch_rows=BATCH, **keys)
        if run_id:
            config["run_id"] = run_id
        source = io.BytesIO(lines(rows[start:], start))
        lakeport.land(source, config, observer=said)

    return run


def _nothing(place: Place) -> None:
    pass


def _base(**keys: Any) -> Callable[[Place], None]:
    """A table of two versions."""

    def make(place: Place) -> None:
        for number in (0, 1):
            part = BASE[number * BATCH : (number + 1) * BATCH]
            config = place.config(table=TABLE, run_id=f"base-{number}", **keys)
            lakeport.land(io.BytesIO(lines(part)), config)

    return make


def _rewritten(place: Place) -> None:
    """A table whose first version has files that are none of the last one's."""
    _plain(place)
    _land(BASE, mode="overwrite")(place, Said(), 0, "base-2")


def _optimize(place: Place, said: Said, start: int, run_id: str) -> None:
    lakeport.Table(TABLE, place.config(table=TABLE)).optimize()


def _vacuum(place: Place, said: Said, start: int, run_id: str) -> None:
    lakeport.Table(TABLE, place.config(table=TABLE)).vacuum(retain_hours=0, force=True)


def _undo(place: Place, said: Said, start: int, run_id: str) -> None:
    try:
        lakeport.Table(TABLE, place.config(table=TABLE)).undo("base-1")
    except SourceError as error:
        if "undone already" not in error.message:
            raise


def _stream(place: Place, said: Said, start: int, run_id: str) -> None:
    """Land two files, each a micro-batch, with a checkpoint that is the place's own."""
    inbox = Inbox(place.folder / "in")
    if not inbox.folder.exists():
        for begin in (0, BATCH):
            part = MORE[begin : begin + BATCH]
            inbox.add_rows({"id": id_, "name": name, "day": day} for id_, name, day in part)
    stream = lakeport.land_stream(
        inbox.stream("id long, name string, day string"),
        place.config(table=TABLE),
        checkpoint=place.folder / "checkpoint",
        available_now=True,
        observer=said,
    )
    stream.wait()


_plain, _parted = _base(), _base(partition_keys=["day"])
_due = _base(table_properties={"delta.checkpointInterval": "2"})
_before = contents_of(BASE)
_appended = tuple(contents_of((*BASE, *MORE[:n])) for n in (0, BATCH, 2 * BATCH))
_fresh = tuple(contents_of(MORE[:n]) for n in (0, BATCH, 2 * BATCH))
_merged_rows = tuple(row(n, f"m{n}") for n in range(15, 15 + BATCH))
_even = tuple(row(n, f"e{n}") for n in range(2 * BATCH, 4 * BATCH, 2))


def _changed(rows: Sequence[Row]) -> list[Row]:
    return [(id_, f"{name} changed", day) for id_, name, day in rows]


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation(
            "append",
            _land(MORE),
            _appended,
            _plain,
            resumes=True,
            run_ids=True,
            rows=len(MORE),
            other=_land(_changed(MORE)),
            rivals=True,
        ),
        Operation(
            "create",
            _land(MORE),
            _fresh,
            _nothing,
            resumes=True,
            delta=False,
            run_ids=True,
            rows=len(MORE),
            other=_land(_changed(MORE)),
            rivals=True,
        ),
        Operation(
            "checkpoint",
            _land(MORE[:BATCH]),
            _appended[:2],
            _due,
            resumes=True,
            run_ids=True,
            rows=BATCH,
        ),
        Operation(
            "overwrite",
            _land(MORE[:BATCH], mode="overwrite"),
            (_before, contents_of(MORE[:BATCH])),
            _plain,
            run_ids=True,
            rows=BATCH,
            other=_land(_changed(MORE[:BATCH]), mode="overwrite"),
        ),
        Operation(
            "partition-overwrite",
            _land(_even, mode="overwrite", partition_keys=["day"]),
            (_before, contents_of((*(r for r in BASE if r[2] != "d0"), *_even))),
            _parted,
            run_ids=True,
            rows=BATCH,
        ),
        Operation(
            "merge",
            _land(_merged_rows, mode="merge"),
            (_before, contents_of((*BASE[:15], *_merged_rows))),
            _plain,
            run_ids=True,
            rows=BATCH,
            other=_land(_changed(_merged_rows), mode="merge"),
            rivals=True,
        ),
        Operation("optimize", _optimize, (_before,), _plain),
        Operation("vacuum", _vacuum, (_before,), _rewritten, forgets=True),
        Operation("undo", _undo, (_before, contents_of(BASE[:BATCH])), _plain),
        Operation("stream", _stream, _fresh, _nothing, delta=False, continues=True, rows=len(MORE)),
    )
}
"""Every operation by its name."""
