"""What `lakeport` offers: by name, typed as the config classes are, and nothing private in it."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import typing
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import SecretStr

import lakeport
from lakeport import errors
from lakeport.config.base import config_class, destinations
from lakeport.config.keys import Names, Settings, TargetKeys

ROOT = Path(lakeport.__file__).parent


def test_names_are_sorted_and_there() -> None:
    assert lakeport.__all__ == sorted(lakeport.__all__)
    assert [name for name in lakeport.__all__ if not hasattr(lakeport, name)] == []
    assert set(lakeport.__all__) <= set(dir(lakeport))
    with pytest.raises(AttributeError, match="has no attribute 'lnd'"):
        _ = lakeport.lnd


def test_every_error_is_offered() -> None:
    assert set(errors.__all__) <= set(lakeport.__all__)


def test_nothing_heavy_is_loaded() -> None:
    program = "import sys, lakeport; print(*{name.partition('.')[0] for name in sys.modules})"
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pandas", "pyarrow", "pydantic", "pyspark", "yaml"} & set(loaded)


WRITTEN: dict[Any, set[Any]] = {
    Mapping[str, str]: {Settings},
    SecretStr: {str},
    NoneType: set(),
    tuple[str, ...]: set(get_args(Names)),
}
"""A field's type -> what users write for it, if that is another."""
MORE: dict[str, set[Any]] = {
    "give_up_after": {str},  # such as `2m`
    "google_application_credentials": {Mapping[str, Any]},  # a key's content
    "max_bad_records": {str},  # such as `1%`
}
"""Key -> what is taken for it besides."""


def kinds(annotation: Any) -> set[Any]:
    """The types, and the values of literals, of which an annotation is made."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return kinds(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return {kind for each in get_args(annotation) for kind in kinds(each)}
    if origin is Literal:
        return set(get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return {member.value for member in annotation}
    return {annotation}


def written(annotation: Any) -> set[Any]:
    """What users write for a field."""
    return {each for kind in kinds(annotation) for each in WRITTEN.get(kind, {kind})}


def test_keys_are_those_of_the_configs() -> None:
    wanted: dict[str, set[Any]] = {}
    for name in destinations():
        for key, field in config_class(name).model_fields.items():
            wanted.setdefault(key, set()).update(written(field.annotation), MORE.get(key, ()))
    del wanted["destination"]  # the target tells
    wanted["max_bad_records"].remove(int)  # which `float` includes
    hints = get_type_hints(TargetKeys)
    assert {key: kinds(hint) - {NoneType} for key, hint in hints.items()} == wanted


def own_classes() -> set[str]:
    trees = (ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {node.name for node in nodes if isinstance(node, ast.ClassDef)}


PRIVATE = own_classes() - set(lakeport.__all__) - set(typing.__all__)
OPAQUE = {"DestinationConfig", "StoreKeys", "TargetKeys"}
"""Seen from outside as a whole: the keys in them are described with the configuration."""
NOT_CALLED = {"LandingStream.__init__"}
"""What a function returns and nobody makes."""


def signatures(name: str) -> dict[str, str]:
    """Public function, or class -> its annotations, as text."""
    value = getattr(lakeport, name)
    members: dict[str, Any] = {name: value}
    if inspect.isclass(value):
        members |= {
            f"{name}.{method}": member.fget if isinstance(member, property) else member
            for method, member in vars(value).items()
            if method == "__init__" or not method.startswith("_")
        }
    return {
        member: " ".join(map(str, getattr(found, "__annotations__", {}).values()))
        for member, found in members.items()
        if member not in NOT_CALLED
    }


@pytest.mark.parametrize("name", sorted({*lakeport.__all__} - OPAQUE - {"__version__"}))
def test_no_signature_holds_a_private_type(name: str) -> None:
    for member, types in signatures(name).items():
        assert PRIVATE & set(re.findall(r"\w+", types)) == set(), member
