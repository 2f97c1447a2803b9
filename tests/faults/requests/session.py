"""All that cases need, running: the stores, the proxies before them, and one warm Spark session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.session import DriverSession
from tests.emulators import Azurite, FakeGcs, Minio
from tests.faults.requests.sites import Site, sites


@contextmanager
def running(data: Path) -> Iterator[dict[str, Site]]:
    """Start everything; the destinations by their names.

    Args:
        data: a folder for the stores' data.
    """
    driver = DriverSession.acquire(SessionRequest({"delta", "s3a", "azure"}))
    try:
        with (
            Minio(data / "minio") as minio,
            Azurite(data / "azurite") as azurite,
            FakeGcs(data / "gcs") as gcs,
            sites(minio, azurite, gcs, data) as found,
        ):
            yield found
    finally:
        driver.stop()
