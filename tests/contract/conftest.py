"""Every target that the suite runs on.

A format knows no store and a store no format (an import contract keeps it so). So `make test` lands
in each format on the local disk and on each store in one of its formats, and cases that are decided
before a store is asked run on the local disk alone. An engine knows neither: a case lands on each
target by one engine, Spark or threads, and on the local disk in Delta by both. Which third of the
targets is Spark's differs from case to case, so each target has both. Before a store is asked,
Spark lands in one format and threads in each. `--soak` runs every case on every target by either.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

import lakeport
from tests.contract.targets import (
    AzureFiles,
    GcsFiles,
    LocalFiles,
    RootedTarget,
    S3Files,
    TableTarget,
    Target,
)
from tests.emulators import Azurite, FakeGcs, Minio

LOCAL = ("local-delta", "local-parquet", "local-csv")
STORES = (
    "amazon_s3-parquet",
    "google_cloud_storage-csv",
    "delta_s3-delta",
    "delta_azure-delta",
)
CROSSED = ("amazon_s3-csv", "google_cloud_storage-parquet")
Land = Callable[..., lakeport.LandingReport]
_numbers = count()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the targets of each case."""
    definition = metafunc.definition
    own = any("target" in mark.args[0] for mark in definition.iter_markers("parametrize"))
    if "target" not in metafunc.fixturenames or own:
        return
    threads = metafunc.config.getoption("engine") == "threads"
    by_spark_alone = definition.get_closest_marker("spark") is not None
    if metafunc.config.getoption("soak"):
        targets = (*LOCAL, *STORES, *CROSSED)
    elif definition.get_closest_marker("before_the_store") is not None:
        targets = LOCAL if threads or by_spark_alone else LOCAL[:1]
    else:
        targets = (*LOCAL, *STORES)
        if not by_spark_alone:
            targets = _targets_of_engine(targets, definition.nodeid, threads=threads)
    metafunc.parametrize("target", targets, indirect=True)


def _targets_of_engine(targets: tuple[str, ...], case: str, *, threads: bool) -> tuple[str, ...]:
    """The first target, and of the others each third one for Spark; threads have the rest."""
    first = crc32(case.encode()) % 3
    by_spark = targets[1 + first :: 3]
    return (targets[0], *(each for each in targets[1:] if (each in by_spark) != threads))


@pytest.fixture(
    params=[
        pytest.param("threads", marks=pytest.mark.by_threads),
        pytest.param("spark", marks=pytest.mark.soak),
    ]
)
def engine_of_checks(request: pytest.FixtureRequest) -> str:
    """The engine of cases that the driver decides: threads, and with `--soak` Spark as well."""
    return str(request.param)


@pytest.fixture
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """A fresh, empty root on each destination, in each format that it has."""
    place, _, file_type = request.param.rpartition("-")
    made: Target = getattr(_Places, place)(request, tmp_path, file_type)
    return made


class _Places:
    """How each destination is set up."""

    @staticmethod
    def local(_: pytest.FixtureRequest, tmp_path: Path, file_type: str) -> Target:
        root = tmp_path / "lake"
        keys = {"destination": "local", "path": str(root), "file_type": file_type}
        return Target(f"local-{file_type}", keys, LocalFiles(root), str(root))

    @staticmethod
    def amazon_s3(request: pytest.FixtureRequest, _: Path, file_type: str) -> Target:
        minio: Minio = request.getfixturevalue("minio")
        bucket = f"lake-{next(_numbers)}"
        minio.create_bucket(bucket)
        keys = {
            "destination": "amazon_s3",
            "bucket": bucket,
            **minio.config,
            "file_type": file_type,
        }
        return Target(
            f"amazon_s3-{file_type}", keys, S3Files(minio.client(), bucket), f"s3://{bucket}"
        )

    @staticmethod
    def google_cloud_storage(request: pytest.FixtureRequest, _: Path, file_type: str) -> Target:
        gcs: FakeGcs = request.getfixturevalue("fake_gcs")
        bucket = f"lake-{next(_numbers)}"
        gcs.create_bucket(bucket)
        keys = {
            "destination": "google_cloud_storage",
            "bucket": bucket,
            **gcs.config,
            "file_type": file_type,
        }
        files = GcsFiles(gcs.client(), bucket)
        return Target(f"google_cloud_storage-{file_type}", keys, files, f"gs://{bucket}")

    @staticmethod
    def delta_s3(request: pytest.FixtureRequest, _: Path, file_type: str) -> Target:
        minio: Minio = request.getfixturevalue("minio")
        bucket, root = request.getfixturevalue("bucket"), f"root-{next(_numbers)}"
        keys = {
            "destination": "delta_lake_s3",
            "bucket": bucket,
            "object_key_path": root,
            **minio.config,
            "file_type": file_type,
        }
        options = minio.delta_options
        files = S3Files(minio.client(), bucket, f"{root}/")
        return RootedTarget("delta_s3-delta", keys, files, f"s3://{bucket}/{root}", options)

    @staticmethod
    def delta_azure(request: pytest.FixtureRequest, _: Path, file_type: str) -> Target:
        azurite: Azurite = request.getfixturevalue("azurite")
        container, root = request.getfixturevalue("container"), f"root-{next(_numbers)}"
        keys = {
            "destination": "delta_lake_azure",
            "table_uri": azurite.uri(container, root),
            **azurite.config,
            "file_type": file_type,
        }
        options = azurite.delta_options
        files = AzureFiles(azurite.client(), container, f"{root}/")
        return TableTarget("delta_azure-delta", keys, files, f"az://{container}/{root}", options)


@pytest.fixture(scope="session")
def bucket(minio: Minio) -> str:
    """One for all tables: Spark opens each bucket anew, which takes a moment."""
    return minio.create_bucket("lake-of-tables")


@pytest.fixture(scope="session")
def container(azurite: Azurite) -> str:
    """One for all tables."""
    return azurite.create_container("lake-of-tables")


@pytest.fixture
def land(target: Target) -> Land:
    """Land Singer lines (bytes) or any other source; keyword arguments are config keys."""

    def run(source: Any, *, states: list[bytes] | None = None, **keys: Any) -> Any:
        stream = io.BytesIO(source) if isinstance(source, bytes) else source
        collect = None if states is None else states.append
        return lakeport.land(stream, target.config(**keys), on_state=collect)

    return run
