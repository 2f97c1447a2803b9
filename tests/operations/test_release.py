"""What goes with a release: one version everywhere, notes, licenses, and sound workflows."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from scripts.audit import Pin
from scripts.release import CRATES, bill_of_materials, release_notes, versions
from tests.emulators import ACTIONLINT

ROOT = Path(__file__).parents[2]
CHANGELOG = """\
# Changelog

## [Unreleased]

## [0.2.0] - 2027-02-03

A key is new.

## [0.1.0] - 2027-01-02

The first version.
"""


def test_package_and_kernel_have_one_version() -> None:
    assert len(set(versions().values())) == 1, versions()


def test_notes_are_the_versions_part_of_the_changelog() -> None:
    assert release_notes("v0.2.0", CHANGELOG, {"a": "0.2.0"}) == "A key is new."
    assert release_notes("v0.1.0", CHANGELOG, {"a": "0.1.0"}) == "The first version."


@pytest.mark.parametrize(
    ("tag", "version", "reason"),
    [
        ("v0.2.0", "0.1.0", "the tag is v0.2.0, and not the version of: {'a': '0.1.0'}"),
        ("v0.3.0", "0.3.0", r"CHANGELOG.md has no part `## \[0.3.0\] - YYYY-MM-DD`"),
    ],
)
def test_a_tag_of_another_version_makes_no_release(tag: str, version: str, reason: str) -> None:
    with pytest.raises(SystemExit, match=reason):
        release_notes(tag, CHANGELOG, {"a": version})


def test_bill_of_materials_names_packages_by_their_urls() -> None:
    document = bill_of_materials([Pin("maven", "io.delta/delta-storage", "4.4.0")])
    (component,) = document["components"]
    assert component["purl"] == "pkg:maven/io.delta/delta-storage@4.4.0"
    assert document["dependencies"][0]["dependsOn"] == [component["bom-ref"]]


def test_notices_name_each_crate_of_the_kernel() -> None:
    notices = (ROOT / "THIRD-PARTY-NOTICES.txt").read_text("utf-8")
    crates = tomllib.loads(CRATES.read_text("utf-8"))["package"]
    # Those of other platforms' compilers, and our own.
    named = [f"{crate['name']} {crate['version']}" for crate in crates if "source" in crate]
    assert [name for name in named if name not in notices] == [], "`make notices`"


def test_workflows_pass_a_linter() -> None:
    workflows = sorted(ROOT.glob(".github/workflows/*.yml"))
    done = subprocess.run([ACTIONLINT.path(), *workflows], capture_output=True, text=True)
    assert len(workflows) == 2
    assert (done.stdout, done.returncode) == ("", 0)
