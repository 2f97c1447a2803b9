"""What `from` says: one of the kinds of sources, with its keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lakeport.config.inputs.base import Input
from lakeport.config.inputs.database import DatabaseSource
from lakeport.config.inputs.files import FilesSource
from lakeport.config.inputs.tables import TablesSource
from lakeport.config.inputs.tap import TapSource
from lakeport.config.lake.mistakes import Mistakes

KINDS: dict[str, type[Input]] = {
    "files": FilesSource,
    "database": DatabaseSource,
    "tap": TapSource,
    "tables": TablesSource,
}
_HINT = "such as `from: {files: data/*.csv}`; the kinds are `files`, `database`, `tap`, `tables`."
_RELATIVE_FILE = re.compile(r"(sqlite|duckdb):(///)?(?!/)(?!:memory:)(.+)")


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
        mistakes.add(path, "the key `from` is missing", _HINT)
        return None
    kinds = [kind for kind in KINDS if isinstance(given, dict) and kind in given]
    if len(kinds) != 1:
        text = f"names {' and '.join(kinds)}: one load has one" if kinds else "names no source"
        mistakes.add(at, f"`from` {text}", _HINT)
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
