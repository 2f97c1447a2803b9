"""The page of a table: versions, files, partitions, columns, readers, first rows."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from markupsafe import Markup

from lakeport.html.charts import count_size_bins, draw_growth, draw_histogram, draw_rows_over_time
from lakeport.html.document import render_template
from lakeport.html.text import build_tag, build_time_tag, format_file_size, format_share, truncate
from lakeport.units import format_count, format_size, pluralize

if TYPE_CHECKING:
    from lakeport.lake.records import ColumnFacts, TableFacts

_MOST_PARTITIONS = 1000
_LONGEST = 200  # characters of a value


@dataclass(frozen=True, slots=True)
class Preview:
    """A table's first rows as text, with a note about them.

    Attributes:
        columns: titles, each with `n` for numbers.
        rows: of each cell its text, and `n` for numbers.
        note: a remark on the rows; empty for none.
    """

    columns: Sequence[tuple[str, str]] = ()
    rows: Sequence[Sequence[tuple[str, str]]] = ()
    note: str = ""


def render_table_page(facts: TableFacts, preview: Preview, *, masked: bool = False) -> Markup:
    """Render a table's page: figures, growth, columns, first rows. `masked` hides all values."""
    versions = facts.versions
    partitions = sorted(facts.by_partition, key=lambda p: -p.bytes)

    def value(text: str | None) -> Markup | str:
        if text is None:
            return ""
        return build_tag("span", "masked", class_="note") if masked else truncate(text, _LONGEST)

    return render_template(
        "table.html",
        t=facts,
        totals=_list_totals(facts),
        warnings=[*([facts.warning] if facts.warning else []), *facts.notes],
        rows=draw_growth(versions, lambda v: v.rows, "rows") if versions else "",
        sizes=draw_growth(versions, lambda v: v.bytes, "size", format_size, 130)
        if versions
        else "",
        grown=draw_rows_over_time(facts.growth),
        points=[(datetime.fromtimestamp(at, UTC), rows) for at, rows in facts.growth],
        histogram=draw_histogram(facts.file_sizes, facts.small_file_bytes, facts.target_file_bytes),
        band=f"The band marks {format_file_size(facts.small_file_bytes)} to "
        f"{format_file_size(facts.target_file_bytes)}: large enough to be read fast.",
        bins=count_size_bins(facts.file_sizes),
        partitions=partitions[:_MOST_PARTITIONS],
        more_partitions=max(0, len(partitions) - _MOST_PARTITIONS),
        nulls_share=lambda column: _format_nulls_share(column, facts.rows),
        value=value,
        preview=Preview(note="The rows are masked.") if masked else preview,
        commands=_list_commands(facts),
    )


def render_table_part(facts: TableFacts) -> Markup:
    """Render a table for a notebook: its figures, its growth and its columns."""
    return render_template(
        "part_table.html", t=facts, totals=_list_totals(facts), rows=_draw_growth(facts)
    )


def _draw_growth(facts: TableFacts) -> Markup:
    """Draw a table's rows by version, or over time if it has fewer than two versions."""
    if len(facts.versions) > 1:
        return draw_growth(facts.versions, lambda v: v.rows, "rows", height=120)
    return draw_rows_over_time(facts.growth, 120)


def _list_totals(facts: TableFacts) -> list[tuple[str, object]]:
    """Return (label, value) pairs of a table's format, rows, size, files and version."""
    few = f", {format_count(facts.small_files)} small" if facts.warning else ""
    told: list[tuple[str, object]] = [
        ("format", facts.format),
        ("rows", format_count(facts.rows)),
        ("size", format_size(facts.bytes)),
        ("files", f"{format_count(facts.files)}{few}"),
        ("columns", format_count(len(facts.columns))),
    ]
    if facts.partition_columns:
        words = f"{format_count(len(facts.by_partition))} by {', '.join(facts.partition_columns)}"
        told.append(("partitions", words))
    if facts.cluster_columns:
        told.append(("clustered by", ", ".join(facts.cluster_columns)))
    if facts.versions:
        older = (
            f", {format_count(facts.older_versions)} older ones gone"
            if facts.older_versions
            else ""
        )
        told.append(("version", f"{format_count(facts.versions[-1].number)}{older}"))
    if facts.last_change is not None:
        told.append(("last change", build_time_tag(facts.last_change)))
    if facts.last_writer:
        told.append(("written by", facts.last_writer))
    return told


def _format_nulls_share(column: ColumnFacts, rows: int | None) -> str:
    """Format the share of a column's nulls in brackets; empty if there are none."""
    return f" ({format_share(column.nulls or 0, rows)})" if rows and column.nulls else ""


def _list_commands(facts: TableFacts) -> list[tuple[str, str]]:
    """Return (purpose, command line) pairs for the table, such as to optimize or vacuum it."""
    uri = shlex.quote(facts.uri)
    told = [("Show it in a terminal", f"lakeport table show {uri}")]
    if not facts.versions:
        return [*told, ("Show some rows", f"lakeport table preview {uri}")]
    if facts.warning:  # merging a few saves nothing
        words = f"Merge its {pluralize(facts.small_files, 'small file')}"
        told.append((words, f"lakeport table optimize {uri}"))
    told += [
        ("See which files nobody needs any more", f"lakeport table vacuum {uri} --dry-run"),
        ("Delete them", f"lakeport table vacuum {uri}"),
    ]
    last = next((version for version in reversed(facts.versions) if version.changed), None)
    if last is None or last is facts.versions[0]:
        return told
    if last.run_id:
        line = f"lakeport table undo {uri} {shlex.quote(last.run_id)}"
        told.append((f"Undo the newest run, {last.run_id}", line))
    before = last.number - 1
    line = f"lakeport table restore {uri} --version {before}"
    return [*told, (f"Bring back version {before:,}", line)]
