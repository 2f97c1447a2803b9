"""The exporter blocks in `examples/mage`, run as Mage runs a block: its decorator in globals."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
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


def test_days_that_are_replaced(run: Run, delta: Place) -> None:
    first = {"day": ["2024-03-04", "2024-03-05"], "amount": [1.5, 2.5]}
    run("delta_partition_overwrite", pd.DataFrame(first))
    run("delta_partition_overwrite", pd.DataFrame({"day": ["2024-03-05"], "amount": [9.0]}))
    place = replace(delta, uri=delta.uri.replace("raw/users", "gold/sales"))
    assert place.rows("day", "amount") == [("2024-03-04", 1.5), ("2024-03-05", 9.0)]
    assert place.table().version() == 1
