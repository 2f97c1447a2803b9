"""The peers' environments: one each in the user's cache folder, made once from pinned versions."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

PEERS = Path(__file__).parent / "peers"
PINS: dict[str, list[str]] = tomllib.loads((PEERS / "pins.toml").read_text("utf-8"))


def program(name: str, executable: str = "python") -> str:
    """A program of an environment, which is made if it is not there."""
    packages = PINS[name]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256("\n".join([version, *packages]).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakeport"
    folder = cache / "bench-peers" / f"{name}-{digest}"
    if not (folder / ".ready").exists():
        print(f"making {name}'s environment: {', '.join(packages)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "--disable-pip-version-check", *packages], check=True)
        (folder / ".ready").touch()
    return str(folder / "bin" / executable)


def class_archive(variables: Mapping[str, str]) -> None:
    """Make lakeport's archive of classes now: the first run would make it in the background."""
    training = [sys.executable, "-m", "lakeport.engine.spark.jvm.training"]
    training += ["azure", "delta", "s3a"]
    subprocess.run(training, env={**variables}, check=True)


def script(name: str, file: str, *arguments: str) -> tuple[str, ...]:
    """The command of a peer's script in its environment."""
    return (program(name), str(PEERS / file), *arguments)
