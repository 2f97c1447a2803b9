"""A lake's file, read and checked: every mistake with its line, all at once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from lakeport.config.base import canonical
from lakeport.config.classes import config_class
from lakeport.config.expectations import Expectation, expectations
from lakeport.config.explain import nearest
from lakeport.config.files import expand, parse_document, read_with_mode, texts
from lakeport.config.inputs.base import Input
from lakeport.config.inputs.files import FilesSource
from lakeport.config.inputs.tables import TablesSource
from lakeport.config.inputs.tap import TapSource
from lakeport.config.lake.mistakes import Mistakes
from lakeport.config.lake.model import LakeFile, Lineage, Load, Notices
from lakeport.config.lake.names import tables_of
from lakeport.config.lake.order import Tables, in_order, refuse_shared_overwrites
from lakeport.config.lake.sources import source_of
from lakeport.config.lake.targets import Targets, own_keys, shared_keys
from lakeport.config.layers import flat
from lakeport.config.load import exposure
from lakeport.config.target import placed, target_values
from lakeport.errors import ConfigError
from lakeport.scrub import scrub

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


def read_lake(
    path: str | os.PathLike[str], *, environ: Mapping[str, str] | None = None
) -> LakeFile:
    """What a lake's file says.

    Relative paths in it go from the file's own folder.

    Args:
        path: a YAML or JSON file.
        environ: the environment, for `${NAME}`; default: the process's.

    Raises:
        ConfigError: all that is wrong, with lines.
    """
    environ = os.environ if environ is None else environ
    path = Path(path)
    name = f"lake file {str(path)!r}"
    text, mode = read_with_mode(path)
    document = parse_document(text, name)
    reader = _Reader(path, Mistakes(name, document), environ)
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

    def __init__(self, path: Path, mistakes: Mistakes, environ: Mapping[str, str]) -> None:
        self.path = path
        self.folder = path.absolute().parent
        self.mistakes = mistakes
        self.environ = environ

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
                close = nearest(key, known)
                guess = f"; did you mean `{close}`?" if close else ""
                hint = _MERGED if key == "<<" else ""
                self.mistakes.add((*path, key), f"there is no key `{key}`{guess}", hint)

    def _expanded(self, value: Any, path: tuple[str | int, ...]) -> Any:
        """Values with variables replaced; where one is not set, the text stays as it is."""
        if isinstance(value, dict):
            return {key: self._expanded(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._expanded(item, (*path, at)) for at, item in enumerate(value)]
        key = next(part for part in reversed(path) if isinstance(part, str))
        found = self.mistakes.tried(path, lambda: expand(value, self.environ, f"`{key}`"))
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
            target = shared_keys(target_values(values["target"], self.folder, self.environ))
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
        return Targets(
            found["target"], found["defaults"], raw, self.environ, self.mistakes, len(loads) > 1
        )

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
        wanted = list(tables_of(sql)) if sql else []
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


_MERGED = (
    "YAML's merge is not read: keys that loads share are in `defaults`, and `*name` stands for a "
    "value as a whole."
)
_EXPECT = "write one on each line, such as `- {not_null: [id]}`."


def _missing(key: str) -> str:
    return f"the key `{key}` is missing"


def _no_table(name: str, tables: Tables) -> tuple[str, str]:
    close = nearest(name, tables.targets)
    guess = f"; did you mean `{close}`?" if close else ""
    return (
        f"no load of the file is called {name!r}{guess}",
        "name a load, or a table elsewhere by its path or URI, which has a `/` in it.",
    )


def _where(values: Any, name: str, given: str) -> tuple[str | int, ...]:
    """Where a name stands in `tables`, which is a list, a mapping or one text."""
    if isinstance(values, list):
        return (values.index(given),) if given in values else ()
    return (name,) if isinstance(values, dict) else ()
