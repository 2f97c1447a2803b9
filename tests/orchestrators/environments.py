"""Airflow, Dagster and Prefect, each in an environment of its own, with what lakeport needs.

Each is made once in the cache folder from its pinned list (with the emulators: `python -m
tests.emulators --build`), which takes four minutes and 1.8 GB. They lack PySpark and a Java, as
threads do their loads.
"""

from __future__ import annotations

from pathlib import Path

from tests.emulators import Environment

_FOLDER = Path(__file__).parent


def _environment(name: str, version: str) -> Environment:
    """Return the environment of an orchestrator's list."""
    pinned = (_FOLDER / f"{name}.txt").read_text("utf-8")
    return Environment(name, version, name, "python", "bin/python", pinned)


AIRFLOW = _environment("airflow", "3.3.2")
DAGSTER = _environment("dagster", "1.13.29")
PREFECT = _environment("prefect", "3.9.1")
ORCHESTRATORS = (AIRFLOW, DAGSTER, PREFECT)
