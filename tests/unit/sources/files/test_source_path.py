from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeport.errors import SourceError
from lakeport.sources.files.discovery import SourcePath


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x\n1\n")


def listed(source: str, folder: Path, after: str = "") -> list[str]:
    found = SourcePath(source).list_files(f"{folder}/{after}" if after else "")
    return sorted(file.uri.removeprefix(f"{folder}/") for file in found)


@pytest.mark.parametrize("name", ["", "**/*.csv", "*/*.csv", "2026*/*", "2026", "20*"])
def test_what_lies_behind_a_name_is_all_without_what_lies_before(tmp_path: Path, name: str) -> None:
    write(
        tmp_path, "2026/a.csv", "2026/b.csv", "2026-x/c.csv", "2027/_d.csv", "2027/e.csv", "f.csv"
    )
    source = f"{tmp_path}/{name}"
    everything = listed(source, tmp_path)
    for after in ("2026", "2026/a.csv", "2026/b.csv", "2026-x/c.csv", "2027/", "f.csv", "g"):
        assert listed(source, tmp_path, after) == [uri for uri in everything if uri > after]


def test_folders_before_a_name_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "23/a.csv", "24/a.csv", "25/a.csv")
    opened: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (opened.append(str(path)), scandir(path))[1])
    assert listed(str(tmp_path), tmp_path, "24/a.csv") == ["25/a.csv"]
    assert {Path(path).name for path in opened[1:]} == {"24", "25"}


def test_a_place_has_one_name_from_wherever_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "in/a.csv", "other/b.csv")
    monkeypatch.chdir(tmp_path / "other")
    for source in ("../in/*.csv", f"{tmp_path}/other/../in/*.csv", f"{tmp_path}/in/*.csv"):
        assert SourcePath(source).name == f"{tmp_path}/in/*.csv"
        assert listed(source, tmp_path) == ["in/a.csv"]
    assert SourcePath("../in").name == f"{tmp_path}/in"


def test_a_folder_that_can_not_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "in/a.csv", "in/locked/b.csv")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(SourceError, match="/in/locked' can't be listed: Permission denied"):
        list(SourcePath(f"{tmp_path}/in").list_files())
