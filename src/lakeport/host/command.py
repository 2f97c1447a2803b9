"""The command line that a run was started by, so that its report can tell how to repeat it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from lakeport.scrub import MASK, is_secret_name, scrub, secret_arguments

_TAP: Final = "--from-tap"
_JOINED: Final = frozenset("={ ")

_given: ContextVar[tuple[str, ...] | None] = ContextVar("lakeport_command", default=None)


@contextmanager
def started_by(program: str, arguments: Sequence[str]) -> Iterator[None]:
    """Have what the body runs be started by this command line."""
    token = _given.set((program, *arguments))
    try:
        yield
    finally:
        _given.reset(token)


def command_line() -> tuple[str, ...] | None:
    """The program and its arguments; None for what Python code calls."""
    return _given.get()


def masked(arguments: Iterable[str], secrets: Iterable[str]) -> tuple[str, ...]:
    """The same arguments without secrets.

    Args:
        arguments: a command line.
        secrets: those that are known; what looks like one is masked, too.

    >>> masked(["land", "a.csv", '--config_json={"api_key": "x", "path": "/lake"}'], [])
    ('land', 'a.csv', '--config_json={"api_key": "**********", "path": "/lake"}')
    """
    known, done, before = tuple(secrets), list[str](), ""
    for argument in arguments:
        option, equals, command = argument.partition("=")
        if before == _TAP:
            done.append(_tap(argument, known))
        elif option == _TAP and equals:
            done.append(f"{option}={_tap(command, known)}")
        else:
            done.append(_masked(argument, known))
        before = argument
    return tuple(done)


def _tap(command: str, secrets: tuple[str, ...]) -> str:
    """A tap's command line without the secrets among its arguments, however short they are."""
    try:
        words = shlex.split(command)
    except ValueError:  # a quote is not closed
        return MASK
    for secret in secret_arguments(words):
        words = [
            MASK if word == secret else word.replace(secret, MASK) if _JOINED & {*word} else word
            for word in words
        ]
    return shlex.join(_masked(word, secrets) for word in words)


def _masked(argument: str, secrets: tuple[str, ...]) -> str:
    option, brace, rest = argument.partition("{")
    if brace and (not option or option.endswith("=")):
        try:
            values = json.loads(brace + rest)
        except ValueError:
            return scrub(argument, secrets)
        # Where JSON escapes a secret, it does not look like itself.
        if (safe := _without(values, secrets)) != values:
            return option + json.dumps(safe, ensure_ascii=False)
    return scrub(argument, secrets)


def _without(value: Any, secrets: tuple[str, ...], name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _without(one, secrets, key) for key, one in value.items()}
    if isinstance(value, list):
        return [_without(one, secrets, name) for one in value]
    if not isinstance(value, str):
        return value
    return MASK if value and is_secret_name(name) else scrub(value, secrets)
