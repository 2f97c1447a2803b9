"""What a table is opened for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeport.config.load import load_target
from lakeport.destinations import open_storage, open_table
from lakeport.errors import ConfigError


@pytest.mark.parametrize("file_type", ["parquet", "csv"])
def test_files_stay_out_of_a_delta_table(tmp_path: Path, file_type: str) -> None:
    """Its readers would not see them, and its vacuum would remove them."""
    config = load_target(tmp_path, {"file_type": file_type})
    storage = open_storage(config)
    no_spark: Any = None
    (tmp_path / "sales" / "_delta_log").mkdir(parents=True)
    assert open_table(config, storage, no_spark, "sales").uri == str(tmp_path / "sales")
    (tmp_path / "sales" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    with pytest.raises(ConfigError, match=f"is a Delta table, and `file_type` is '{file_type}'"):
        open_table(config, storage, no_spark, "sales")
    assert open_table(config, storage, no_spark, "sale").uri == str(tmp_path / "sale")
