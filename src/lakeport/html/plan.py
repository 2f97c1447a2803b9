"""What a load would do: source, steps, tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from markupsafe import Markup

from lakeport.html.document import render
from lakeport.units import count, counted

Plan = Mapping[str, Any]

_MODES = {
    "append": "append the rows to {}",
    "overwrite": "replace the rows of {}",
    "merge": "merge the rows into {} by their keys",
}


def plan_body(plan: Plan) -> Markup:
    """The page of a plan, which notebooks show as well.

    Args:
        plan: as `LandingPlan.to_dict` gives it.
    """
    streams = [{**each, "table": _name(each["table"])} for each in plan["streams"]]
    rows = [each["rows"] for each in streams]
    known = sum(value for value in rows if value >= 0)
    unknown = any(value < 0 for value in rows)
    totals = [
        ("mode", plan["mode"]),
        ("format", plan["file_type"]),
        ("tables", count(len(streams))),
        ("rows", f"{count(known)}{' and more' if unknown else ''}"),
        ("files, about", count(sum(max(0, each["files"]) for each in streams))),
    ]
    source = {"title": plan.get("source") or "Source", "words": counted(len(streams), "stream")}
    return render(
        "plan.html",
        plan={**plan, "streams": streams},
        totals=totals,
        source=source,
        steps=_steps(plan, streams),
        doing=lambda stream: _doing(stream, plan["mode"]),
        stream_facts=_stream_facts,
    )


def _steps(plan: Plan, streams: list[dict[str, Any]]) -> list[str]:
    columns = [column for each in streams for column in each["columns"]]
    new = sum(column["change"] == "new" for column in columns)
    bad = sum(each["bad"] for each in streams)
    keys = dict.fromkeys(key for each in streams for key in each["partition_keys"])
    tables = counted(len(streams), "table")
    return [
        "read every record",
        *([f"{counted(bad, 'bad record')}: fail or set aside, as configured"] if bad else []),
        f"give {counted(len(columns), 'column')} their types",
        *([f"add {counted(new, 'new column')}"] if new else []),
        *([f"partition by {', '.join(keys)}"] if keys else []),
        f"write {plan['file_type']} files",
        _MODES.get(plan["mode"], plan["mode"] + " {}").format(tables),
    ]


def _doing(stream: Mapping[str, Any], mode: str) -> str:
    rows = "" if stream["rows"] < 0 else f", {counted(stream['rows'], 'row')}"
    if not stream["exists"]:
        return f"is made{rows}"
    version = f", on version {stream['version']:,}" if stream["version"] >= 0 else ""
    return f"{mode}{rows}{version}"


def _stream_facts(stream: Mapping[str, Any]) -> list[tuple[str, object]]:
    return [
        ("table", stream["table"] if stream["exists"] else f"{stream['table']} (new)"),
        ("rows", count(stream["rows"])),
        ("files, about", count(stream["files"])),
        ("partitions", ", ".join(stream["partition_keys"]) or "none"),
        ("columns", count(len(stream["columns"]))),
    ]


def _name(uri: str) -> str:
    return unquote(uri.rstrip("/").rpartition("/")[2]) or uri
