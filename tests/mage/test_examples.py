"""The exporter blocks in `examples/mage`, run as Mage runs a block: its decorator in globals."""

from __future__ import annotations

import io
import runpy
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import polars as pl
import pytest

from tests.mage.conftest import Place

BLOCKS = Path(__file__).parents[2] / "examples" / "mage"
Run = Callable[..., None]


@pytest.fixture
def run(delta: Place, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a block on a frame, with credentials from the environment."""
    for name in ("access_key_id", "secret_access_key", "region", "endpoint"):
        monkeypatch.setenv(f"AWS_{name.upper()}", delta.config[f"aws_{name}"])

    def start(block: str, frame: Any) -> None:
        functions: list[Any] = []
        path = BLOCKS / f"{block}.py"
        code = compile(path.read_text(), path, "exec")
        exec(code, {"data_exporter": functions.append, "__name__": block})
        config = BLOCKS / "io_config.yaml"
        functions[0](frame, config_path=config, bucket=delta.config["bucket"])

    return start


def test_a_pandas_frame_in_s3(run: Run, delta: Place) -> None:
    run("pandas_to_s3", pd.DataFrame({"id": [1, 2], "name": ["Ada", None]}))
    place = replace(delta, uri="")
    assert place.rows("id") == [(1,), (2,)]
    csv = pd.read_csv(io.BytesIO(place.files.read("latest/users.csv")))
    assert list(csv.columns) == ["id", "name"] and len(csv) == 2


@pytest.mark.spark
def test_a_spark_frame_in_delta(run: Run, delta: Place) -> None:
    from lakeport.engine.base import SessionRequest
    from lakeport.engine.spark.session import DriverSession

    spark = DriverSession.acquire(SessionRequest({"delta", "s3a", "azure"})).spark
    run("spark_to_delta", spark.createDataFrame([(1, "a"), (2, "b")], "id long, kind string"))
    place = replace(delta, uri=delta.uri.replace("raw/users", "silver/events"))
    assert place.rows("id", "kind") == [(1, "a"), (2, "b")]


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """`lakeport_apart.py` as a block imports it; this interpreter stands for the other one."""
    monkeypatch.setenv("LAKEPORT_PYTHON", sys.executable)
    return runpy.run_path(str(BLOCKS / "lakeport_apart.py"))


def test_a_frame_landed_by_another_interpreter(delta: Place, apart: dict[str, Any]) -> None:
    frame = pd.DataFrame({"id": [1, 2], "name": ["Ada", None]}, index=[7, 8])
    target = apart["DeltaLakeS3"](delta.config)
    assert target.export(frame)["rows"] == 2
    assert target.export(pl.from_pandas(frame), mode="overwrite")["rows"] == 2
    assert delta.rows("id", "name") == [(1, "Ada"), (2, None)]
    assert not any("index" in name for name in delta.arrow().column_names)


def test_credentials_of_a_profile_go_to_another_interpreter(
    delta: Place, apart: dict[str, Any]
) -> None:
    keys = {k: v for k, v in delta.config.items() if not k.startswith("aws_")}
    names = ("access_key_id", "secret_access_key", "region", "endpoint")
    profile = {f"AWS_{name.upper()}": delta.config[f"aws_{name}"] for name in names}
    target = apart["DeltaLakeS3"].with_config(SimpleNamespace(config=profile), **keys)
    target.export(pd.DataFrame({"id": [3]}), table="others")
    assert replace(delta, uri=delta.uri.replace("users", "others")).rows("id") == [(3,)]


def test_errors_of_another_interpreter(
    delta: Place, apart: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, target = pd.DataFrame({"id": [1]}), apart["DeltaLakeS3"](delta.config)
    with pytest.raises(apart["LakeportError"], match=r"`mode`.*\nHint: "):
        target.export(frame, mode="appendix")
    monkeypatch.setenv("LAKEPORT_PYTHON", "/bin/false")
    with pytest.raises(apart["LakeportError"], match=r"ended with code 1.*\nHint: "):
        target.export(frame)
    monkeypatch.delenv("LAKEPORT_PYTHON")
    with pytest.raises(apart["LakeportError"], match=r"LAKEPORT_PYTHON is '', .*\nHint: "):
        target.export(frame)


def test_days_that_are_replaced(run: Run, delta: Place) -> None:
    first = {"day": ["2024-03-04", "2024-03-05"], "amount": [1.5, 2.5]}
    run("delta_partition_overwrite", pd.DataFrame(first))
    run("delta_partition_overwrite", pd.DataFrame({"day": ["2024-03-05"], "amount": [9.0]}))
    place = replace(delta, uri=delta.uri.replace("raw/users", "gold/sales"))
    assert place.rows("day", "amount") == [("2024-03-04", 1.5), ("2024-03-05", 9.0)]
    assert place.table().version() == 1
