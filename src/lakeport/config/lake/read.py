"""Reads and checks a lake file; one error reports every mistake with its line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeVar

from lakeport.config.base import (
    OTHER_NAMES,
    DestinationConfig,
    all_keys,
    canonical_keys,
    config_class,
)
from lakeport.config.expectations import Expectation, parse_expectations
from lakeport.config.explain import did_you_mean
from lakeport.config.files import (
    Document,
    TextPosition,
    collect_texts,
    expand,
    parse_document,
    read_text_and_mode,
)
from lakeport.config.lake.model import LakeFile, Lineage, Load, Notices, find_query_tables
from lakeport.config.load import (
    build_config,
    check_file_mode,
    environment_target,
    flatten_keys,
    override_keys,
    read_target_keys,
    resolve_paths,
)
from lakeport.config.mage.io_config import SINK_KEYS, is_sink, parse_sink
from lakeport.config.sources import ConfigPart, DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.errors import ConfigError
from lakeport.model import Mode
from lakeport.scrub import scrub

T = TypeVar("T")

_MISTAKE_HINT = "`lakeport docs lake-file` explains every key."

KINDS: dict[str, type[ConfigPart]] = {
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
    "target": "The loads' target: keys of a destination, a config file, a folder or a URI; "
    "default: LAKEPORT_TO.",
    "defaults": "Keys of the destination for all loads; a load's own keys win.",
    "loads": "The loads, by name.",
    "lineage": "The receiver of OpenLineage events.",
    "notices": "Webhooks to call on failures, and when data are too old.",
}
LOAD_KEYS = {
    "from": "The source of the load's rows: `files`, `database`, `tap` or `tables`.",
    "sql": "Spark SQL over `source` and other tables of the file, by name.",
    "python": "A function, as module:function, that takes and returns a Spark DataFrame.",
    "expect": "Expectations of the rows, checked before they are committed.",
    "tags": "Names by which `lakeport run --tag` selects loads.",
    "description": "Free text about the load.",
}
_NAME = re.compile(r"[^\W_][\w-]*")
_Part = TypeVar("_Part", bound=ConfigPart)

_MERGE_HINT = (
    "YAML's merge is not supported: write keys that loads share into `defaults`; `*name` stands "
    "for a whole value."
)
_EXPECT_HINT = "write one on each line, such as `- {not_null: [id]}`."


@dataclass
class Mistakes:
    """Collects the mistakes in the lake file `name`, one per position, to raise them together."""

    name: str
    document: Document
    _found: dict[tuple[TextPosition, str], str] = field(default_factory=dict)

    def add(self, path: tuple[str | int, ...], text: str, hint: str = "") -> None:
        """Record a mistake at the key `path`, unless its position has one already."""
        place = self.document.place(*path)
        if any(place == other for other, _ in self._found):
            return
        load = f"load {path[1]!r}: " if path[0:1] == ("loads",) and len(path) > 1 else ""
        self._found[place, load + text] = hint

    @contextmanager
    def collecting(self, *path: str | int) -> Iterator[None]:
        """Context manager that catches a ConfigError and records it as mistakes at `path`."""
        try:
            yield
        except ConfigError as error:
            for below, text, hint in error.problems:
                self.add((*path, *below), text, hint)
            if not error.problems:
                self.add(path, error.message, error.hint)

    def collect(self, path: tuple[str | int, ...], parse: Callable[[], T]) -> T | None:
        """Call `parse` and return its result; record a ConfigError at `path` and return None."""
        with self.collecting(*path):
            return parse()
        return None  # type: ignore[unreachable]  # the context manager suppresses the error

    def raise_if_any(self) -> None:
        """Raise one ConfigError that lists all mistakes by line, if there are any."""
        found = sorted(self._found.items(), key=lambda each: each[0])
        if not found:
            return
        if len(found) == 1:
            ((place, text), hint), *_ = found
            raise ConfigError(f"{self.name}, {place}: {text}", hint or _MISTAKE_HINT)
        lines = "".join(f"\n  - {place}: {text}" for (place, text), _ in found)
        raise ConfigError(f"{self.name} has {len(found)} mistakes:{lines}", _MISTAKE_HINT)


def parse_source(
    given: Any, path: tuple[str, ...], folder: Path, mistakes: Mistakes
) -> ConfigPart | None:
    """Parse a load's `from`; if it is wrong, record a mistake and return None."""
    at = (*path, "from")
    if given is None:
        mistakes.add(path, "the key `from` is missing", _SOURCE_HINT)
        return None
    kinds = [kind for kind in KINDS if isinstance(given, dict) and kind in given]
    if len(kinds) != 1:
        text = f"names {' and '.join(kinds)}: one load has one" if kinds else "names no source"
        mistakes.add(at, f"`from` {text}", _SOURCE_HINT)
        return None
    model, keys = KINDS[kinds[0]], _resolve_source_paths(given, kinds[0], folder, path[-1])
    return mistakes.collect(at, lambda: model(**keys))


def _resolve_source_paths(
    given: dict[str, Any], kind: str, folder: Path, load: str
) -> dict[str, Any]:
    """Join a source's relative paths to `folder`; name a tap after its load."""

    def resolve(value: Any) -> Any:
        if isinstance(value, list):
            return [resolve(item) for item in value]
        elsewhere = not isinstance(value, str) or "://" in value or value.startswith(("~", "file:"))
        return value if elsewhere or not value else str(folder / value)

    keys = dict(given)
    if kind == "files":
        for key in keys.keys() & {"files", "schema"}:
            keys[key] = resolve(keys[key])
    if kind == "tap":
        keys["folder"] = resolve(keys.get("folder", "")) or str(folder)
        keys["name"] = keys.get("name") or load  # taps of one program have a STATE each
    if kind == "database" and isinstance(keys["database"], str):
        match = _RELATIVE_FILE.fullmatch(keys["database"])
        if match:
            keys["database"] = f"{match[1]}:///{folder / match[3]}"
    return keys


def _canonical_target_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a target's keys, or a Mage streaming sink's, under lakeport's names."""
    if is_sink(values):
        values, _ = parse_sink({"prefix": "-", **values}, all_keys())
    return canonical_keys(values)


def all_key_names() -> frozenset[str]:
    """Return every key of any destination, under all its names."""
    return all_keys() | OTHER_NAMES.keys() | SINK_KEYS | {"config", "_streams"}


@dataclass
class SharedTarget:
    """Destination keys shared by all loads of a lake file, from `target` and `defaults`."""

    shared: Mapping[str, Any]
    raw: dict[tuple[str, ...], Mapping[str, Any]]  # path -> the keys there, as they are written
    mistakes: Mistakes
    has_several_loads: bool

    def build_load_target(
        self, name: str, own: Mapping[str, Any], *, table_per_stream: bool
    ) -> DestinationConfig | None:
        """Build a load's target from shared and own keys; if wrong, record it, return None."""
        origins = [("loads", name), ("defaults",), ("target",)]
        keys = override_keys(self.shared, own)
        if not table_per_stream:
            keys |= self._table_keys(name, own, keys)
        try:
            return build_config(keys)
        except ConfigError as error:
            for below, text, hint in error.problems:
                named = [*map(str, below[:1]), *_NAMED.findall(text)]
                path = self._find_key(named[0] if below else "", origins)
                if not below:
                    own_paths = [self._find_key(key, origins[:1]) for key in named]
                    path = next(filter(None, own_paths), ("loads", name))
                self.mistakes.add(path or ("target",), text, hint)
            if not error.problems:
                self.mistakes.add(("target",), error.message, error.hint)
        return None

    def _table_keys(
        self, name: str, own: Mapping[str, Any], keys: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return `table` and `table_uri`, named after the load, unless `own` has them."""
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
        """Record a mistake if several loads share a table's name without `{stream}`."""
        if self.has_several_loads and key in self.shared and _STREAM not in pattern:
            path = self._find_key(key, [("defaults",), ("target",)])
            self.mistakes.add(
                path or ("target",),
                f"`{key}` names one table, and several loads would land in it",
                f"write {_STREAM} in it, for the loads' names; or name the loads' tables.",
            )

    def _find_key(self, key: str, origins: list[tuple[str, ...]]) -> tuple[str | int, ...] | None:
        """Find a key, or an alias, in these parts of the file; return its path, else None."""
        for origin in origins:
            for nested, keys in self.raw.items():
                if nested[: len(origin)] != origin or not isinstance(keys, Mapping):
                    continue
                for written in keys:
                    if OTHER_NAMES.get(written, written) == key:
                        return (*nested, written)
        return None


def _table_identity(target: DestinationConfig) -> tuple[object, ...]:
    """Return a tuple that is equal for two configs if they write the same table."""
    return (
        *(str(getattr(target, key, None)) for key in _PLACE),
        (target.table_pattern or "").strip("/"),
    )


@dataclass(frozen=True)
class LakeTables:
    """The tables that a lake file's loads write; `stream_loads` write one for each stream."""

    targets: Mapping[str, DestinationConfig]  # by the loads' names
    stream_loads: frozenset[str]

    def find_loads(self, name: str) -> tuple[str, ...]:
        """Return the loads that write the table `name`, such as `load.stream`; () if none.

        As in Spark, case does not count, unless two names differ by it alone.
        """
        load = name.partition(".")[0]
        if load in self.targets and load in self.stream_loads:
            return (load,)
        found = [name] if name in self.targets else self._find_similar(name)
        tables = {_table_identity(self.targets[each]) for each in found}
        return tuple(
            each for each, target in self.targets.items() if _table_identity(target) in tables
        )

    def _find_similar(self, name: str) -> list[str]:
        """Return the one load whose name differs by case only, else loads with this `table`."""
        lower = name.casefold()
        loads = [each for each in self.targets if each.casefold() == lower]
        if len(loads) == 1:
            return loads
        return [
            each
            for each, target in self.targets.items()
            if each not in self.stream_loads and target.table is not None and target.table == name
        ]

    def uri(self, name: str) -> str:
        """Return the URI of the table `name`, given as a load, `load.stream` or table name.

        Raises:
            ConfigError: the load has a table for each stream, and the name has no valid stream.
        """
        load, _, stream = name.partition(".")
        if load in self.stream_loads and not re.fullmatch(r"[^\W_][\w.-]*", stream):
            raise ConfigError(
                f"load {load!r} has a table for each stream",
                f"name the stream: `tables: {{STREAM: {load}.STREAM}}`.",
            )
        load = self.find_loads(name)[0]
        target = self.targets[load]
        table = target.table_pattern or _STREAM
        if load in self.stream_loads:
            table = table.replace(_STREAM, stream)
        return target.storage().uri(target.table_folder_name(table.strip("/")))


def sort_loads(depends: Mapping[str, Sequence[str]], mistakes: Mistakes) -> tuple[str, ...]:
    """Sort loads so that dependencies come first; record each cycle as a mistake.

    Otherwise they keep the file's order, which is that of `depends`.
    """
    uses = {name: dict.fromkeys(used) for name, used in depends.items()}
    reported: set[str] = set()
    while True:
        sorter: TopologicalSorter[str] = TopologicalSorter()
        for name in uses:
            sorter.add(name)
        for name, used in uses.items():
            sorter.add(name, *used)
        try:
            return tuple(sorter.static_order())
        except CycleError as error:
            ring = _rotate_cycle(error.args[1][:0:-1], reported, mistakes)  # each uses the next
        lines = [mistakes.document.place("loads", name).line for name in ring]
        path = " -> ".join(f"{name} (line {line})" for name, line in zip(ring, lines, strict=True))
        mistakes.add(
            ("loads", ring[0]),
            f"it uses itself: {path}",
            "a load can't come before itself: have one of them not use the next.",
        )
        reported.add(ring[0])
        del uses[ring[0]][ring[1]]  # there may be other cycles


def _rotate_cycle(cycle: Sequence[str], reported: Collection[str], mistakes: Mistakes) -> list[str]:
    """Return a cycle that begins and ends with its first load in the file not in `reported`."""
    first = min(
        range(len(cycle)),
        key=lambda at: (cycle[at] in reported, mistakes.document.place("loads", cycle[at])),
    )
    return [*cycle[first:], *cycle[: first + 1]]


def check_overwrites(tables: LakeTables, mistakes: Mistakes) -> None:
    """Record a mistake if two loads write one table and either has the mode overwrite."""
    first: dict[tuple[object, ...], str] = {}
    for name, target in tables.targets.items():
        if name in tables.stream_loads:
            continue
        other = first.setdefault(_table_identity(target), name)
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
    """Read and validate a lake file (`lake.yaml`); its paths are relative to its folder.

    Raises:
        ConfigError: it names every mistake with its line.
    """
    path = Path(path)
    name = f"lake file {str(path)!r}"
    text, mode = read_text_and_mode(path)
    document = parse_document(text, name)
    lake = _LakeReader(path, Mistakes(name, document)).read(document.values)
    held = collect_texts(document.values)
    if any(secret in text for text in held for secret in _secrets(lake)):
        return replace(lake, warnings=check_file_mode(path, name, mode, refuse_writable=True))
    return lake


def _secrets(lake: LakeFile) -> Iterator[str]:
    """Yield a lake file's secrets; of sources, only those that `scrub` recognizes."""
    for load in lake.loads.values():
        yield from load.target.secrets()
        yield from (each for each in load.source.secrets() if scrub(each) != each)
    for settings in filter(None, (lake.lineage, lake.notices)):
        yield from settings.secrets()


class _LakeReader:
    """Validates the values of one lake file and builds a `LakeFile` from them."""

    def __init__(self, path: Path, mistakes: Mistakes) -> None:
        self.path = path
        self.folder = path.absolute().parent
        self.mistakes = mistakes

    def read(self, raw: Mapping[str, Any]) -> LakeFile:
        """Build the lake file from its parsed mapping; raise ConfigError with all mistakes."""
        known = {"$schema": "", **TOP_KEYS}
        self._check_keys((), raw, known)
        values = {key: self._expand(value, (key,)) for key, value in raw.items() if key in known}
        loads = self._check_loads(values)
        shared = self._read_shared_target(values, loads)
        tables, sources = self._read_tables_and_sources(loads, shared)
        lineage = self._read_part(Lineage, values, "lineage")
        notices = self._read_part(Notices, values, "notices")
        found = {name: self._read_load(name, loads[name], tables, sources) for name in loads}
        uses = {name: [*load.depends] for name, load in found.items() if load is not None}
        order = sort_loads({name: uses.get(name, []) for name in loads}, self.mistakes)
        check_overwrites(tables, self.mistakes)
        self.mistakes.raise_if_any()
        sorted_loads = {name: load for name in order if (load := found[name]) is not None}
        if lineage is not None and lineage.file:
            lineage = lineage.model_copy(update={"file": str(self.folder / lineage.file)})
        return LakeFile(self.path, sorted_loads, lineage, notices)

    def _check_keys(
        self, path: tuple[str, ...], values: Mapping[str, Any], known: Mapping[str, Any]
    ) -> None:
        """Record a mistake for each key of `values` that is not in `known`."""
        for key in values:
            if key not in known:
                hint = _MERGE_HINT if key == "<<" else ""
                self.mistakes.add(
                    (*path, key), f"there is no key `{key}`{did_you_mean(key, known)}", hint
                )

    def _expand(self, value: Any, path: tuple[str | int, ...]) -> Any:
        """Replace variables in nested values; record unset ones as mistakes, keep those texts."""
        if isinstance(value, dict):
            return {key: self._expand(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._expand(item, (*path, at)) for at, item in enumerate(value)]
        key = next(part for part in reversed(path) if isinstance(part, str))
        found = self.mistakes.collect(path, lambda: expand(value, os.environ, f"`{key}`"))
        return value if found is None else found

    def _check_loads(self, values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return each load's known keys, by load name; record what is wrong as mistakes."""
        loads = values.get("loads")
        if not isinstance(loads, dict) or not loads:
            text = "`loads` has to hold loads, by name" if "loads" in values else _missing("loads")
            self.mistakes.add(("loads",), text, "such as `loads: {flights: {from: {files: …}}}`.")
            return {}
        known = {**LOAD_KEYS, **dict.fromkeys(all_key_names(), "")}
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

    def _read_shared_target(
        self, values: Mapping[str, Any], loads: Mapping[str, Mapping[str, Any]]
    ) -> SharedTarget | None:
        """Read `target` and `defaults`; if one is wrong, record mistakes and return None."""
        raw: dict[tuple[str, ...], Mapping[str, Any]] = {}
        found: dict[str, dict[str, Any]] = {}
        with self.mistakes.collecting("target"):
            if "target" not in values and environment_target() is None:
                raise ConfigError(_missing("target"), TOP_KEYS["target"])
            target = _canonical_target_keys(read_target_keys(values.get("target"), self.folder))
            if isinstance(target.get("destination"), str):  # else the loads' keys tell it
                config_class(target["destination"])
            found["target"] = target
        with self.mistakes.collecting("defaults"):
            given = values.get("defaults") or {}
            if not isinstance(given, dict):
                raise ConfigError("`defaults` has to hold keys", TOP_KEYS["defaults"])
            self._check_keys(("defaults",), given, dict.fromkeys(all_key_names(), ""))
            known = {key: value for key, value in given.items() if key in all_key_names()}
            found["defaults"] = canonical_keys(resolve_paths(flatten_keys(known), self.folder))
        for origin in (("target",), ("defaults",), *(("loads", name) for name in loads)):
            at: Any = values
            for part in origin:
                at = at.get(part) if isinstance(at, dict) else None
            if isinstance(at, dict):
                raw[origin] = at
                raw[*origin, "config"] = at.get("config") or {}
        if len(found) < 2:
            return None
        shared = override_keys(found["target"], found["defaults"])
        return SharedTarget(shared, raw, self.mistakes, len(loads) > 1)

    def _read_tables_and_sources(
        self, loads: Mapping[str, Mapping[str, Any]], shared: SharedTarget | None
    ) -> tuple[LakeTables, dict[str, Any]]:
        """Read the loads' targets and sources; a wrong target is absent, a wrong source None."""
        sources = {}
        found = {}
        stream_loads = set()
        for name, load in loads.items():
            source = parse_source(load.get("from"), ("loads", name), self.folder, self.mistakes)
            sources[name] = source
            singer = isinstance(source, FilesSource) and source.source_format == "singer"
            streams = isinstance(source, TapSource) or singer
            if shared is None:
                continue
            with self.mistakes.collecting("loads", name):
                keys = {key: value for key, value in load.items() if key not in LOAD_KEYS}
                own = canonical_keys(resolve_paths(flatten_keys(keys), self.folder))
                target = shared.build_load_target(name, own, table_per_stream=streams)
                if target is not None:
                    found[name] = target
                    pattern = target.table_pattern
                    if streams and (pattern is None or _STREAM in pattern):
                        stream_loads.add(name)
        return LakeTables(found, frozenset(stream_loads)), sources

    def _read_load(
        self, name: str, values: Mapping[str, Any], tables: LakeTables, sources: Mapping[str, Any]
    ) -> Load | None:
        """Build one `Load` from its keys; return None if its source or target is wrong."""
        path = ("loads", name)
        source, uses = sources[name], dict[str, str]()
        if isinstance(source, TablesSource):
            source, uses = self._resolve_tables(path, source, values["from"], tables)
        sql, python = self._read_text(path, values, "sql"), self._read_text(path, values, "python")
        if python and not re.fullmatch(r"[\w.]+:\w+", python):
            self.mistakes.add((*path, "python"), "`python` has to be module:function")
        expect = self._read_expectations(path, values)
        queried = list(find_query_tables(sql)) if sql else []
        referenced = [each.references_table for each in expect if each.references_table]
        in_source = source.tables if isinstance(source, TablesSource) else {}
        found: dict[str, str] = {}
        for used in dict.fromkeys([*queried, *referenced]):
            if used in in_source or used == "source":
                continue
            if tables.find_loads(used):
                uses[used] = used
                with self.mistakes.collecting(*path, "sql" if used in queried else "expect"):
                    found[used] = tables.uri(used)
            elif used in referenced:
                self.mistakes.add((*path, "expect"), *_no_table(used, tables))
        depends = dict.fromkeys(load for used in uses.values() for load in tables.find_loads(used))
        target = tables.targets.get(name)
        if source is None or target is None:
            return None
        return Load(
            name,
            source,
            target,
            self.mistakes.document.place(*path).line,
            sql=sql,
            python=python,
            expect=expect,
            tags=self._read_tags(path, values),
            description=self._read_text(path, values, "description"),
            depends=tuple(depends),
            tables=found,
            folder=str(self.folder),
            file=self.mistakes.name,
        )

    def _resolve_tables(
        self, path: tuple[str, ...], source: TablesSource, values: Any, tables: LakeTables
    ) -> tuple[TablesSource, dict[str, str]]:
        """Return the source with its tables' paths or URIs, and the tables that loads write."""
        places, uses = {}, {}
        for name, given in source.tables.items():
            at = (*path, "from", "tables", *_path_in_tables(values["tables"], name, given))
            if tables.find_loads(given):
                uses[name] = given
                with self.mistakes.collecting(*at):
                    places[name] = tables.uri(given)
            elif "/" in given:
                places[name] = given if "://" in given else str(self.folder / given)
            else:
                self.mistakes.add(at, *_no_table(given, tables))
        return source.model_copy(update={"tables": places or source.tables}), uses

    def _read_expectations(
        self, path: tuple[str, ...], values: Mapping[str, Any]
    ) -> tuple[Expectation, ...]:
        """Return a load's valid expectations; record the others as mistakes."""
        given = values.get("expect") or []
        if not isinstance(given, list):
            self.mistakes.add((*path, "expect"), "`expect` has to be a list", _EXPECT_HINT)
            return ()
        valid = []
        for at, each in enumerate(given):
            with self.mistakes.collecting(*path, "expect", at):
                if not isinstance(each, dict):
                    raise ConfigError("an expectation has to hold keys", _EXPECT_HINT)
                valid.append(Expectation(**each))
        return parse_expectations(valid)

    def _read_text(self, path: tuple[str, ...], values: Mapping[str, Any], key: str) -> str:
        """Return the text of a load's key, or "" if absent; record a wrong value as a mistake."""
        found = values.get(key)
        if found is not None and (not isinstance(found, str) or not found.strip()):
            self.mistakes.add((*path, key), f"`{key}` has to be text", LOAD_KEYS[key])
            return ""
        return found or ""

    def _read_tags(self, path: tuple[str, ...], values: Mapping[str, Any]) -> tuple[str, ...]:
        """Return a load's tags, each once, or () if absent; record a wrong value as a mistake."""
        given = values.get("tags") or []
        given = [given] if isinstance(given, str) else given
        if not isinstance(given, list) or not all(isinstance(tag, str) for tag in given):
            self.mistakes.add((*path, "tags"), "`tags` has to be a list of names")
            return ()
        return tuple(dict.fromkeys(given))

    def _read_part(
        self, kind: Callable[..., _Part], values: Mapping[str, Any], key: str
    ) -> _Part | None:
        """Parse a top-level key, such as `lineage`, None if absent; record a wrong value."""
        given = values.get(key)
        if given is not None and not isinstance(given, dict):
            self.mistakes.add((key,), f"`{key}` has to hold keys", TOP_KEYS[key])
            return None
        return None if given is None else self.mistakes.collect((key,), lambda: kind(**given))


def _missing(key: str) -> str:
    """Return the message for a missing key."""
    return f"the key `{key}` is missing"


def _no_table(name: str, tables: LakeTables) -> tuple[str, str]:
    """Return the message and the hint for a table name that matches no load."""
    return (
        f"no load of the file is called {name!r}{did_you_mean(name, tables.targets)}",
        "name a load, or a table elsewhere by its path or URI, which has a `/` in it.",
    )


def _path_in_tables(values: Any, name: str, given: str) -> tuple[str | int, ...]:
    """Return the list index or mapping key of an entry in `tables` as a path; () if absent."""
    if isinstance(values, list):
        return (values.index(given),) if given in values else ()
    return (name,) if isinstance(values, dict) else ()
