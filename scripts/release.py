"""What goes with a release: `notes v1.2.3` prints its part of the changelog, `sbom` what is pinned.

`notes` fails unless the tag, the package, the kernel and the changelog name one version. `sbom`
prints a CycloneDX 1.6 document of the Python packages, the jars and the crates of the lock files.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from lakeport.version import __version__
from scripts.audit import Pin, pins

ROOT = Path(__file__).parent.parent
CRATES = ROOT / "native" / "Cargo.lock"


def main(arguments: list[str]) -> None:
    """Print what the arguments ask for, or end with the reason why there is none."""
    match arguments:
        case ["notes", tag]:
            print(release_notes(tag, (ROOT / "CHANGELOG.md").read_text("utf-8"), versions()))
        case ["sbom"]:
            lock = (ROOT / "requirements.lock").read_text("utf-8")
            print(json.dumps(bill_of_materials(pins(lock, CRATES.read_text("utf-8"))), indent=1))
        case _:
            sys.exit("usage: release.py notes TAG | sbom")


def versions() -> dict[str, str]:
    """Return the versions that the package and the kernel say they have."""
    crates = tomllib.loads(CRATES.read_text("utf-8"))["package"]
    kernel = next(crate["version"] for crate in crates if crate["name"] == "lakeport-native")
    return {"src/lakeport/version.py": __version__, "native/Cargo.lock": kernel}


def release_notes(tag: str, changelog: str, named: dict[str, str]) -> str:
    """Return a version's part of the changelog, or exit where a file names another version.

    >>> release_notes("v1.2.0", "## [1.2.0] - 2027-01-02\\n\\nA key is new.\\n", {"a.py": "1.2.0"})
    'A key is new.'
    """
    version = tag.removeprefix("v")
    others = {file: other for file, other in named.items() if other != version}
    if others:
        sys.exit(f"the tag is {tag}, and not the version of: {others}")
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## \[|\Z)"
    found = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        sys.exit(f"CHANGELOG.md has no part `## [{version}] - YYYY-MM-DD`")
    return found[1].strip()


def bill_of_materials(pinned: list[Pin]) -> dict[str, Any]:
    """Return a CycloneDX document of pins, which are named by their package URLs."""
    root = {"type": "library", "name": "lakeport", "version": __version__, "bom-ref": "lakeport"}
    components = [
        {
            "type": "library",
            "name": pin.name,
            "version": pin.version,
            "purl": str(pin),
            "bom-ref": str(pin),
        }
        for pin in sorted(pinned)
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": components,
        "dependencies": [
            {"ref": "lakeport", "dependsOn": [component["bom-ref"] for component in components]}
        ],
    }


if __name__ == "__main__":
    main(sys.argv[1:])
