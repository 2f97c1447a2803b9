"""Paths to the records within a JSON document: dotted names, or a JSON pointer (RFC 6901)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lakeport.errors import ConfigError


def parse_path(text: str) -> tuple[str, ...]:
    """The names on a path; none for an empty one.

    A pointer, which begins with a slash, has names with dots in them: `/a.b/items`. In it, `~1` is
    a slash and `~0` a tilde.

    Raises:
        ConfigError: a name on a dotted path is empty, or a pointer has a tilde that is neither.

    >>> parse_path("result.items"), parse_path("/a.b/c~1d")
    (('result', 'items'), ('a.b', 'c/d'))
    """
    if text.startswith("/"):
        names = text[1:].split("/")
        if any(re.search("~(?![01])", name) for name in names):
            raise ConfigError(
                f"`records_path` is {text!r}, which is no JSON pointer",
                "in one, a tilde is written `~0`, and a slash within a name `~1`.",
            )
        return tuple(name.replace("~1", "/").replace("~0", "~") for name in names)
    names = text.split(".") if text else []
    if "" in names:
        raise ConfigError(
            f"`records_path` is {text!r}, in which a name is empty",
            "write names with dots between them, such as `result.items`; a name with a dot in it, "
            "as a JSON pointer: `/result/a.b`.",
        )
    return tuple(names)


def format_path(names: Sequence[str]) -> str:
    """A path as `parse_path` takes it.

    >>> format_path(["result", "items"]), format_path(["a.b"])
    ('result.items', '/a.b')
    """
    if all(name and "." not in name and not name.startswith("/") for name in names):
        return ".".join(names)
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
