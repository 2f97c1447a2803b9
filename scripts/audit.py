"""Dependency audit: are there known vulnerabilities in what is pinned?

`python scripts/audit.py` compares every pin of `requirements.lock`, every pinned jar and every
crate of the native kernel with `scripts/advisories.json`, without a network. `--refresh` asks the
advisory services anew and rewrites that file.
Why it is split so: docs/adr/0009-an-audit-without-a-network.md.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from packaging.requirements import Requirement

from lakeport.engine.spark.jvm.jars import LOCKED

ROOT = Path(__file__).parent.parent
ANSWERS = Path(__file__).with_name("advisories.json")
OSV = "https://api.osv.dev/v1/querybatch"
PYPI = "https://pypi.org/pypi"
_SECONDS = 30
_AT_ONCE = 4


@dataclass(frozen=True, order=True)
class Pin:
    """One version of a package; as text it is a package URL (github.com/package-url).

    >>> str(Pin("maven", "io.delta/delta-storage", "4.4.0"))
    'pkg:maven/io.delta/delta-storage@4.4.0'
    """

    kind: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"pkg:{self.kind}/{self.name}@{self.version}"


def pins(lock: str, crates: str) -> list[Pin]:
    """Every pin of two lock files, and every jar that destinations take from Maven Central.

    Args:
        lock: the text of `requirements.lock`.
        crates: the text of `Cargo.lock`.
    """
    jars = {jar for needed in LOCKED.values() for jar in needed}
    found = {Pin("maven", f"{jar.group}/{jar.artifact}", jar.version) for jar in jars}
    for crate in tomllib.loads(crates)["package"]:
        if "source" in crate:  # else it is ours
            found.add(Pin("cargo", crate["name"], crate["version"]))
    for line in map(str.strip, lock.splitlines()):
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            (version,) = requirement.specifier
            found.add(Pin("pypi", requirement.name, version.version))
    return sorted(found)


def problems(pinned: Iterable[Pin], answers: Mapping[str, Any]) -> list[str]:
    """What is wrong with the pins, by the answers that `refresh` kept."""
    known, accepted = answers["pins"], answers["accepted"]
    wrong, met = [], set()
    for pin in map(str, pinned):
        if pin not in known:
            wrong.append(f"{pin} was never looked up: run `make audit`, and read what it finds")
            continue
        ids = set((known[pin] or {}).get("advisories", ()))
        met |= ids
        if fresh := sorted(ids - accepted.keys()):
            wrong.append(
                f"{pin} is vulnerable ({', '.join(fresh)}): take a version that is not, or say "
                f"under `accepted` in {ANSWERS.name} why it can't hurt here"
            )
    wrong += [f"{name} is accepted, but no pin has it" for name in sorted(accepted.keys() - met)]
    return wrong


def summary(pinned: Sequence[Pin], answers: Mapping[str, Any]) -> str:
    """How far the answers go, in one sentence."""
    known = [answers["pins"][str(pin)] for pin in pinned]
    dates = [answer["date"] for answer in known if answer]
    told = f"{len(dates)} of {len(known)} pins looked up"
    if dates:
        told += f" ({min(dates)} or later)"
    ids = {name for answer in known if answer for name in answer["advisories"]}
    told += f"; {len(ids)} known vulnerabilities, accepted" if ids else "; no known vulnerability"
    left = len(known) - len(dates)
    return f"{told}; no service that could be reached knows the other {left}" if left else told


def refresh(pinned: Sequence[Pin], before: Mapping[str, Any], today: str) -> dict[str, Any]:
    """The answers for these pins; an earlier one stays where no service answers now."""
    found = ask_osv(pinned)
    rest = [pin for pin in pinned if pin not in found and pin.kind == "pypi"]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found |= dict(zip(rest, pool.map(ask_pypi, rest), strict=True))
    answers: dict[str, Any] = {}
    for pin in pinned:
        answer = found.get(pin)
        answers[str(pin)] = (
            before["pins"].get(str(pin))
            if answer is None
            else {"date": today, "service": answer[0], "advisories": answer[1]}
        )
    return {"accepted": before["accepted"], "pins": answers}


Answer = tuple[str, list[str]]


def ask_osv(pinned: Sequence[Pin], url: str = OSV) -> dict[Pin, Answer]:
    """What osv.dev knows of all pins (google.github.io/osv.dev/post-v1-querybatch); empty if it
    can't be reached.
    """
    query = {"queries": [{"package": {"purl": str(pin)}} for pin in pinned]}
    told = _ask(url, json.dumps(query).encode())
    if told is None:
        return {}
    return {
        pin: ("osv.dev", sorted(vuln["id"] for vuln in result.get("vulns", ())))
        for pin, result in zip(pinned, told["results"], strict=True)
    }


def ask_pypi(pin: Pin, url: str = PYPI) -> Answer | None:
    """What PyPI's JSON API knows of a pin; None if it can't be reached or doesn't tell.

    Some mirrors serve only what is said of a project's newest version.
    """
    for path in (f"{pin.name}/{pin.version}", pin.name):
        told = _ask(f"{url}/{path}/json")
        if told is not None and told["info"]["version"] == pin.version:
            return "pypi.org", sorted(
                entry["id"] for entry in told["vulnerabilities"] if not entry.get("withdrawn")
            )
    return None


def _ask(url: str, body: bytes | None = None) -> Any:
    """The JSON that an address answers; None without an answer."""
    request = Request(url, body, {"Content-Type": "application/json"})  # noqa: S310  # ours, above
    try:
        with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
            return json.load(answer)
    except HTTPError as error:
        error.close()
        return None
    except (URLError, TimeoutError, ValueError):  # or a page that a proxy put there
        return None


def main(arguments: Sequence[str]) -> int:
    """Check, or refresh and check; the exit code tells whether something is wrong."""
    locks = (ROOT / "requirements.lock", ROOT / "native" / "Cargo.lock")
    pinned = pins(*(lock.read_text("utf-8") for lock in locks))
    answers = json.loads(ANSWERS.read_text("utf-8"))
    if "--refresh" in arguments:
        answers = refresh(pinned, answers, f"{datetime.now(UTC):%Y-%m-%d}")
        ANSWERS.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n", "utf-8")
    if wrong := problems(pinned, answers):
        print(*wrong, sep="\n", file=sys.stderr)
        return 1
    print(f"Audit: {summary(pinned, answers)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
