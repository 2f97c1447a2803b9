"""What every test shares: the storage servers, one of each for a whole run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from lakeport.engine.spark.jvm import jars
from lakeport.engine.spark.jvm.jars import NEEDS, no_jars_error
from lakeport.engine.spark.jvm.versions import SparkBuild, installed_build
from lakeport.errors import MissingDependency
from tests.emulators import Azurite, FakeGcs, Minio

os.environ["LAKEPORT_CDS"] = "use"  # no background work beside the tests
os.environ["LAKEPORT_WARM"] = "off"  # but where a test says otherwise
os.environ["LAKEPORT_PROGRESS"] = "off"  # what goes on is told by the clock
os.environ["LAKEPORT_VERBOSE"] = "on"  # as beside a terminal

KNOWN_NEEDS = jars.known_needs(NEEDS)
"""What jars are pinned for on the installed Spark."""

# How long an example takes tells of the machine: one that stalls for 0.2 s would fail the test.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("share", _PATIENT, max_examples=20)
settings.register_profile("soak", _PATIENT, max_examples=500)


_BY_THREADS = frozenset({"browser", "fuzz", "property", "screens", "unit"})
_PROCESSES = {f"spark/test_{name}.py" for name in ("adopted_sessions", "head_start", "secrets")}
# In this process.
_WITHOUT_SPARK = _BY_THREADS | {"cluster", "test_emulators.py", "warm", "wheel", *_PROCESSES}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of these tests."""
    parser.addoption(
        "--soak",
        action="store_true",
        help="run what is marked `soak`, too, try every case, and many examples of each property",
    )

    parser.addoption(
        "--engine",
        choices=("spark", "threads"),
        help="engine of the tests' own loads; default: spark, but for tests of single parts",
    )
    parser.addoption(
        "--delta-spark",
        action="store_true",
        help="have delta-spark make every commit to a Delta table, in a session of the tests' own",
    )


def pytest_configure(config: pytest.Config) -> None:
    """How many examples each property is tried with; what the older PySpark leaves open."""
    settings.load_profile("soak" if config.getoption("soak") else "share")
    if installed_build().minor < "4.2":  # it leaves the end of a job's socket to the collector
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
        config.addinivalue_line("filterwarnings", "ignore:distutils Version:DeprecationWarning")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what waits for `--soak`, and from threads what only Spark can do."""
    unwanted = set() if config.getoption("soak") else {"soak"}
    if config.getoption("engine") == "threads":
        unwanted.add("spark")  # threads refuse it by a test
    left_out, kept = [], []
    for item in items:
        marked = any(mark.name in unwanted for mark in item.iter_markers())
        (left_out if marked else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """On a Spark without a Delta, a test may fail by the refusal that says so: `xfailed`."""
    refused: list[MissingDependency] = []

    def refuse(need: str, spark: SparkBuild) -> MissingDependency:
        refused.append(no_jars_error(need, spark))
        return refused[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jars, "no_jars_error", refuse)
        try:
            return (yield)
        except Exception:
            if not refused or "delta" in KNOWN_NEEDS:
                raise
            pytest.xfail(refused[0].message)


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether every case is to be tried."""
    return bool(request.config.getoption("soak"))


@pytest.fixture(scope="session", autouse=True)
def one_spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """One session with all jars, begun first: whatever a test needs, no test ends another's."""
    paths = {item.path.relative_to(Path(__file__).parent) for item in request.session.items}
    folders = {str(path) if str(path) in _PROCESSES else path.parts[0] for path in paths}
    engine = request.config.getoption("engine")
    os.environ["LAKEPORT_ENGINE"] = engine or ("threads" if folders <= _BY_THREADS else "spark")
    if folders <= _WITHOUT_SPARK or engine == "threads":
        yield
        return
    if request.config.getoption("delta_spark"):
        folder = tmp_path_factory.mktemp("session")
        with delta_spark_session(folder, interpreted(request.config)):
            yield
        return
    from lakeport.engine.base import SessionRequest
    from lakeport.engine.spark.session import DriverSession

    driver = DriverSession.acquire(SessionRequest(KNOWN_NEEDS))
    assert driver.context
    for name, value in interpreted(request.config).items():
        driver.spark.conf.set(name, value)
    yield
    driver.stop()


@pytest.fixture(autouse=True)
def threads_where_marked(request: pytest.FixtureRequest, one_spark: None) -> Iterator[None]:
    """Threads for a test that is marked `by_threads`, whatever the engine of the others."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("by_threads"):
            patch.setenv("LAKEPORT_ENGINE", "threads")
        yield


def interpreted(config: pytest.Config) -> dict[str, str]:
    """Settings by which Spark interprets its plans: to compile one costs more than a test's rows.

    With `--soak` it compiles them, as it does for users.
    """
    if config.getoption("soak"):
        return {}
    return {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def delta_spark_session(folder: Path, more: Mapping[str, str]) -> Iterator[None]:
    """A session that somebody else has built, with a setting that only delta-spark knows of."""
    from pyspark.sql import SparkSession

    from lakeport.engine.spark.jvm.jars import ensure_jars
    from lakeport.engine.spark.settings import DELTA_SETTINGS, LOG_STORE_SETTINGS

    settings = {
        **DELTA_SETTINGS,
        **LOG_STORE_SETTINGS,
        "spark.jars": ",".join(map(str, ensure_jars({"delta", "s3a", "azure"}))),
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.databricks.delta.properties.defaults.logRetentionDuration": "interval 30 days",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder),
        "spark.ui.enabled": "false",
        # Spark 3.5 refuses old dates by default.
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        # C1 alone, as a start of our own has it: half the processor time of tests.
        "spark.driver.extraJavaOptions": (
            "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
        ),
        **more,
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield
    session.stop()


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    """A MinIO server."""
    with Minio(tmp_path_factory.mktemp("minio")) as server:
        yield server


@pytest.fixture(scope="session")
def fake_gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGcs]:
    """A fake-gcs-server."""
    with FakeGcs(tmp_path_factory.mktemp("gcs")) as server:
        yield server


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """An Azurite server."""
    with Azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture(scope="module", params=["native", "python"])
def fast_path(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever reads Singer, JSON and CSV: the native kernel, or Python without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEPORT_NATIVE", "on" if request.param == "native" else "off")
        yield
