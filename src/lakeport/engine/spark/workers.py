"""The check that Spark's workers have the Python, lakeport and packages that tasks need."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from lakeport.engine.base import is_connect
from lakeport.engine.spark.jobs import run_in_group
from lakeport.engine.spark.jvm.versions import MASTER_PORT, find_other_master
from lakeport.engine.tasks import JobLabel
from lakeport.errors import ConfigError, LakeportError, MissingDependency, SparkFailure
from lakeport.host.packages import pip_requirement
from lakeport.version import __version__

if TYPE_CHECKING:
    from lakeport.engine.spark.jobs import JobSession

T = TypeVar("T")

_log = logging.getLogger(__name__)
_Answer = tuple[str, str, list[str], str | None]
_checked: WeakKeyDictionary[object, set[tuple[str, str]]] = WeakKeyDictionary()
_SILENCE_SECONDS: Final = 60.0

_ALWAYS: Final = ("lakeport", "pyarrow", "msgspec", "numpy", "pydantic")
_SHIPPED: Final = (
    "pack an environment that has lakeport (`venv-pack -o env.tar.gz`), and set\n"
    "    spark.archives = env.tar.gz#environment\n"
    "    spark.pyspark.python = ./environment/bin/python\n"
)
_SHIPPED_BY_CONNECT: Final = (
    "pack an environment that has lakeport (`venv-pack -o env.tar.gz`), and ship it\n"
    '    spark.addArtifacts("env.tar.gz#environment", archive=True)\n'
    '    spark.conf.set("spark.sql.execution.pyspark.python", "./environment/bin/python")\n'
)
_PY_FILES: Final = "`--py-files lakeport.zip` (`spark.submit.pyFiles`)"
_PY_FILES_BY_CONNECT: Final = "`spark.addArtifacts('./lakeport.zip', pyfile=True)`"
_OTHERWISE: Final = "or install them in the workers' image"
_WAITING: Final = (
    "no worker has taken a task for %d s: has the cluster free cores and memory for one "
    "(spark.cores.max, spark.executor.memory), and can it reach spark.driver.host?"
)
_TASKS_PER_CORE: Final = 2  # so that no worker is left out
_STOPPED: Final = re.compile(r"stopped SparkContext|SparkContext (has been|was) shut ?down")


def check_packages(session: JobSession, packages: Sequence[str] = ()) -> None:
    """Raise MissingDependency unless workers import lakeport and `packages`. Runs a Spark job.

    Waits for Spark's start, and logs a warning if no worker answers for a minute.

    Raises:
        MissingDependency: one is absent; the hint has the settings that bring it.
        ConfigError: Python, Spark or lakeport is another version there; or there is no Python.
        SparkFailure: Spark did not start, or has no workers.
    """
    identity = session.identity
    known = _checked.setdefault(identity, set())
    names = [name for name in (*_ALWAYS, *packages) if (session.python, name) not in known]
    if not names:
        return

    def ask() -> list[_Answer]:
        tasks = max(1, session.cores) * _TASKS_PER_CORE
        return session.run_partitions(range(tasks), _package_finder(names))

    silence = threading.Timer(_SILENCE_SECONDS, _log.warning, [_WAITING, _SILENCE_SECONDS])
    silence.daemon = True
    silence.start()
    try:
        answers = ask_workers(session, "look for the workers' packages", ask)
    finally:
        silence.cancel()
    absent = {name: (host, python) for host, python, lacks, _ in answers for name in lacks}
    if absent:
        lacking = sorted(absent, key=names.index)
        raise _missing_packages_error(lacking, *absent[lacking[0]], session)
    for host, python, _, version in answers:
        if version not in (None, __version__):  # None: it was compared before
            raise _other_version_error(version, host, python, identity)
    known |= {(session.python, name) for name in names}


def ask_workers(session: JobSession, label: str, ask: Callable[[], T]) -> T:
    """Return what `ask` does, in a job; a clearer error if the workers' Python or Spark is wrong.

    Raises:
        LakeportError: see `check_packages`.
    """
    try:
        return run_in_group(session, JobLabel(label), ask)
    except LakeportError as error:
        raise _explain_failure(error, session.identity) from error.__cause__


def _package_finder(names: Sequence[str]) -> Callable[[Iterable[int]], Iterator[_Answer]]:
    """Return a function for tasks: yields host, Python, missing packages, lakeport's version."""

    def look(_: Iterable[int]) -> Iterator[_Answer]:  # nested, so it needs no lakeport
        import importlib
        import socket
        import sys

        lacks, version = [], None
        for name in names:
            try:
                found = importlib.import_module(name)
                if name == "lakeport":
                    version = str(getattr(found, "__version__", ""))
            except ImportError:
                lacks.append(name)
        yield socket.gethostname(), sys.executable, lacks, version

    return look


def _shipped(identity: object) -> str:
    """Return the way to ship an environment to a session's workers, for hints."""
    return _SHIPPED_BY_CONNECT if is_connect(identity) else _SHIPPED


def _other_version_error(
    version: str | None, host: str, python: str, identity: object
) -> ConfigError:
    """Return the error for a worker whose lakeport is another version than this process'."""
    return ConfigError(
        f"Spark's workers have lakeport {version}, and this process has {__version__} "
        f"(host {host}, {python})",
        f"both have to be of one version: {_shipped(identity)}{_OTHERWISE}.",
    )


def _missing_packages_error(
    names: Sequence[str], host: str, python: str, session: JobSession
) -> MissingDependency:
    """Return the error for packages that a worker's Python lacks, with a hint to ship them."""
    packages = ", ".join(names)
    remote = is_connect(session.identity)
    if session.is_local and not remote and python != sys.executable:
        return MissingDependency(
            f"the Python that Spark starts for its tasks ({python}) lacks the package {packages}",
            "`PYSPARK_PYTHON` (or `spark.pyspark.python`) has to be set before the session is made "
            f"to this process' Python: {sys.executable}",
        )
    if list(names) == ["lakeport"]:
        by = _PY_FILES_BY_CONNECT if remote else _PY_FILES
        hint = (
            f"its dependencies are there: ship it with {by}, a zip with the package's folder in "
            "it; or "
        )
    else:
        requirements = sorted(map(pip_requirement, names))
        hint = f"what brings them is `pip install '{requirements[-1]}'`: "
    return MissingDependency(
        f"Spark's workers lack the Python package {packages} (host {host}, {python})",
        f"{hint}{_shipped(session.identity)}{_OTHERWISE}.",
    )


def _explain_failure(error: LakeportError, context: Any) -> LakeportError:
    """Return a clearer error if the cause is a wrong Python or Spark; else `error` itself."""
    remote, shipped = is_connect(context), _shipped(context).rstrip()
    where = "of the server" if remote else "(or `spark.pyspark.python`)"
    words = str(error.__cause__)
    if "PYTHON_VERSION_MISMATCH" in words:
        found = re.search(r"different version:? \(?(\d+)[., ]+(\d+)", words)
        theirs = "Python " + ".".join(found.groups()) if found else "another version of Python"
        return ConfigError(
            f"Spark's workers run {theirs}, and this process runs "
            f"Python {sys.version_info.major}.{sys.version_info.minor}",
            f"`PYSPARK_PYTHON` {where} has to name one of the same version on the workers; or "
            f"{shipped}",
        )
    if "Cannot run program" in words:
        return ConfigError(
            "Spark's workers have no Python where they look for it",
            f"`PYSPARK_PYTHON` {where} has to name its path on the workers; or {shipped}",
        )
    if absent := re.search(r"No module named '(\w+)'", words):  # Spark's own code imports it
        return MissingDependency(
            f"Spark's workers lack the Python package {absent[1]}",
            f"{_shipped(context)}{_OTHERWISE}.",
        )
    differs = "InvalidClassException" in words  # Java's name for an object of another version
    if not remote and (differs or _STOPPED.search(words)):
        own = str(context.version)
        if other := find_other_master(context.master, context.getConf().get(MASTER_PORT), own):
            return other
        if differs:
            return ConfigError(
                f"Spark's workers run another version of Spark than this process' {own}",
                "install the PySpark of the cluster's version; the master's page or the "
                "workers' logs name it.",
            )
        return SparkFailure(
            "the cluster ended the application before a task ran",
            "its workers could not start executors, or no master answered: look into their logs, "
            "and check `spark.master` and whether they can reach `spark.driver.host`. An "
            f"InvalidClassException there means that they run another Spark than {own}.",
        )
    return error
