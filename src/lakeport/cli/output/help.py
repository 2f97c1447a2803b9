"""Help pages: commands and options in groups, and examples at the end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import typer
from typer.completion import install_callback, show_callback
from typer.core import TyperCommand, TyperGroup

LAND: Final = "Land"
LOOK: Final = "Look"
KEEP: Final = "Keep in order"
SET_UP: Final = "Set up"
_GROUPS: Final = (LAND, LOOK, KEEP, SET_UP)
_COMPLETION: Final = {
    "--install-completion": install_callback,
    "--show-completion": show_callback,
}
_TYPE: Final = re.compile(r"<[^>]*>")


def about(group: str, *examples: str, words: str = "") -> dict[str, Any]:
    r"""How a command is shown: `app.command("land", **about(LAND, "lakeport land a.csv ..."))`.

    Args:
        group: the heading that the program's help has it under.
        examples: command lines, which end its own help.
        words: a paragraph before them.

    >>> about(LOOK, "lakeport tables ./lake")["epilog"]
    '\x08\nExamples:\n  lakeport tables ./lake'
    """
    lines = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples)])
    epilog = "\n\n".join(filter(None, (words, lines)))
    return {"cls": _Command, "rich_help_panel": group, "epilog": epilog}


def help_alone(ctx: typer.Context) -> None:
    """The callback of a group of commands: shows what there is where none is named."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


class _Command(TyperCommand):
    """A command whose options stand under the headings that they name."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What may stand behind the command's name."""
        return [
            piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options, and the options of each heading."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                name = param.metavar or (param.name or "").upper()
                record = (_named(record[0], name, param.param_type_name), record[1])
                plain = "Arguments" if param.param_type_name == "argument" else "Options"
                heading = getattr(param, "rich_help_panel", None) or plain
                sections.setdefault(heading, []).append(record)
        _write(formatter, sections)


def _named(shown: str, name: str, kind: str) -> str:
    """What a parameter is called in a help page, its value by a name, not by Python's type.

    >>> _named("--table <str>", "TABLE", "option"), _named("SQL <str>", "SQL", "argument")
    ('--table TABLE', 'SQL')
    """
    return name if kind == "argument" else _TYPE.sub(name, shown)


class Commands(TyperGroup):
    """A program or a group of commands; its help has the commands under their groups' headings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take a shell's name behind the options about completion, which else ask what runs."""
        if ctx.parent is None and len(args) == 2 and args[0] in _COMPLETION:
            param: Any = None  # they have no use for it
            _COMPLETION[args[0]](ctx, param, args[1])  # ends the process
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, those of groups of commands by their whole names."""
        sections: dict[str, list[tuple[str, str]]] = {group: [] for group in _GROUPS}
        for name, command in _leaves(self, ""):
            group = getattr(command, "rich_help_panel", None) or SET_UP
            sentence = (command.help or "").strip().partition("\n")[0]
            sections.setdefault(group, []).append((name, sentence))
        _write(formatter, sections)


def _leaves(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _leaves(command, f"{path}{name} ")
        elif not command.hidden:
            yield f"{path}{name}", command


def _write(formatter: Any, sections: dict[str, list[tuple[str, str]]]) -> None:
    for heading, rows in _filled(sections.items()):
        with formatter.section(heading):
            formatter.write_dl(rows)


def _filled(sections: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    return ((heading, rows) for heading, rows in sections if rows)
