"""The loads of a lake's file: which uses which, and what each does or has come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from lakeport.html.charts import arrows
from lakeport.html.document import render


@dataclass(frozen=True, slots=True)
class LoadBox:
    """A load as pages show it.

    Attributes:
        name: its name.
        uses: the loads that it uses.
        words: what it does, or what became of it, in one line.
        state: `ok`, `failed`, or empty for neither.
        facts: names and values.
        columns: column -> type.
        warnings: sentences to look at.
        error: what it failed with: `type`, `message`, `hint`.
    """

    name: str
    uses: Sequence[str]
    words: str
    state: str = ""
    facts: Sequence[tuple[str, object]] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    error: Mapping[str, Any] | None = None


def loads_body(
    title: str,
    file: str,
    totals: Sequence[tuple[str, object]],
    loads: Sequence[LoadBox],
    warnings: Sequence[str] = (),
) -> Markup:
    """A page of loads, with arrows from each to those that use it.

    Args:
        title: what it is a page of.
        file: the lake's file.
        totals: facts of all together.
        loads: each behind those that it uses.
        warnings: sentences that concern no single load.
    """
    uses = {load.name: load.uses for load in loads}
    known = {name: [each for each in used if each in uses] for name, used in uses.items()}
    return render(
        "loads.html",
        title=title,
        file=file,
        totals=totals,
        loads=loads,
        warnings=warnings,
        arrows=arrows(known),
    )
