"""Words of hints: commands to type, names similar to a wrong one, lists of names."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable

_MOST = 20


def format_command(*words: str) -> str:
    """Return a `lakeport` command, quoted for a shell and in backticks.

    >>> format_command("table", "history", "lake/my people")
    "`lakeport table history 'lake/my people'`"
    """
    return f"`{shlex.join(['lakeport', *words])}`"


def format_alter_command(table: str, column: str, type_: str) -> str:
    """Return the command that changes the type of a table's column, in backticks.

    >>> format_alter_command("lake/my people", "price", "double")
    "`lakeport table alter 'lake/my people' --column price --type double`"
    """
    return format_command("table", "alter", table, "--column", column, "--type", type_)


def find_parent_column(path: str, columns: Iterable[str]) -> str:
    """Return the longest column name that is a dotted prefix of `path`; empty for none.

    >>> find_parent_column("o.p", ["id", "o"]), find_parent_column("p", ["id", "o"])
    ('o', '')
    """
    return max((name for name in columns if path.startswith(f"{name}.")), key=len, default="")


def hint_missing_column(name: str, columns: Iterable[str], intro: str) -> str:
    """Return the hint for a declared column that is missing: its parent, or the existing names.

    `intro` begins the list of names, such as "the records have".

    >>> hint_missing_column("o.p", ["id", "o"], "the records have")
    "types are declared for whole columns: `--column o=json` lands all of 'o' as JSON."
    """
    columns = [*columns]
    whole = find_parent_column(name, columns)
    if whole:
        option = shlex.quote(f"{whole}=json")
        return (
            f"types are declared for whole columns: `--column {option}` lands all of {whole!r} "
            "as JSON."
        )
    return f"{intro} {quote_names(sort_by_similarity(name, columns))}."


def sort_by_similarity(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names, with those spelt most like `name` first.

    >>> sort_by_similarity("prise", ["name", "price"])
    ['price', 'name']
    """

    def alike(other: str) -> float:
        return difflib.SequenceMatcher(None, name.casefold(), other.casefold()).ratio()

    return sorted(known, key=alike, reverse=True)


def quote_names(names: Iterable[str]) -> str:
    """Join quoted names with commas: the first 20, then the number of others.

    >>> quote_names(["a", "b"])
    "'a', 'b'"
    """
    every = [repr(name) for name in names]
    more = len(every) - _MOST
    return ", ".join(every[:_MOST]) + (f" and {more} more" if more > 0 else "")
