"""Whether the machines that run the tasks have the Python packages that tasks import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from lakeport.errors import ConfigError, MissingDependency, SparkFailure
from lakeport.spark.failures import translate

if TYPE_CHECKING:
    from lakeport.spark.session import Runtime

__all__ = ["check"]

_ALWAYS: Final = ("lakeport", "pyarrow", "msgspec", "numpy")
_PIP: Final = {
    "azure.storage.blob": "lakeport[azure]",
    "botocore": "lakeport[s3]",
    "google.auth": "lakeport[gcs]",
    "requests": "lakeport[gcs]",
}
_SHIPPED: Final = (
    "pack an environment that has lakeport (`venv-pack -o env.tar.gz`), and set\n"
    "    spark.archives = env.tar.gz#environment\n"
    "    spark.pyspark.python = ./environment/bin/python\n"
)
_OTHERWISE: Final = "or install them in the workers' image"
_SEVERAL: Final = 2  # tasks for each core, so that no worker is left out


def check(runtime: Runtime, packages: Sequence[str] = ()) -> None:
    """Ask the workers for their packages, before anything is written.

    Args:
        runtime: Spark; waited for.
        packages: modules that they need beside those of every load.

    Raises:
        MissingDependency: one is absent; the hint has the settings that bring it.
        ConfigError: the workers' Python is another version, or there is none.
        SparkFailure: Spark did not start, or has no workers.
    """
    names = (*_ALWAYS, *packages)
    context = runtime.context
    tasks = max(1, runtime.cores) * _SEVERAL
    try:
        answers = context.parallelize(range(tasks), tasks).mapPartitions(_look(names)).collect()
    except Exception as error:
        raise _explained(error, runtime.secrets) from error
    absent = {name: (host, python) for host, python, lacks in answers for name in lacks}
    if absent:
        raise _lacking(sorted(absent, key=names.index), *absent[min(absent, key=names.index)])


def _look(names: Sequence[str]) -> Callable[[Iterable[int]], Iterator[tuple[str, str, list[str]]]]:
    """A function that tasks can run without lakeport: as it is nested, it travels by value."""

    def look(_: Iterable[int]) -> Iterator[tuple[str, str, list[str]]]:
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


def _lacking(names: Sequence[str], host: str, python: str) -> MissingDependency:
    told = ", ".join(names)
    if list(names) == ["lakeport"]:
        hint = (
            "its dependencies are there: ship it with `--py-files lakeport.zip` "
            "(`spark.submit.pyFiles`), a zip with the package's folder in it; or "
        )
    else:
        extras = sorted({_PIP.get(name, "lakeport") for name in names})
        hint = f"what brings them is `pip install '{extras[-1]}'`: "
    return MissingDependency(
        f"Spark's workers lack the Python package {told} (host {host}, {python})",
        f"{hint}{_SHIPPED}{_OTHERWISE}.",
    )


def _explained(error: Exception, secrets: Iterable[str]) -> ConfigError | SparkFailure:
    told = str(error)
    if "PYTHON_VERSION_MISMATCH" in told:
        return ConfigError(
            "Spark's workers run another version of Python than this process",
            "set `spark.pyspark.python` to one of the same version on the workers, or "
            + _SHIPPED.rstrip(),
        )
    if "Cannot run program" in told:
        return ConfigError(
            "Spark's workers have no Python where they look for it",
            "set `spark.pyspark.python` to its path on the workers, or " + _SHIPPED.rstrip(),
        )
    if "stopped SparkContext" in told:
        return SparkFailure(
            "the cluster ended the application before a task ran",
            "its workers could not start executors, or no master answered: look into their logs, "
            "and check `spark.master` and whether they can reach `spark.driver.host`.",
        )
    found = translate(error, secrets)
    return SparkFailure(found.message, found.hint)
