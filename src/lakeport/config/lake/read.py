"""A lake's file, read and checked: every mistake with its line, all at once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeVar

from lakeport.config.base import OTHER_NAMES, DestinationConfig, all_keys, canonical, config_class
from lakeport.config.expectations import Expectation, expectations
from lakeport.config.explain import did_you_mean
from lakeport.config.files import (
    Document,
    TextPosition,
    expand,
    parse_document,
    read_with_mode,
    texts,
)
from lakeport.config.inputs import DatabaseSource, FilesSource, Input, TablesSource, TapSource
from lakeport.config.lake.model import LakeFile, Lineage, Load, Notices, find_query_tables
from lakeport.config.load import build, exposure, flat, joined, placed, target_values
from lakeport.config.mage.io_config import SINK_KEYS, is_sink, sink_keys
from lakeport.errors import ConfigError
from lakeport.model import Mode
from lakeport.scrub import scrub

Made = TypeVar("Made")

_MISTAKE_HINT = "`lakeport docs lake-file` tells what each key means."

KINDS: dict[str, type[Input]] = {
    "files": FilesSource,
    "database": DatabaseSource,
    "tap": TapSource,
    "tables": TablesSource,
}
_SOURCE_HINT = (
    "such as `from: {files: data/*.csv}`; the kinds are `files`, `database`, `tap`, `tables`."
)
_RELATIVE_FILE = re.compile(r"(sqlite|duckdb):(///)?(?!/)(?!:memory:)(.+)")

_STREAM = "{stream}"
_NAMED = re.compile(r"`([a-z_]+)")

_PLACE = ("path", "bucket", "account_name", "table_uri", "object_key_path", "aws_endpoint")

TOP_KEYS = {
    "target": "Where the loads land: keys of a destination, a config file, a folder or a URI.",
    "defaults": "Keys of the destination that all loads have, unless they say otherwise.",
    "loads": "The loads, by name.",
    "lineage": "Where OpenLineage events go.",
    "notices": "Webhooks that are told of failures, and of data that are too old.",
}
LOAD_KEYS = {
    "from": "Where the load's rows come from: `files`, `database`, `tap` or `tables`.",
    "sql": "Spark SQL over `source`, and over other tables of the file by name.",
    "python": "A function, as module:function, that takes and gives a Spark DataFrame.",
    "expect": "What is expected of the rows, checked before they are committed.",
    "tags": "Names by which `lakeport run --tag` chooses loads.",
    "description": "What the load is, in words.",
}
_NAME = re.compile(r"[^\W_][\w-]*")
_Settings = TypeVar("_Settings", bound=Input)

_MERGED = (
    "YAML's merge is not read: keys that loads share are in `defaults`, and `*name` stands for a "
    "value as a whole."
)
_EXPECT = "write one on each line, such as `- {not_null: [id]}`."


@dataclass
class Mistakes:
    """What is wrong with a file so far.

    Attributes:
        name: how errors call the file.
        document: tells where keys stand.
    """

    name: str
    document: Document
    _found: dict[tuple[TextPosition, str], str] = field(default_factory=dict)

    def add(self, path: tuple[str | int, ...], text: str, hint: str = "") -> None:
        """Note one mistake; another one at the same place is likely its consequence.

        Args:
            path: the key, or the item of a list, that is wrong.
            text: what is wrong.
            hint: what to do about it.
        """
        place = self.document.place(*path)
        if any(place == other for other, _ in self._found):
            return
        load = f"load {path[1]!r}: " if path[0:1] == ("loads",) and len(path) > 1 else ""
        self._found[place, load + text] = hint

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Note what the body finds wrong with the keys that stand there."""
        try:
            yield
        except ConfigError as error:
            for below, text, hint in error.problems:
                self.add((*path, *below), text, hint)
            if not error.problems:
                self.add(path, error.message, error.hint)

    def tried(self, path: tuple[str | int, ...], make: Callable[[], Made]) -> Made | None:
        """What is made of the keys that stand there; None, and noted, if something is wrong."""
        with self.at(*path):
            return make()
        return None  # type: ignore[unreachable]  # `at` goes on behind an error

    def check(self) -> None:
        """End here if there is a mistake.

        Raises:
            ConfigError: it tells all, by line.
        """
        found = sorted(self._found.items(), key=lambda each: each[0])
        if not found:
            return
        if len(found) == 1:
            ((place, text), hint), *_ = found
            raise ConfigError(f"{self.name}, {place}: {text}", hint or _MISTAKE_HINT)
        lines = "".join(f"\n  - {place}: {text}" for (place, text), _ in found)
        raise ConfigError(f"{self.name} has {len(found)} mistakes:{lines}", _MISTAKE_HINT)


def source_of(given: Any, path: tuple[str, ...], folder: Path, mistakes: Mistakes) -> Input | None:
    """The description of a load's source; None where something is wrong with it.

    Args:
        given: the value of `from`.
        path: the load's place in the file.
        folder: of the file, from which relative paths go.
        mistakes: gets what is wrong.
    """
    at = (*path, "from")
    if given is None:
        mistakes.add(path, "the key `from` is missing", _SOURCE_HINT)
        return None
    kinds = [kind for kind in KINDS if isinstance(given, dict) and kind in given]
    if len(kinds) != 1:
        text = f"names {' and '.join(kinds)}: one load has one" if kinds else "names no source"
        mistakes.add(at, f"`from` {text}", _SOURCE_HINT)
        return None
    model, keys = KINDS[kinds[0]], _placed(given, kinds[0], folder, path[-1])
    return mistakes.tried(at, lambda: model(**keys))


def _placed(given: dict[str, Any], kind: str, folder: Path, load: str) -> dict[str, Any]:
    """The keys of a load's source, whose relative paths go from a folder."""

    def joined(value: Any) -> Any:
        if isinstance(value, list):
            return [joined(item) for item in value]
        elsewhere = not isinstance(value, str) or "://" in value or value.startswith(("~", "file:"))
        return value if elsewhere or not value else str(folder / value)

    keys = dict(given)
    if kind == "files":
        for key in keys.keys() & {"files", "schema"}:
            keys[key] = joined(keys[key])
    if kind == "tap":
        keys["folder"] = joined(keys.get("folder", "")) or str(folder)
        keys["name"] = keys.get("name") or load  # taps of one program have a STATE each
    if kind == "database" and isinstance(keys["database"], str):
        match = _RELATIVE_FILE.fullmatch(keys["database"])
        if match:
            keys["database"] = f"{match[1]}:///{folder / match[3]}"
    return keys


def shared_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same keys under lakeport's own names, those of a streaming sink among them."""
    if is_sink(values):
        values, _ = sink_keys({"prefix": "-", **values}, all_keys())
    return canonical(values)


def own_keys() -> frozenset[str]:
    """Every key that a destination may have, by any of its names."""
    return all_keys() | OTHER_NAMES.keys() | SINK_KEYS | {"config", "_streams"}


@dataclass
class Targets:
    """What the loads of a file share of their destinations.

    Attributes:
        shared: the keys of `target`, and those of `defaults`, which win.
        raw: path in the file -> the keys that stand there, as they are called there.
        mistakes: gets what is wrong.
        many: whether the file has several loads.
    """

    shared: Mapping[str, Any]
    raw: dict[tuple[str, ...], Mapping[str, Any]]
    mistakes: Mistakes
    many: bool

    def of(
        self, name: str, own: Mapping[str, Any], *, of_streams: bool
    ) -> DestinationConfig | None:
        """A load's destination; None where something is wrong with it.

        Args:
            name: the load's.
            own: its keys, under lakeport's names.
            of_streams: whether its tables are called like its streams, as a tap's.
        """
        origins = [("loads", name), ("defaults",), ("target",)]
        keys = joined(self.shared, own)
        if not of_streams:
            keys |= self._table(name, own, keys)
        try:
            return build(keys)
        except ConfigError as error:
            for below, text, hint in error.problems:
                named = [*map(str, below[:1]), *_NAMED.findall(text)]
                path = self._standing(named[0] if below else "", origins)
                if not below:
                    own_names = [self._standing(key, origins[:1]) for key in named]
                    path = next(filter(None, own_names), ("loads", name))
                self.mistakes.add(path or ("target",), text, hint)
            if not error.problems:
                self.mistakes.add(("target",), error.message, error.hint)
        return None

    def _table(self, name: str, own: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
        """The key that names the load's table: like the load, unless it says otherwise."""
        found: dict[str, Any] = {}
        pattern = own.get("table") or self.shared.get("table") or name
        if "table" not in own and isinstance(pattern, str):
            self._check_pattern("table", pattern)
            found["table"] = pattern.replace(_STREAM, name)
        uri = keys.get("table_uri")
        if isinstance(uri, str) and "table_uri" not in own:
            self._check_pattern("table_uri", uri)
            found["table_uri"] = uri.replace(_STREAM, str(own.get("table") or name))
        return found

    def _check_pattern(self, key: str, pattern: str) -> None:
        """Refuse one table for all loads."""
        if self.many and key in self.shared and _STREAM not in pattern:
            path = self._standing(key, [("defaults",), ("target",)])
            self.mistakes.add(
                path or ("target",),
                f"`{key}` names one table, and several loads would land in it",
                f"write {_STREAM} in it, for the loads' names; or name the loads' tables.",
            )

    def _standing(self, key: str, origins: list[tuple[str, ...]]) -> tuple[str | int, ...] | None:
        """Where a key stands, by whatever name; None if it is nowhere."""
        for origin in origins:
            for nested, keys in self.raw.items():
                if nested[: len(origin)] != origin or not isinstance(keys, Mapping):
                    continue
                for written in keys:
                    if OTHER_NAMES.get(written, written) == key:
                        return (*nested, written)
        return None


def _place(target: DestinationConfig) -> tuple[object, ...]:
    """What tells whether two loads land in the same table."""
    return (
        *(str(getattr(target, key, None)) for key in _PLACE),
        (target.table_pattern or "").strip("/"),
    )


@dataclass(frozen=True)
class Tables:
    """The tables that the loads of a file write.

    Attributes:
        targets: load -> where it lands.
        of_streams: loads that write a table for each stream.
    """

    targets: Mapping[str, DestinationConfig]
    of_streams: frozenset[str]

    def named(self, name: str) -> tuple[str, ...]:
        """The loads that write a table: by a load's name, `load.stream`, or the table's own name.

        Names are Spark's, which knows no case, unless two differ by it alone.
        """
        load = name.partition(".")[0]
        if load in self.targets and load in self.of_streams:
            return (load,)
        found = [name] if name in self.targets else self._like(name)
        places = {_place(self.targets[each]) for each in found}
        return tuple(each for each, at in self.targets.items() if _place(at) in places)

    def _like(self, name: str) -> list[str]:
        lower = name.casefold()
        loads = [each for each in self.targets if each.casefold() == lower]
        if len(loads) == 1:
            return loads
        return [
            each
            for each, target in self.targets.items()
            if each not in self.of_streams and target.table is not None and target.table == name
        ]

    def place(self, name: str) -> str:
        """The URI of a table that some load writes."""
        load = self.named(name)[0]
        target, stream = self.targets[load], name.partition(".")[2]
        table = target.table_pattern or "{stream}"
        if load in self.of_streams:
            table = table.replace("{stream}", stream)
        return target.storage().uri(target.table_folder_name(table.strip("/")))


def in_order(depends: Mapping[str, Sequence[str]], mistakes: Mistakes) -> tuple[str, ...]:
    """The loads, each behind those that it uses, else as in the file.

    Args:
        depends: load -> those that it uses.
        mistakes: gets each cycle, with the lines of its loads.
    """
    uses = {name: dict.fromkeys(used) for name, used in depends.items()}
    begun: set[str] = set()
    while True:
        sorter: TopologicalSorter[str] = TopologicalSorter()
        for name in uses:
            sorter.add(name)
        for name, used in uses.items():
            sorter.add(name, *used)
        try:
            return tuple(sorter.static_order())
        except CycleError as error:
            ring = _from_first(error.args[1][:0:-1], begun, mistakes)  # each uses the next
        lines = [mistakes.document.place("loads", name).line for name in ring]
        path = " -> ".join(f"{name} (line {line})" for name, line in zip(ring, lines, strict=True))
        mistakes.add(
            ("loads", ring[0]),
            f"it uses itself: {path}",
            "a load can't come before itself: have one of them not use the next.",
        )
        begun.add(ring[0])
        del uses[ring[0]][ring[1]]  # there may be others


def _from_first(cycle: Sequence[str], begun: Collection[str], mistakes: Mistakes) -> list[str]:
    """A cycle from the load on that is the first in the file, of those with no cycle yet."""
    order = sorted(
        range(len(cycle)),
        key=lambda at: (cycle[at] in begun, mistakes.document.place("loads", cycle[at])),
    )
    first = order[0]
    return [*cycle[first:], *cycle[: first + 1]]


def refuse_shared_overwrites(tables: Tables, mistakes: Mistakes) -> None:
    """Refuse two loads of one table of which one would remove the other's rows."""
    first: dict[tuple[object, ...], str] = {}
    for name, target in tables.targets.items():
        if name in tables.of_streams:
            continue
        other = first.setdefault(_place(target), name)
        if other == name:
            continue
        modes = {target.mode, tables.targets[other].mode}
        if Mode.OVERWRITE in modes:
            line = mistakes.document.place("loads", other).line
            mistakes.add(
                ("loads", name),
                f"it lands in the table of load {other!r} (line {line}), and one of both "
                "overwrites it",
                "name another `table`; loads that append or merge may share one.",
            )


def read_lake(path: str | os.PathLike[str]) -> LakeFile:
    """What a lake's file says.

    Relative paths in it go from the file's own folder.

    Args:
        path: a YAML or JSON file.

    Raises:
        ConfigError: all that is wrong, with lines.
    """
    path = Path(path)
    name = f"lake file {str(path)!r}"
    text, mode = read_with_mode(path)
    document = parse_document(text, name)
    reader = _Reader(path, Mistakes(name, document))
    lake = reader.read(document.values)
    held = texts(document.values)
    if any(secret in text for text in held for secret in _secrets(lake)):
        warnings = exposure(path, name, mode, guarded=True)
        return LakeFile(lake.path, lake.loads, lake.lineage, lake.notices, warnings)
    return lake


def _secrets(lake: LakeFile) -> Iterator[str]:
    for load in lake.loads.values():
        yield from load.target.secrets()
        yield from (each for each in load.source.secrets() if scrub(each) != each)
    for settings in filter(None, (lake.lineage, lake.notices)):
        yield from settings.secrets()


class _Reader:
    """One reading of a file."""

    def __init__(self, path: Path, mistakes: Mistakes) -> None:
        self.path = path
        self.folder = path.absolute().parent
        self.mistakes = mistakes

    def read(self, raw: Mapping[str, Any]) -> LakeFile:
        known = {"$schema": "", **TOP_KEYS}
        self._check_keys((), raw, known)
        values = {key: self._expanded(value, (key,)) for key, value in raw.items() if key in known}
        loads = self._loads(values)
        targets = self._targets(values, loads)
        tables, sources = self._tables(loads, targets)
        lineage = self._settings(Lineage, values, "lineage")
        notices = self._settings(Notices, values, "notices")
        found = {name: self._load(name, loads[name], tables, sources) for name in loads}
        uses = {name: [*load.depends] for name, load in found.items() if load is not None}
        order = in_order({name: uses.get(name, []) for name in loads}, self.mistakes)
        refuse_shared_overwrites(tables, self.mistakes)
        self.mistakes.check()
        done = {name: load for name in order if (load := found[name]) is not None}
        if lineage is not None and lineage.file:
            lineage = lineage.model_copy(update={"file": str(self.folder / lineage.file)})
        return LakeFile(self.path, done, lineage, notices)

    def _check_keys(
        self, path: tuple[str, ...], values: Mapping[str, Any], known: Mapping[str, Any]
    ) -> None:
        for key in values:
            if key not in known:
                hint = _MERGED if key == "<<" else ""
                self.mistakes.add(
                    (*path, key), f"there is no key `{key}`{did_you_mean(key, known)}", hint
                )

    def _expanded(self, value: Any, path: tuple[str | int, ...]) -> Any:
        """Values with variables replaced; where one is not set, the text stays as it is."""
        if isinstance(value, dict):
            return {key: self._expanded(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._expanded(item, (*path, at)) for at, item in enumerate(value)]
        key = next(part for part in reversed(path) if isinstance(part, str))
        found = self.mistakes.tried(path, lambda: expand(value, os.environ, f"`{key}`"))
        return value if found is None else found

    def _loads(self, values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The loads that are mappings, without keys that there are not."""
        loads = values.get("loads")
        if not isinstance(loads, dict) or not loads:
            text = "`loads` has to hold loads, by name" if "loads" in values else _missing("loads")
            self.mistakes.add(("loads",), text, "such as `loads: {flights: {from: {files: …}}}`.")
            return {}
        known = {**LOAD_KEYS, **dict.fromkeys(own_keys(), "")}
        found = {}
        for name, load in loads.items():
            if not _NAME.fullmatch(name) or name == "source":
                self.mistakes.add(
                    ("loads", name),
                    "that is no name for a load",
                    "take letters, digits, `_` and `-`, a letter or digit first, and not "
                    "`source`; `table` names its table otherwise.",
                )
            if not name:
                continue
            if not isinstance(load, dict):
                self.mistakes.add(("loads", name), "it has to hold keys", "begin with `from:`.")
                continue
            self._check_keys(("loads", name), load, known)
            found[name] = {key: value for key, value in load.items() if key in known}
        return found

    def _targets(
        self, values: Mapping[str, Any], loads: Mapping[str, Mapping[str, Any]]
    ) -> Targets | None:
        """What the loads share; None where the destination is not known."""
        raw: dict[tuple[str, ...], Mapping[str, Any]] = {}
        found: dict[str, dict[str, Any]] = {}
        with self.mistakes.at("target"):
            if "target" not in values:
                raise ConfigError(_missing("target"), TOP_KEYS["target"])
            target = shared_keys(target_values(values["target"], self.folder))
            if not isinstance(target.get("destination"), str):
                raise ConfigError("the key `destination` is missing", "such as `local`.")
            config_class(target["destination"])
            found["target"] = target
        with self.mistakes.at("defaults"):
            given = values.get("defaults") or {}
            if not isinstance(given, dict):
                raise ConfigError("`defaults` has to hold keys", TOP_KEYS["defaults"])
            self._check_keys(("defaults",), given, dict.fromkeys(own_keys(), ""))
            known = {key: value for key, value in given.items() if key in own_keys()}
            found["defaults"] = canonical(placed(flat(known), self.folder))
        for origin in (("target",), ("defaults",), *(("loads", name) for name in loads)):
            at: Any = values
            for part in origin:
                at = at.get(part) if isinstance(at, dict) else None
            if isinstance(at, dict):
                raw[origin] = at
                raw[*origin, "config"] = at.get("config") or {}
        if len(found) < 2:
            return None
        shared = joined(found["target"], found["defaults"])
        return Targets(shared, raw, self.mistakes, len(loads) > 1)

    def _tables(
        self, loads: Mapping[str, Mapping[str, Any]], targets: Targets | None
    ) -> tuple[Tables, dict[str, Any]]:
        """Where each load lands, and the sources but for the tables of the file's own loads."""
        sources = {}
        found = {}
        of_streams = set()
        for name, load in loads.items():
            source = source_of(load.get("from"), ("loads", name), self.folder, self.mistakes)
            sources[name] = source
            singer = isinstance(source, FilesSource) and source.source_format == "singer"
            streams = isinstance(source, TapSource) or singer
            if targets is None:
                continue
            with self.mistakes.at("loads", name):
                keys = {key: value for key, value in load.items() if key not in LOAD_KEYS}
                own = canonical(placed(flat(keys), self.folder))
                target = targets.of(name, own, of_streams=streams)
                if target is not None:
                    found[name] = target
                    pattern = target.table_pattern
                    if streams and (pattern is None or "{stream}" in pattern):
                        of_streams.add(name)
        return Tables(found, frozenset(of_streams)), sources

    def _load(
        self, name: str, values: Mapping[str, Any], tables: Tables, sources: Mapping[str, Any]
    ) -> Load | None:
        path = ("loads", name)
        source, uses = sources[name], dict[str, str]()
        if isinstance(source, TablesSource):
            source, uses = self._own_tables(path, source, values["from"], tables)
        sql, python = self._text(path, values, "sql"), self._text(path, values, "python")
        if python and not re.fullmatch(r"[\w.]+:\w+", python):
            self.mistakes.add((*path, "python"), "`python` has to be module:function")
        expect = self._expectations(path, values)
        wanted = list(find_query_tables(sql)) if sql else []
        of_rows = [one.references_table for one in expect if one.references_table]
        here = source.tables if isinstance(source, TablesSource) else {}
        found: dict[str, str] = {}
        for used in dict.fromkeys([*wanted, *of_rows]):
            if used in here or used == "source":
                continue
            if tables.named(used):
                uses[used] = used
                with self.mistakes.at(*path, "sql" if used in wanted else "expect"):
                    found[used] = self._place(used, tables)
            elif used in of_rows:
                self.mistakes.add((*path, "expect"), *_no_table(used, tables))
        depends = dict.fromkeys(load for used in uses.values() for load in tables.named(used))
        target = tables.targets.get(name)
        if source is None or target is None:
            # What it uses still tells of cycles.
            return None
        return Load(
            name,
            source,
            target,
            self.mistakes.document.place(*path).line,
            sql=sql,
            python=python,
            expect=expect,
            tags=self._tags(path, values),
            description=self._text(path, values, "description"),
            depends=tuple(depends),
            tables=found,
            folder=str(self.folder),
            file=self.mistakes.name,
        )

    def _own_tables(
        self, path: tuple[str, ...], source: TablesSource, values: Any, tables: Tables
    ) -> tuple[TablesSource, dict[str, str]]:
        """The source with the places of the file's tables, and the names that are such."""
        places, uses = {}, {}
        for name, given in source.tables.items():
            at = (*path, "from", "tables", *_where(values["tables"], name, given))
            if tables.named(given):
                uses[name] = given
                with self.mistakes.at(*at):
                    places[name] = self._place(given, tables)
            elif "/" in given:
                places[name] = given if "://" in given else str(self.folder / given)
            else:
                self.mistakes.add(at, *_no_table(given, tables))
        return source.model_copy(update={"tables": places or source.tables}), uses

    def _place(self, name: str, tables: Tables) -> str:
        load, _, stream = name.partition(".")
        if load in tables.of_streams and not re.fullmatch(r"[^\W_][\w.-]*", stream):
            raise ConfigError(
                f"load {load!r} has a table for each stream",
                f"name the stream: `tables: {{STREAM: {load}.STREAM}}`.",
            )
        return tables.place(name)

    def _expectations(
        self, path: tuple[str, ...], values: Mapping[str, Any]
    ) -> tuple[Expectation, ...]:
        given = values.get("expect") or []
        if not isinstance(given, list):
            self.mistakes.add((*path, "expect"), "`expect` has to be a list", _EXPECT)
            return ()
        made = []
        for at, one in enumerate(given):
            with self.mistakes.at(*path, "expect", at):
                if not isinstance(one, dict):
                    raise ConfigError("an expectation has to hold keys", _EXPECT)
                made.append(Expectation(**one))
        return expectations(made)

    def _text(self, path: tuple[str, ...], values: Mapping[str, Any], key: str) -> str:
        found = values.get(key)
        if found is not None and (not isinstance(found, str) or not found.strip()):
            self.mistakes.add((*path, key), f"`{key}` has to be text", LOAD_KEYS[key])
            return ""
        return found or ""

    def _tags(self, path: tuple[str, ...], values: Mapping[str, Any]) -> tuple[str, ...]:
        given = values.get("tags") or []
        given = [given] if isinstance(given, str) else given
        if not isinstance(given, list) or not all(isinstance(tag, str) for tag in given):
            self.mistakes.add((*path, "tags"), "`tags` has to be a list of names")
            return ()
        return tuple(dict.fromkeys(given))

    def _settings(
        self, kind: Callable[..., _Settings], values: Mapping[str, Any], key: str
    ) -> _Settings | None:
        given = values.get(key)
        if given is not None and not isinstance(given, dict):
            self.mistakes.add((key,), f"`{key}` has to hold keys", TOP_KEYS[key])
            return None
        return None if given is None else self.mistakes.tried((key,), lambda: kind(**given))


def _missing(key: str) -> str:
    return f"the key `{key}` is missing"


def _no_table(name: str, tables: Tables) -> tuple[str, str]:
    return (
        f"no load of the file is called {name!r}{did_you_mean(name, tables.targets)}",
        "name a load, or a table elsewhere by its path or URI, which has a `/` in it.",
    )


def _where(values: Any, name: str, given: str) -> tuple[str | int, ...]:
    """Where a name stands in `tables`, which is a list, a mapping or one text."""
    if isinstance(values, list):
        return (values.index(given),) if given in values else ()
    return (name,) if isinstance(values, dict) else ()
