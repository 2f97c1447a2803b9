"""Config files: refused with a `ConfigError`, or the values that Python's json and yaml read."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from lakeport.errors import ConfigError
from tests.fuzz.case import Case, Changed
from tests.fuzz.oracle.kernels import MEMORY
from tests.unit.config.kit import load_file, load_target, read_sink_interval

_PLAIN = ("table", "bucket", "run_id", "object_key_path", "internal_columns_prefix")


def check(case: Case) -> None:
    environ = case.options["environ"]
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder, "lake.yaml")
        path.write_bytes(case.data)
        path.chmod(0o600)
        for load in (load_file, load_target):
            try:
                found = load(path, environ=environ)
            except ConfigError as error:
                _check_error(error)
                continue
            repr(found)
            if load is load_file:
                _check_values(case.data, found)
        try:
            read_sink_interval(path, environ=environ)
        except ConfigError as error:
            _check_error(error)
    _check_mapping(case.data, environ)


def _check_error(error: ConfigError) -> None:
    if not error.message or len(str(error)) > 20_000:
        raise Changed("an error of no words, or of too many", len(str(error)))
    str(error).encode("utf-8", "backslashreplace")


def _check_values(data: bytes, config: Any) -> None:
    """Texts without templates are what the file says."""
    try:
        told = json.loads(data.decode("utf-8-sig"))
    except ValueError:
        return
    inner = told.get("config")
    told = {**told, **inner} if isinstance(inner, dict) else told
    for key in _PLAIN:
        value, found = told.get(key), getattr(config, key, None)
        if isinstance(value, str) and not {"$", "{"} & set(value) and hasattr(config, key):
            wanted = value.strip("/") if key == "object_key_path" else value
            if found != wanted:
                raise Changed("a key has another value than the file", key, value, found)


def _check_mapping(data: bytes, environ: dict[str, str]) -> None:
    """The same keys from Python, as whatever json makes of them."""
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(told, dict):
        return
    try:
        repr(load_target(told, environ=environ))
    except ConfigError as error:
        _check_error(error)
