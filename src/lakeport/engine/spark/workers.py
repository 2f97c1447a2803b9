"""The check that Spark's workers have the Python packages that tasks import."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from lakeport.engine.spark.jobs import JobLabel, run_in_group, run_partitions
from lakeport.errors import ConfigError, LakeportError, MissingDependency, SparkFailure
from lakeport.host.packages import pip_requirement

if TYPE_CHECKING:
    from pyspark import SparkContext

    from lakeport.engine.spark.session import DriverSession

_log = logging.getLogger(__name__)
_Answer = tuple[str, str, list[str]]
_checked: WeakKeyDictionary[SparkContext, set[tuple[str, str]]] = WeakKeyDictionary()
_SILENCE_SECONDS: Final = 60.0

_ALWAYS: Final = ("lakeport", "pyarrow", "msgspec", "numpy")
_SHIPPED: Final = (
    "pack an environment that has lakeport (`venv-pack -o env.tar.gz`), and set\n"
    "    spark.archives = env.tar.gz#environment\n"
    "    spark.pyspark.python = ./environment/bin/python\n"
)
_OTHERWISE: Final = "or install them in the workers' image"
_WAITING: Final = (
    "no worker has taken a task for %d s: has the cluster free cores and memory for one "
    "(spark.cores.max, spark.executor.memory), and can it reach spark.driver.host?"
)
_TASKS_PER_CORE: Final = 2  # so that no worker is left out


def check_packages(session: DriverSession, packages: Sequence[str] = ()) -> None:
    """Raise MissingDependency unless workers import lakeport and `packages`. Runs a Spark job.

    Waits for Spark's start, and logs a warning if no worker answers for a minute.

    Raises:
        MissingDependency: one is absent; the hint has the settings that bring it.
        ConfigError: the workers' Python is another version, or there is none.
        SparkFailure: Spark did not start, or has no workers.
    """
    context = session.context
    known = _checked.setdefault(context, set())
    names = [name for name in (*_ALWAYS, *packages) if (session.python, name) not in known]
    if not names:
        return
    tasks = max(1, session.cores) * _TASKS_PER_CORE

    def ask() -> list[_Answer]:
        return run_partitions(session, range(tasks), _package_finder(names))

    silence = threading.Timer(_SILENCE_SECONDS, _log.warning, [_WAITING, _SILENCE_SECONDS])
    silence.daemon = True
    silence.start()
    try:
        answers = run_in_group(session, JobLabel("look for the workers' packages"), ask)
    except LakeportError as error:
        raise _explain_failure(error) from error.__cause__
    finally:
        silence.cancel()
    absent = {name: (host, python) for host, python, lacks in answers for name in lacks}
    if absent:
        lacking = sorted(absent, key=names.index)
        raise _missing_packages_error(lacking, *absent[lacking[0]], is_local=session.is_local)
    known |= {(session.python, name) for name in names}


def _package_finder(names: Sequence[str]) -> Callable[[Iterable[int]], Iterator[_Answer]]:
    """Return a `mapPartitions` function that yields host, Python and missing packages."""

    def look(_: Iterable[int]) -> Iterator[_Answer]:  # nested, so it needs no lakeport
        import importlib
        import socket
        import sys

        lacks = []
        for name in names:
            try:
                importlib.import_module(name)
            except ImportError:
                lacks.append(name)
        yield socket.gethostname(), sys.executable, lacks

    return look


def _missing_packages_error(
    names: Sequence[str], host: str, python: str, *, is_local: bool
) -> MissingDependency:
    """Return the error for packages that a worker's Python lacks, with a hint to ship them."""
    packages = ", ".join(names)
    if is_local and python != sys.executable:
        return MissingDependency(
            f"the Python that Spark starts for its tasks ({python}) lacks the package {packages}",
            "`PYSPARK_PYTHON` (or `spark.pyspark.python`) has to be set before the session is made "
            f"to this process' Python: {sys.executable}",
        )
    if list(names) == ["lakeport"]:
        hint = (
            "its dependencies are there: ship it with `--py-files lakeport.zip` "
            "(`spark.submit.pyFiles`), a zip with the package's folder in it; or "
        )
    else:
        requirements = sorted(map(pip_requirement, names))
        hint = f"what brings them is `pip install '{requirements[-1]}'`: "
    return MissingDependency(
        f"Spark's workers lack the Python package {packages} (host {host}, {python})",
        f"{hint}{_SHIPPED}{_OTHERWISE}.",
    )


def _explain_failure(error: LakeportError) -> LakeportError:
    """Return a clearer error if the cause is a missing or wrong Python; else `error` itself."""
    words = str(error.__cause__)
    if "PYTHON_VERSION_MISMATCH" in words:
        return ConfigError(
            "Spark's workers run another version of Python than this process",
            "`PYSPARK_PYTHON` (or `spark.pyspark.python`) has to name one of the same version on "
            "the workers; or " + _SHIPPED.rstrip(),
        )
    if "Cannot run program" in words:
        return ConfigError(
            "Spark's workers have no Python where they look for it",
            "`PYSPARK_PYTHON` (or `spark.pyspark.python`) has to name its path on the workers; or "
            + _SHIPPED.rstrip(),
        )
    if "stopped SparkContext" in words:
        return SparkFailure(
            "the cluster ended the application before a task ran",
            "its workers could not start executors, or no master answered: look into their logs, "
            "and check `spark.master` and whether they can reach `spark.driver.host`.",
        )
    return error
