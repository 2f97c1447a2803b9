"""Webhooks that are told of failures and of data that are too old, and lineage."""

from __future__ import annotations

import json
import sys
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport.config.expectations import Expectation
from lakeport.config.lake import Lineage, Notices
from lakeport.config.sources import DatabaseSource
from lakeport.errors import LoadsFailed, MissingDependency, SourceError
from lakeport.pipeline.lineage import name_dataset, name_inputs
from lakeport.pipeline.run import run_lake as run
from tests.unit.pipeline.hooks import endpoint
from tests.unit.pipeline.kit import Lander, failing, lake_of

FRESH = Expectation(fresh={"column": "at", "within": "1h"}, otherwise="warn")


def failed(lake: Any) -> Any:
    with pytest.raises(LoadsFailed) as caught:
        run(lake)
    return caught.value.report


def test_a_webhook_is_told_of_failures(tmp_path: Path, lander: Lander) -> None:
    lander.steps["a"] = failing(SourceError("gone", "look."))
    with endpoint() as hook:
        lake = lake_of(tmp_path, a={}, b={"depends": ["a"]}, c={})
        report = failed(replace(lake, notices=Notices(failure=f"{hook.url}/x")))
    ((path, headers, body),) = hook.posted
    assert path == "/x"
    assert headers["Content-Type"] == "application/json"
    assert body["text"] == "lakeport, lake.yaml: 1 of 3 loads failed: a"
    assert (body["event"], body["run_id"]) == ("failure", report.run_id)
    assert [(load["load"], load["outcome"]) for load in body["loads"]] == [
        ("a", "failed"),
        ("b", "skipped"),
    ]
    assert body["loads"][0]["error"] == {
        "type": "SourceError",
        "message": "gone",
        "hint": "look.",
    }


def test_nobody_is_told_where_all_is_well(tmp_path: Path, lander: Lander) -> None:
    with endpoint() as hook:
        lake = lake_of(tmp_path, a={})
        assert run(replace(lake, notices=Notices(failure=hook.url, freshness=hook.url))).ok
    assert hook.posted == []


@pytest.mark.parametrize("status", [500, 0])
def test_a_webhook_that_fails_is_a_warning_without_its_path(
    tmp_path: Path, lander: Lander, status: int
) -> None:
    lander.steps["a"] = failing(SourceError("gone"))
    with endpoint(status or 200) as hook:
        url = f"{hook.url}/services/sesame" if status else "http://127.0.0.1:9/services/sesame"
        report = failed(replace(lake_of(tmp_path, a={}), notices=Notices(failure=url)))
    (warning,) = report.warnings
    assert warning.startswith("the notice to 127.0.0.1 could not be sent: ")
    assert "sesame" not in json.dumps(report.to_dict())


def test_a_webhook_is_told_of_tables_to_which_nothing_has_come(
    tmp_path: Path, lander: Lander, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(tmp_path, a={}, b={}, c={})
    lakeport.land([{"id": 1}], tmp_path / "lake", table="a", file_type="delta")
    lakeport.land([{"id": 1}], tmp_path / "lake", table="b", file_type="delta")
    loads = {name: replace(lake.loads[name], expect=(FRESH,)) for name in "ab"} | {
        "c": lake.loads["c"]
    }
    table = str(tmp_path / "lake" / "a")

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(hours=2)

    lander.tables = {"a": table, "b": str(tmp_path / "lake" / "b")}
    monkeypatch.setattr("lakeport.pipeline.report.datetime", Later)
    with endpoint() as hook:
        told = Notices(freshness=hook.url)
        assert run(replace(lake, loads=loads, notices=told), only=["a", "c"]).ok
    (body,) = hook.bodies
    assert body["event"] == "freshness"
    assert [load["load"] for load in body["loads"]] == ["a"]
    assert body["loads"][0]["reason"].startswith(f"no rows have come to {table} since ")


def events(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lineage_goes_to_a_file(tmp_path: Path, lander: Lander) -> None:
    lander.steps["bad"] = failing(SourceError("gone"))
    file = tmp_path / "lineage.json"
    lake = lake_of(tmp_path, good={}, bad={}, user={"depends": ["bad"]})
    failed(replace(lake, lineage=Lineage(file=str(file), namespace="acme")))
    told = events(file)
    kinds = {(event["job"]["name"], event["eventType"]) for event in told}
    assert kinds == {
        ("lake.good", "START"),
        ("lake.good", "COMPLETE"),
        ("lake.bad", "START"),
        ("lake.bad", "FAIL"),
    }
    assert {event["job"]["namespace"] for event in told} == {"acme"}
    assert len({event["run"]["facets"]["parent"]["run"]["runId"] for event in told}) == 1
    runs = {event["run"]["runId"] for event in told}
    assert len(runs) == 2
    assert all(uuid.UUID(run_id) for run_id in runs)
    (end,) = (event for event in told if event["eventType"] == "COMPLETE")
    (table,) = end["outputs"]
    assert (table["namespace"], table["name"]) == ("file", "/lake/good")
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == 1
    assert [field["name"] for field in table["facets"]["schema"]["fields"]] == ["id"]
    (source,) = end["inputs"]
    assert source["name"].endswith("good.csv")
    (failure,) = (event for event in told if event["eventType"] == "FAIL")
    assert failure["run"]["facets"]["errorMessage"]["message"] == "gone"


def test_lineage_goes_to_an_endpoint(tmp_path: Path, lander: Lander) -> None:
    with endpoint() as marquez:
        lineage = Lineage(url=marquez.url, api_key="sesame")
        report = run(replace(lake_of(tmp_path, a={}), lineage=lineage))
    assert [body["eventType"] for body in marquez.bodies] == ["START", "COMPLETE"]
    path, headers, _ = marquez.posted[0]
    assert path == "/api/v1/lineage"
    assert headers["Authorization"] == "Bearer sesame"
    assert "sesame" not in json.dumps(report.to_dict())


def test_an_endpoint_that_fails_is_one_warning(tmp_path: Path, lander: Lander) -> None:
    with endpoint(500) as marquez:
        lineage = Lineage(url=marquez.url)
        report = run(replace(lake_of(tmp_path, a={}, b={}), lineage=lineage), parallel=1)
    assert report.ok
    (warning,) = report.warnings
    assert warning.startswith("lineage could not be sent, and no more is")
    assert len(marquez.posted) == 1


@pytest.mark.parametrize(
    ("place", "namespace", "name"),
    [
        ("s3://lake/bronze/a", "s3://lake", "bronze/a"),
        ("s3a://lake/a b", "s3://lake", "a b"),
        ("gs://lake/a", "gs://lake", "a"),
        ("abfss://c@acc.dfs.core.windows.net/a", "abfss://c@acc.dfs.core.windows.net", "a"),
        ("/data/a", "file", "/data/a"),
    ],
)
def test_names_of_datasets(place: str, namespace: str, name: str) -> None:
    assert name_dataset(place) == (namespace, name)


@pytest.mark.parametrize(
    ("uri", "table", "found"),
    [
        ("postgresql://me:sesame@db:6000/shop", "a.b", ("postgres://db:6000", "shop.a.b")),
        ("jdbc:mysql://db/shop?password=sesame", "b", ("mysql://db:3306", "shop.b")),
        ("sqlite:////data/shop.db", "b", ("file", "/data/shop.db/b")),
    ],
)
def test_names_of_databases_hold_no_secret(uri: str, table: str, found: Any) -> None:
    assert name_inputs(DatabaseSource(database=uri, table=table)) == [found]


def test_a_run_without_lineage_does_without_its_package(
    tmp_path: Path, lander: Lander, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lakeport.pipeline.lineage", None)
    assert run(lake_of(tmp_path, a={})).ok
    with pytest.raises(MissingDependency, match="`openlineage-python`") as caught:
        run(replace(lake_of(tmp_path, a={}), lineage=Lineage(url="http://localhost:1")))
    assert "lakeport[lineage]" in caught.value.hint
