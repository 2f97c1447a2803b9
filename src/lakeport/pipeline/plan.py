"""What a run of a lake's file would do, load by load, in order; nothing is written.

No source is read beyond a listing, no database beyond what its columns are, and no table beyond
its log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lakeport.config.inputs import DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.errors import SourceError
from lakeport.pipeline import selection, session
from lakeport.pipeline.places import table_of
from lakeport.pipeline.report import news_of
from lakeport.pipeline.run import MadeBy, Schedule
from lakeport.scrub import scrub
from lakeport.tables import Table

if TYPE_CHECKING:
    from lakeport.config.inputs import Input
    from lakeport.config.lake import LakeFile, Load
    from lakeport.engine.base import Engine


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What a run would do for one load.

    Attributes:
        load: its name.
        reads: its source in words, without secrets.
        news: what of it the table has not had; empty where it remembers nothing of the source.
        uses: the loads that have to end well before.
        transform: `sql`, `python`, both, or nothing that is made of the rows.
        runs: of those, `each batch on its own` or `the whole input at once`; empty where nothing is
            made of the rows, or that is not known.
        result: of those, column -> type that the table gets; empty where that is not known.
        unknown: why something of that is not known.
        mode: `append`, `overwrite` or `merge`.
        table: its URI; empty for a tap, whose streams have one each.
        version: the table's newest; None for files, and where there is none yet.
        columns: column -> type of the table as it is; empty where there is none.
        partition_keys: columns by which it is partitioned.
        expect: what is expected of the rows, and what follows else.
        tags: its tags.
    """

    load: str
    reads: str
    news: str
    uses: tuple[str, ...]
    transform: str
    runs: str
    result: Mapping[str, str]
    unknown: str
    mode: str
    table: str
    version: int | None
    columns: Mapping[str, str]
    partition_keys: tuple[str, ...]
    expect: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def in_words(self) -> dict[str, str]:
        """What there is to say, by what it is about."""
        version = "" if self.version is None else f", now version {self.version}"
        new = "" if self.columns or not self.table else ", which is not there yet"
        does = {"append": "append to", "merge": "merge into"}.get(self.mode, self.mode)
        facts = {
            "reads": self.reads,
            "of it": self.news,
            "uses": ", ".join(self.uses),
            "makes of it": ", ".join(filter(None, (self.transform, self.runs))),
            "which gives": _listed(self.result),
            "not known": self.unknown,
            "does": f"{does} {self.table or 'a table for each stream'}{version}{new}",
            "columns": _listed(self.columns),
            "partitions": ", ".join(self.partition_keys),
            "expects": "; ".join(self.expect),
            "tags": ", ".join(self.tags),
        }
        return {name: value for name, value in facts.items() if value}


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """What a run of a lake's file would do.

    Attributes:
        file: the file.
        steps: names of loads, in the order in which they can begin: those of one step side by side.
        loads: what each would do, in that order.
    """

    file: str
    steps: tuple[tuple[str, ...], ...]
    loads: tuple[LoadPlan, ...]

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, with the attributes' names as keys."""
        return {"plan": 1, **asdict(self)}

    def to_json(self) -> str:
        """The plan as one JSON object on one line."""
        return json.dumps(self.to_dict())


def plan_lake(lake: LakeFile, *, only: Sequence[str] = (), tag: str = "") -> PipelinePlan:
    """Tell what `run` would do with the same arguments.

    Raises:
        ConfigError: what is asked for is wrong.
        DestinationError: a store refused.
    """
    loads = selection.named(lake, only, tag)
    schedule = Schedule({name: load.depends for name, load in loads.items()})
    steps = []
    while step := schedule.ready():
        steps.append(tuple(step))
        for name in step:
            schedule.ended(name, well=True)
    with session.start(loads.values()) as engine:  # which is not asked for anything
        made_by = MadeBy(engine)
        planned = tuple(_planned(loads[name], engine, made_by) for step in steps for name in step)
    return PipelinePlan(str(lake.path), tuple(steps), planned)


def _planned(load: Load, engine: Engine, made_by: MadeBy) -> LoadPlan:
    config = load.target
    uri = table_of(load)
    version, columns = None, dict[str, str]()
    with suppress(SourceError):  # it is not there yet
        found = Table(uri, config).describe() if uri else None
        version = found.version if found else None
        columns = {column.name: column.type for column in found.columns} if found else {}
    secrets = (*load.source.secrets(), *config.secrets())
    made = made_by.load(load, uri)
    return LoadPlan(
        load.name,
        scrub(_words(load.source), load.source.secrets()),
        scrub(news_of(load, engine), secrets),
        load.depends,
        " and ".join(kind for kind in ("sql", "python") if getattr(load, kind)),
        made.runs,
        made.types,
        scrub(made.unknown, secrets),
        config.mode.value,
        uri,
        version,
        columns,
        config.partition_keys,
        tuple(f"{one.title}, otherwise {one.otherwise}" for one in load.expect),
        load.tags,
    )


def _listed(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns.items())


def _words(source: Input) -> str:
    """A source as a user would name it."""
    if isinstance(source, FilesSource):
        names = source.files if isinstance(source.files, str) else ", ".join(source.files)
        return f"new files of {names}" if source.new_only else f"files {names}"
    if isinstance(source, DatabaseSource):
        what = f"table {source.table}" if source.table else "a query"
        since = f", from the last `{source.cursor}` on" if source.cursor else ""
        return f"{what} of a database{since}"
    if isinstance(source, TablesSource):
        new = "new rows of " if source.incremental else ""
        return f"{new}tables {', '.join(source.tables)}"
    return f"tap {source.tap[0]}" if isinstance(source, TapSource) else "a source"
