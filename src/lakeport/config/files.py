"""Parses config files: YAML or JSON to plain values, without tags, merges or alias bombs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from lakeport.config.mage.templates import hide, index_with_templates, render, restore
from lakeport.config.references import REFERENCE, resolve_reference
from lakeport.errors import ConfigError

_LARGEST = 1 << 20  # bytes of a file
_DEEPEST = 32  # levels of nesting
_MOST_ALIASES = 20  # k aliases a level for n levels: at most 1600 times the text when k * n <= 20
_SCALARS = (
    ("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ("~", "n", "N", "")),
    ("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"),
    ("tag:yaml.org,2002:int", re.compile(r"^-?(?:0|[1-9][0-9]*)$"), "-0123456789"),
    (
        "tag:yaml.org,2002:float",
        re.compile(r"^-?(?:0|[1-9][0-9]*)\.[0-9]+(?:[eE][-+]?[0-9]+)?$"),
        "-0123456789",
    ),
)

_END_OF_LINE = re.compile(r"\r\n|\r|\n")  # YAML knows more, but editors don't count those


def read_text(path: Path) -> str:
    """Return the text of a config file; see `read_text_and_mode`."""
    return read_text_and_mode(path)[0]


def read_text_and_mode(path: Path) -> tuple[str, int]:
    """Return a config file's text and its Unix file mode; ConfigError for over 1 MiB.

    Raises:
        ConfigError: it can't be read, is larger, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise ConfigError(
            f"the file {str(path)!r} can't be read: {error.strerror}",
            "name a file that exists and that you may read.",
        ) from None
    if len(data) > _LARGEST:
        raise ConfigError(
            f"the file {str(path)!r} is larger than 1 MiB: that is no config",
            "name a file of keys; data are given as sources.",
        )
    try:
        return data.decode("utf-8-sig"), mode
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"the file {str(path)!r} is not UTF-8 at byte {error.start}, in line {line}",
            "save it as UTF-8.",
        ) from None


def parse_text(text: str, name: str) -> dict[str, Any]:
    """Parse YAML or JSON text to a mapping; dates stay text. `name` is for error messages.

    Raises:
        ConfigError: the text is no mapping, repeats a key, has a tag or too many aliases, is nested
            too deeply, or is not YAML at all.

    Example:
        >>> parse_text("path: ./lake\\nrun_id: 2024-03-04", "lake.yaml")
        {'path': './lake', 'run_id': '2024-03-04'}
    """
    return parse_document(text, name).values


def parse_document(text: str, name: str) -> Document:
    """Parse a YAML or JSON mapping; return its values and the positions of its keys.

    Raises:
        ConfigError: as for `parse_text`.

    Example:
        >>> parse_document("loads:\\n  flights: {}", "lake.yaml").place("loads", "flights")
        TextPosition(line=2, column=3)
    """
    try:
        values = _parse_json(text) if text.lstrip().startswith("{") else None
        if values is not None:
            return Document(_check_mapping(values, name), partial(_compose_json, text, name))
        return _parse_with_templates(text, name)
    except RecursionError:
        raise _nesting_error(name) from None
    except _RepeatedKeyError as error:
        raise ConfigError(f"{name}: {error}", "keep one of them.") from None
    except ValueError:  # from Python's int: both parsers raise errors of their own otherwise
        raise ConfigError(
            f"{name} holds a whole number of more than {sys.get_int_max_str_digits()} digits",
            "write it in quotes if it is meant as text.",
        ) from None


def expand(
    value: Any,
    environ: Mapping[str, str],
    name: str,
    depth: int = 0,
) -> Any:
    """Replace references such as `${NAME}` in nested texts by values; `$${` becomes `${`.

    See `lakeport.config.references`. Mage's templates are rendered too (see
    `lakeport.config.mage.templates`). Errors name the file `name`; `value` is nested `depth` levels
    deep.

    Raises:
        ConfigError: a variable or secret is missing, or values are nested too deeply.

    Example:
        >>> expand({"path": "${HOME}/$${x}"}, {"HOME": "/home/ada"}, "lake.yaml")
        {'path': '/home/ada/${x}'}
    """
    if depth > _DEEPEST:
        raise _nesting_error(name)
    if isinstance(value, dict):
        return {key: expand(item, environ, name, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, environ, name, depth + 1) for item in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        escaped, reference = match.groups()
        return match[0][1:] if escaped else resolve_reference(reference, environ, name)

    return render(value, environ, name, lambda text: REFERENCE.sub(replace, text))


def collect_texts(value: Any, depth: int = 0) -> set[str]:
    """Return all strings in nested lists and mappings, to 32 levels deep, without the keys."""
    if depth > _DEEPEST:
        return set()
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return {text for item in value for text in collect_texts(item, depth + 1)}
    return {value} if isinstance(value, str) else set()


class _RepeatedKeyError(Exception):
    """A mapping has a key twice."""


def _check_mapping(values: Any, name: str) -> dict[str, Any]:
    """Return parsed YAML or JSON unchanged; raise ConfigError unless it is a mapping."""
    if not isinstance(values, dict):
        raise ConfigError(f"{name} holds no keys", "write one `key: value` on each line.")
    return values


def _nesting_error(name: str) -> ConfigError:
    """Return the error for values that are nested too deeply."""
    return ConfigError(f"{name} is nested too deeply", "keys need two or three levels at most.")


def _parse_json(text: str) -> Any:
    """Parse JSON text, None if it is invalid; raise an error for a repeated key."""

    def build_mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key in values:
                line = _second_line(text, key)
                raise _RepeatedKeyError(f"the key {key!r} is given twice{line}")
            values[key] = value
        return values

    try:
        return json.loads(text, object_pairs_hook=build_mapping)
    except json.JSONDecodeError:
        return None


def _second_line(text: str, key: str) -> str:
    """Return ", again in line N" for a key that stands twice in JSON text; else empty."""
    places = [m.start() for m in re.finditer(re.escape(json.dumps(key)) + r"\s*:", text)]
    return f", again in line {text.count(chr(10), 0, places[1]) + 1}" if len(places) == 2 else ""


def _parse_with_templates(text: str, name: str) -> Document:
    """Parse YAML; if that fails, parse it with placeholders for Mage's `{{ }}` templates."""
    try:
        return _parse_yaml(ConfigText(text), name)
    except ConfigError:
        hidden, templates = hide(text)
        if not templates:
            raise
        return _parse_yaml(ConfigText(text, hidden, templates), name)


def _parse_yaml(text: ConfigText, name: str) -> Document:
    """Parse a YAML mapping; replace placeholders in its values by Mage's templates again."""
    loader = _make_loader(text, name)
    with _translate_yaml_errors(text, name):
        root = loader.get_single_node()
        values = None if root is None else loader.construct_document(root)
    values = _check_mapping(restore(values, text.templates), name)
    return Document(values, lambda: (root, text))


def _compose_json(text: str, name: str) -> tuple[Any, ConfigText]:
    """Parse JSON as YAML for positions; return the root node, None if it fails, and the text."""
    whole = ConfigText(text, text.replace("\t", " "))  # YAML refuses tabs
    try:
        with _translate_yaml_errors(whole, name):
            return _make_loader(whole, name).get_single_node(), whole
    except (ConfigError, RecursionError):  # such as a key of more than 1024 characters
        return None, whole


@contextmanager
def _translate_yaml_errors(text: ConfigText, name: str) -> Iterator[None]:
    """Context manager that turns PyYAML's errors into ConfigError with line and column."""
    import yaml

    try:
        yield
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        index = mark.index if mark else getattr(error, "position", None)
        where = "" if index is None else f", {text.place(index)}"
        problem = getattr(error, "problem", None) or "it is neither YAML nor JSON"
        raise ConfigError(
            f"{name}{where}: {problem}", "write one `key: value` on each line."
        ) from None


def _make_loader(text: ConfigText, name: str) -> Any:
    """Return a safe YAML loader; it refuses tags, repeated keys, deep nesting, many aliases."""
    import yaml

    class Loader(yaml.SafeLoader):
        """A loader of YAML's core types: no tags, timestamps or merges, and few aliases."""

        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012
        aliases = depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            mark: Any = event.start_mark
            if isinstance(event, yaml.AliasEvent):
                self.aliases += 1
                if self.aliases > _MOST_ALIASES:
                    raise yaml.constructor.ConstructorError(None, None, "too many aliases", mark)
            elif getattr(event, "tag", None) not in (None, "!"):
                raise yaml.constructor.ConstructorError(
                    None, None, "tags such as !!python are not allowed", mark
                )
            self.depth += 1
            if self.depth > _DEEPEST + 1:
                raise RecursionError
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def fetch_flow_collection_start(self, token: Any) -> None:
            # The scanner is far ahead, and ever slower the more brackets are open.
            if self.flow_level > _DEEPEST + 1:
                raise RecursionError
            super().fetch_flow_collection_start(token)

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            first: dict[Any, int] = {}
            for key_node, _ in node.value:
                key, index = key_node.value, key_node.start_mark.index
                if not isinstance(key, str):
                    raise yaml.constructor.ConstructorError(
                        None, None, "a key is not text", key_node.start_mark
                    )
                if key in first:
                    one, two = (text.place(at).line for at in (first[key], index))
                    where = f"lines {one} and {two}" if one != two else f"line {one}"
                    raise _RepeatedKeyError(f"the key {key!r} is given twice, in {where}")
                first[key] = index
                key_node.tag = "tag:yaml.org,2002:str"
            return super().construct_mapping(node, deep=True)

    for tag, pattern, starts in _SCALARS:
        Loader.add_implicit_resolver(tag, pattern, list(starts))
    with _translate_yaml_errors(text, name):  # the constructor checks the characters
        return Loader(text.parsed)


class TextPosition(NamedTuple):
    """A line and a column of a text, both from 1; a tab is one column."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class ConfigText:
    """A config file's text, and the text to parse, with placeholders for Mage's templates."""

    whole: str
    hidden: str = ""  # with a numbered word in place of each template; empty: none is hidden
    templates: Sequence[str] = ()  # by the words' numbers

    @property
    def parsed(self) -> str:
        """The text that the parser reads."""
        return self.hidden or self.whole

    def place(self, index: int) -> TextPosition:
        """Convert an index in `parsed` to a line and column of the file."""
        at = index_with_templates(self.parsed, self.templates, index)
        line, start = 1, 0
        for end in _END_OF_LINE.finditer(self.whole, 0, at):
            line, start = line + 1, end.end()
        return TextPosition(line, at - start + 1)


class Document:
    """A parsed config file's values; `compose` parses its text again to find a key's position."""

    def __init__(
        self, values: dict[str, Any], compose: Callable[[], tuple[Any, ConfigText]]
    ) -> None:
        self.values = values
        self._compose = cache(compose)

    def place(self, *path: str | int) -> TextPosition:
        """Return the line and column of a key or list item; if absent, of its closest parent."""
        node, text = self._compose()
        index = 0 if node is None else node.start_mark.index
        for part in path:
            found = _find_child(node, part, text.templates)
            if found is None:
                break
            index, node = found
        return text.place(index)


def _find_child(node: Any, part: str | int, templates: Sequence[str]) -> tuple[int, Any] | None:
    """Find a key or list item in a YAML node; return its index and value node, None if absent."""
    items = getattr(node, "value", None)
    if not isinstance(items, list):
        return None
    if node.id == "mapping":
        for key, value in items:
            if restore(key.value, templates) == part:
                return key.start_mark.index, value
    elif isinstance(part, int) and part < len(items):
        return items[part].start_mark.index, items[part]
    return None
