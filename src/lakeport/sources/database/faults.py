"""What drivers say when something fails -> errors that name it, without a secret or a value.

A database's message may quote a value of a row. Of those about values only the fixed words of
known ones get through; all others are about names, permissions and connections.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from lakeport.errors import LakeportError, SourceError
from lakeport.scrub import scrub

TOO_LONG: Final = "holds whole numbers of more than 38 digits"
"""What the query for a column says of values that no table can hold."""

_PLACE: Final = "see that the URI's host, port and database are right, and that this machine may "
_HINTS: Final = (
    (r"password authentication failed|no password supplied|28P01", "give the right user and "
     "password: in the URI, as ${NAME} from the environment, in PGPASSWORD or in ~/.pgpass."),
    (r'role ".*" does not exist|28000|pg_hba', "name another user, or have the database let this "
     "one in."),
    (r'database ".*" does not exist|3D000', "correct the database's name in the URI."),
    (r"could not translate host name|could not connect|connection refused|failed to connect|"
     r"timeout expired|no route to host|08\w\w\w", _PLACE + "reach them."),
    (r"terminating connection|server closed the connection|no connection to the server|"
     r"could not receive data|connection reset|57P0\d", "nothing of this load has landed; repeat "
     "it when the database is there again."),
    (r"canceling statement|57014", "raise the user's `statement_timeout`, or read less at once by "
     "`split_by` with more `splits`."),
    (r"permission denied|42501|28\w\w\w", "grant this user SELECT on the table, and USAGE on its "
     "schema."),
    (r"snapshot|25001", "the load's first connection broke off, and its snapshot with it: repeat "
     "the load."),
    (r"too many|53300|remaining connection slots", "let the database take more connections, or "
     "set fewer `splits`."),
    (r"could not set lock|conflicting lock|database is locked", "end what writes the file, or "
     "copy it first."),
    (TOO_LONG, "have a `query` that makes the column text: CAST(... AS VARCHAR)."),
    (r"does not exist|unable to open database|cannot open file|no such", "see that the file, the "
     "tables and the columns are there and are spelt so."),
)  # fmt: skip
_ABOUT_VALUES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"invalid input syntax for type [\w ]+",
        r"out of range for type [\w ]+|(integer|bigint|smallint|numeric) out of range",
        r"division by zero",
        r"numeric field overflow",
        r"array value with lower bound not in \{0, 1\} is not supported",
        r"cannot convert \w+ to \w+",
        r"invalid byte sequence for encoding",
        r"conversion error",
    )
)
_HARMLESS: Final = re.compile(
    r"terminating connection[\w ]*|canceling statement due to [\w ]*|no connection to the server"
    r"|server closed the connection unexpectedly|could not receive data from server[\w :]*"
    r"|permission denied for [\w \"]*|invalid snapshot identifier"
    r"|snapshot [\w\"-]* does not exist|SSL [\w ]*error[\w :]*|database is locked"
    r"|out of (shared )?memory"
    rf"|column ['\"].{{1,200}}['\"] {TOO_LONG}",
    re.IGNORECASE,
)
_NAMES: Final = re.compile(r"Failed to prepare|(Binder|Catalog|Parser|IO|Permission) Error:")
_STATE: Final = re.compile(r"SQLSTATE: (\w{5})")
_NAMING: Final = ("08", "0A", "0B", "25", "28", "3D", "3F", "42", "53", "54", "55", "57", "58")
_LONGEST: Final = 300


@contextmanager
def named(place: str, secrets: Sequence[str]) -> Iterator[None]:
    """Raise what a driver raises as an error of ours.

    Args:
        place: what to call the database.
        secrets: what must not be in the message.

    Raises:
        SourceError: the driver raised.
    """
    try:
        yield
    except LakeportError:
        raise
    except Exception as error:
        if not _from_driver(error):
            raise
        found = _error(error, place, secrets)
    else:
        return
    raise found  # outside the handler: the foreign error's text may hold values


def _from_driver(error: Exception) -> bool:
    module = type(error).__module__
    return isinstance(error, OSError) or module.startswith(("adbc_driver_manager", "pyarrow"))


def _error(error: Exception, place: str, secrets: Sequence[str]) -> SourceError:
    text = str(error)
    state = getattr(error, "sqlstate", None) or next(iter(_STATE.findall(text)), "")
    words = scrub(_words(text, state or ""), secrets)
    hint = next((hint for pattern, hint in _HINTS if _about(pattern, words, state)), "")
    return SourceError(f"{place}: {words}", hint or "correct the `query`, the table or the URI.")


def _about(pattern: str, words: str, state: str | None) -> bool:
    return bool(re.search(pattern, f"{words} {state or ''}", re.IGNORECASE))


def _words(text: str, state: str) -> str:
    """What may be told of a message."""
    for pattern in _ABOUT_VALUES:
        if found := pattern.search(text):
            return f"a value of the query can't be read: {found[0].lower()}"
    if found := _HARMLESS.search(text):
        return found[0].strip()
    from_start = "Failed to connect" in text or "Failed to open" in text
    naming = _NAMES.search(text)
    if state[:2] in _NAMING or from_start or naming:
        return _first(text)
    return f"the database ended the query with an error{f' ({state})' if state else ''}"


def _first(text: str) -> str:
    """The message itself: not the query, and not the driver's own words before it."""
    for end in ("\nQuery was:", "\nquery:", "\nLINE ", "\nCandidate bindings:"):
        text = text.partition(end)[0]
    for mark in ("Failed to prepare query:", "Failed to connect:", "FATAL:", "ERROR:", "Error:"):
        before, found, after = text.partition(mark)
        text = after if found else before
    return " ".join(text.split())[:_LONGEST]
