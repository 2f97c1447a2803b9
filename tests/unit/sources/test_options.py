"""How a description of files says how they are read."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport.config.sources import FilesSource
from lakeport.errors import ConfigError
from lakeport.sources.csv.dialect import CsvOptions
from lakeport.sources.options import ReadOptions


def test_a_description_says_how_files_are_read() -> None:
    source = FilesSource(
        files="in/*.csv",
        source_format="csv",
        csv={"delimiter": ";", "null_values": ["-"]},
        schema={"id": "integer"},
        records_path="data",
        sheet="x",
    )
    assert ReadOptions().merge_source(source) == ReadOptions(
        "csv",
        CsvOptions(delimiter=";", null_values=("-",)),
        {"id": "integer"},
        records_path="data",
        sheet="x",
    )
    assert ReadOptions("csv").merge_source(FilesSource(files="a")) == ReadOptions("csv")


@pytest.mark.parametrize(
    ("given", "keys", "words"),
    [
        (ReadOptions("csv"), {"source_format": "json"}, "`format` is given twice"),
        (
            ReadOptions(),
            {"csv": {"delimeter": ";"}},
            "did you mean .delimiter.",
        ),
        (ReadOptions(), {"csv": {"delimiter": ";;"}}, "delimiter"),
    ],
)
def test_what_can_not_be(given: ReadOptions, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        given.merge_source(FilesSource(files="a", **keys))


@pytest.mark.parametrize("keys", [{"ordered": True}, {"again": "land"}])
def test_what_is_about_new_files(keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="set `new_only`"):
        FilesSource(files="a", **keys)
    assert FilesSource(files=["a", "b"], new_only=True, **keys).names == ["a", "b"]
