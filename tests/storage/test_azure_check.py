"""The connection test of Azure: what it finds, what it advises, what it never shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lakeport.config.destinations.azure import DeltaLakeAzureConfig
from lakeport.loading.check import CheckReport
from tests.emulators import Azurite
from tests.storage.behaviours import checked


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with Azurite(tmp_path_factory.mktemp("azurite")) as server:
        server.create_container("lake")
        yield server


def config(azurite: Azurite, container: str = "lake", **more: Any) -> DeltaLakeAzureConfig:
    uri = azurite.uri(container, "silver/users")
    return DeltaLakeAzureConfig(table_uri=uri, **{**azurite.config, **more})


def sas(azurite: Azurite, hours: int = 1, **permissions: bool) -> dict[str, Any]:
    return {"access_key": None, "sas_token": azurite.sas("lake", hours, **permissions)}


def failed(report: CheckReport) -> dict[str, str]:
    return {i.name: f"{i.detail} {i.hint}" for i in report.items if i.status == "failed"}


def test_all_is_well_and_nothing_stays(azurite: Azurite) -> None:
    report = checked(config(azurite))
    assert report.ok, report
    names = [item.name for item in report.items]
    spark = ["spark", "spark write", "spark conditional write", "spark read", "spark list"]
    assert names == [
        *("credentials", "container", "clock", "write", "conditional writes", "delete"),
        *(*spark, "spark delete"),
    ]
    left = azurite.client().get_container_client("lake").list_blobs(include=["metadata"])
    assert all("hdi_isfolder" in (blob.metadata or {}) for blob in left)
    assert azurite.account_key not in repr(report)


def test_a_wrong_container(azurite: Azurite) -> None:
    assert "no such container" in failed(checked(config(azurite, "lagoon")))["container"]


def test_a_wrong_key(azurite: Azurite) -> None:
    report = checked(config(azurite, access_key="d3JvbmcgY2FuYXJ5"))
    assert "check `access_key`" in failed(report)["container"]
    assert "d3Jvbm" not in repr(report)


def test_an_expired_token(azurite: Azurite) -> None:
    report = checked(config(azurite, **sas(azurite, -1, list=True)))
    assert "has expired" in failed(report)["container"]


def test_missing_permissions(azurite: Azurite) -> None:
    read_only = checked(config(azurite, **sas(azurite, list=True, read=True)))
    assert "permits to write" in failed(read_only)["write"]
    keeps = sas(azurite, list=True, read=True, write=True, create=True, add=True)
    assert "permits to delete" in failed(checked(config(azurite, **keeps)))["delete"]


def test_an_endpoint_that_is_not_there(azurite: Azurite) -> None:
    report = checked(config(azurite, azure_endpoint="http://127.0.0.1:1"))
    assert "can't be reached" in failed(report)["container"]
