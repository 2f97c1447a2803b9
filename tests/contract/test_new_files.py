"""Files that are landed once, into every destination."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakeport
from lakeport.errors import ConfigError, SourceError
from tests.contract.conftest import Land
from tests.contract.targets import INTEGER, Target, record, schema, singer


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


def deliver(inbox: Path, *ids: int) -> None:
    for number in ids:
        (inbox / f"{number}.json").write_text(json.dumps({"id": number}) + "\n")


def test_each_load_lands_what_came_since(target: Target, land: Land, inbox: Path) -> None:
    source = lakeport.FilesSource(files=f"{inbox}/*.json", new_only=True)
    landed: list[int] = []
    for ids in ((1, 2), (), (3,), (4, 5, 6)):
        deliver(inbox, *ids)
        landed += ids
        report = land(source, table="t")
        assert report.rows == len(ids)
        assert target.ids("t") == landed
    assert report.streams[0].notes == ("3 new files, 6 files looked at",)


def test_nothing_new_is_told_and_leaves_nothing(target: Target, land: Land, inbox: Path) -> None:
    deliver(inbox, 1)
    source = lakeport.FilesSource(files=str(inbox), new_only=True)
    land(source, table="t")
    before = set(target.files.keys())
    (stream,) = land(source, table="t").streams
    assert (stream.rows, stream.batches) == (0, 0)
    assert stream.notes == ("nothing new: 1 file looked at",)
    left = set(target.files.keys()) - before
    assert not [key for key in left if "/t/" in f"/{key}"]  # the report's own file lies outside


@pytest.mark.before_the_store
def test_a_changed_file_is_an_error_and_nothing_lands(
    target: Target, land: Land, inbox: Path
) -> None:
    deliver(inbox, 1)
    source = lakeport.FilesSource(files=str(inbox), new_only=True)
    land(source, table="t")
    (inbox / "1.json").write_text('{"id": 1}\n{"id": 10}\n')
    deliver(inbox, 2)
    with pytest.raises(SourceError, match=r"1\.json' has changed since it was landed"):
        land(source, table="t")
    assert target.ids("t") == [1]
    land(source.model_copy(update={"again": "ignore"}), table="t")
    assert target.ids("t") == [1, 2]
    land(source.model_copy(update={"again": "land"}), table="t")
    assert target.ids("t") == [1, 1, 2, 10]


@pytest.mark.parametrize("target", ["local-delta"], indirect=True)
def test_an_overwrite_is_refused(target: Target, land: Land, inbox: Path) -> None:
    deliver(inbox, 1)
    source = lakeport.FilesSource(files=str(inbox), new_only=True)
    with pytest.raises(ConfigError, match="would replace the table"):
        land(source, table="t", mode="overwrite")


@pytest.mark.before_the_store
@pytest.mark.parametrize("name", ["t.singer", "t.jsonl"])
def test_singer_files_are_refused(target: Target, land: Land, inbox: Path, name: str) -> None:
    (inbox / name).write_bytes(singer(schema("t", {"id": INTEGER}), record("t", id=1)))
    with pytest.raises(ConfigError, match="several streams"):
        land(lakeport.FilesSource(files=str(inbox), new_only=True), table="t")


@pytest.mark.before_the_store
def test_a_description_without_new_only_is_as_good_as_names(
    target: Target, land: Land, inbox: Path
) -> None:
    (inbox / "a.txt").write_text("id;name\n1;a\n2;-\n")
    source = lakeport.FilesSource(
        files=f"{inbox}/*.txt",
        source_format="csv",
        csv={"delimiter": ";", "null_values": ["-"]},
        schema={"id": "integer"},
    )
    for times in (1, 2):
        assert land(source, table="t").rows == 2
        rows = target.rows("t")
        assert len(rows) == 2 * times
        assert {row["name"] for row in rows} == {"a", None}


@pytest.mark.parametrize("target", ["local-delta"], indirect=True)
def test_a_full_refresh_lands_what_is_there(target: Target, inbox: Path) -> None:
    deliver(inbox, 1, 2)
    source = lakeport.FilesSource(files=str(inbox), new_only=True)
    config = target.config(table="t")
    lakeport.land(source, config)
    (inbox / "1.json").write_text('{"id": 10}\n')
    report = lakeport.land(source, config, full_refresh=True)
    assert report.rows == 2
    assert target.ids("t") == [2, 10]
    assert lakeport.land(source, config).rows == 0
